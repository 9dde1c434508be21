"""The audit: figures against a count by hand, both sources, and its warning."""

import pytest

from lmms_eval_tasks.pragmatch.make.audit import (
    audit,
    audit_sources,
    rows_with,
    table,
    to_json,
    warnings_of,
)
from lmms_eval_tasks.pragmatch.make.caption_only import CaptionOnly, format_features
from tests.lmms_eval_tasks.fake_mmsd import embed

N = 30


def rows(m="The {0} was seen by visitor {0}.", p="so great , {0} again ! ! <user>"):
    out = []
    for i in range(N):
        captions = {"P": p.format(i), "L": f"A thing {i} lies here.", "M": m.format(i)}
        for condition, caption in captions.items():
            out.append(
                {
                    "sample_id": f"{i}-{condition}",
                    "image_id": f"{i}",
                    "condition": condition,
                    "cue": None,
                    "edit": None,
                    "caption": caption,
                    "label": int(condition == "P"),
                    "fold": i % 3,
                }
            )
    return out


def test_captions_told_apart_by_format_are_solved_and_warned_of():
    lines = audit(rows(), "captions", embed)
    assert [(x.features, x.pair.value) for x in lines][1] == ("format", 1.0)
    assert lines[1].pair.low == pytest.approx(0.8865, abs=1e-3)
    (warning,) = [w for w in warnings_of(lines) if "format" in w]
    assert "100.0% of the pairs" in warning


def test_one_format_for_both_leaves_nothing_to_see():
    lines = audit(rows(m="so great , {0} again ! ! <user>"), "mmsd_negatives", None)
    assert [line.features for line in lines] == ["format"]
    assert lines[0].pair.value < 0.5
    assert warnings_of(lines) == []


def test_rates_agree_with_a_count_by_hand():
    data = rows(m="wow {0} , well ! done")
    for row in data[::4]:
        row["caption"] = "so great , again ! ! <user>" + " !" * (int(row["image_id"]) % 3)
    line = audit(data, "captions", None)[0]
    classifier = CaptionOnly(data, format_features, "format")
    right = {}
    for row in data:
        if row["condition"] != "L":
            says = classifier.score(row["caption"], row["image_id"]).log_odds > 0
            right.setdefault(row["image_id"], []).append(says == bool(row["label"]))
    assert line.item.value == pytest.approx(sum(map(sum, right.values())) / (2 * N))
    assert line.pair.value == sum(map(all, right.values())) / N
    assert line.item.low <= line.item.value <= line.item.high


def test_order_changes_nothing():
    assert audit(rows(), "captions", embed) == audit(rows()[::-1], "captions", embed)


def test_both_sources_and_why_one_is_missing():
    others = {"mmsd_negatives": {str(i): f"fine morning {i} <user>" for i in range(N)}}
    lines, missing = audit_sources(rows(), "captions", others, embed)
    assert [line.m_source for line in lines] == ["captions"] * 2 + ["mmsd_negatives"] * 2
    assert missing == {}
    lines, missing = audit_sources(rows(), "captions", {"mmsd_negatives": "no such post"}, embed)
    assert missing == {"mmsd_negatives": "no such post"}
    printed = table(to_json(lines), missing)
    assert "| mmsd_negatives | not available: no such post |" in printed
    assert "| captions | format | 30 | 100.0 | 100.0 [88.6, 100.0] |" in printed


def test_another_m_replaces_only_m_and_needs_its_picture():
    found = rows_with(rows(), {"3": "new m"})
    assert [row["caption"] for row in found] == [
        "so great , 3 again ! ! <user>", "A thing 3 lies here.", "new m",
    ]  # fmt: skip


def test_one_fold_is_said_not_raised():
    data = [{**row, "fold": 0} for row in rows()]
    lines, missing = audit_sources(data, "captions", {}, None)
    assert lines == []
    assert "one fold" in missing["captions"]
