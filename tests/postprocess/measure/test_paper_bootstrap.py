import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postprocess.measure.paper_bootstrap import paper_bootstrap
from postprocess.measure.stats import resampled_sums
from tests import KNOWN_ANSWERS

KNOWN = json.loads((KNOWN_ANSWERS / "paper_bootstrap.json").read_text())


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: row["name"])
def test_the_papers_bootstrap_is_known(row):
    found = paper_bootstrap(row["input"]["values"], row["input"].get("draws", 1000))[0]
    for name, value in row["expected"].items():
        tolerance = row.get("tolerance", 0)
        assert getattr(found, name) == (
            None if value is None else pytest.approx(value, abs=tolerance)
        )


def reference(values, draws, seed):
    """The definition as a plain loop."""
    rng = np.random.default_rng(seed)
    means = [np.mean(rng.choice(values, size=len(values), replace=True)) for _ in range(draws)]
    return np.mean(means), np.std(means)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1), min_size=20, max_size=60))
def test_it_agrees_with_a_plain_loop_up_to_noise(values):
    found = paper_bootstrap(values)[0]
    mean, sd = reference(values, 400, seed=1)
    noise = 6 * np.std(values) / np.sqrt(len(values) * 400)
    assert found.mean == pytest.approx(mean, abs=2 * noise + 1e-12)
    assert found.sd == pytest.approx(sd, rel=0.3, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=50))
def test_its_spread_is_that_of_a_mean(values):
    found = paper_bootstrap(values, draws=4000)[0]
    exact = np.std(values) / np.sqrt(len(values))
    assert found.sd == pytest.approx(exact, rel=0.1, abs=1e-12)


def test_columns_share_the_resamples():
    flags = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    one, other = paper_bootstrap(flags)
    assert one.mean + other.mean == pytest.approx(1)
    assert one.sd == pytest.approx(other.sd)
    assert paper_bootstrap(flags[:, 0])[0] == one


def test_the_spread_of_two_resamples_is_half_their_difference():
    values = [0, 1, 1, 0, 1, 0, 0]
    one, other = resampled_sums(np.array(values)[:, None], draws=2, seed=5)[:, 0] / 7
    found = paper_bootstrap(values, draws=2, seed=5)[0]
    assert one != other
    assert found.sd == pytest.approx(abs(one - other) / 2)
    assert found.mean == pytest.approx((one + other) / 2)


def test_a_seed_repeats_and_another_differs():
    values = [0, 1] * 50
    assert paper_bootstrap(values, seed=3) == paper_bootstrap(values, seed=3)
    assert paper_bootstrap(values, seed=3) != paper_bootstrap(values, seed=4)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        paper_bootstrap(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="draws"):
        paper_bootstrap([1], draws=0)
