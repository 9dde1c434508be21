"""The worked example of CONTRIBUTING.md works as it stands there."""

import json
import re

import pytest

from postprocess.measure import pragmatch
from postprocess.measure.estimate import difference, estimate
from postprocess.measure.metric import registry, value
from postprocess.tables.model import baselines, columns_of
from tests import ROOT
from tests.postprocess.pragmatch_answers import answers_from

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
((CODE,), (KNOWN,)) = (
    re.findall(rf"```{kind}\n(.*?)```", TEXT, re.S) for kind in ("python", "json")
)


@pytest.fixture(scope="module")
def metric():
    names = {}
    exec(CODE, names)
    return names["pl_acc"]


@pytest.mark.parametrize("row", json.loads(KNOWN), ids=lambda row: row["name"])
def test_its_known_answers_hold(metric, row):
    answers = answers_from(row["answers"], row["n_omitted"])
    frame = pragmatch.frame(answers, pragmatch.slots_for(row["family"]))
    assert value(metric, frame) == row["expected"], row["why"]


def test_interval_test_and_column_follow_from_the_entry(metric):
    frames = [
        pragmatch.frame(
            answers_from(
                [
                    [str(n), slot, said]
                    for n in range(10)
                    for slot, said in (("P", 1), ("M", 0), ("L", int(n < wrong)))
                ]
            ),
            pragmatch.PML,
        )
        for wrong in (2, 8)
    ]
    found = estimate(metric, frames[0])
    assert (found.value, found.n, found.method) == (0.8, 10, "wilson")
    assert difference(metric, *frames).test.exact == pytest.approx(2 * 0.5**6)
    known = registry([*pragmatch.METRICS.values(), metric])
    (column,) = columns_of(known, "pl_acc")
    chance, always_no = baselines([column])
    assert chance.cells["pl_acc"].estimate.value == 0.25
    assert always_no.cells["pl_acc"].estimate.value == 0.0
