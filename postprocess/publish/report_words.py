"""What a run shows, said in words: the headline of a report.

Each sentence rests on figures of the same run and names them; none is said where the figures do
not bear it. Words here judge a run, never a paper's number.
"""

from __future__ import annotations

from collections.abc import Mapping

from postprocess.measure.stats import Estimate
from postprocess.read.counts import ReadBy, note

CLEAR = 0.3
"""A gap between two rates that is worth a sentence."""

HARDLY = 0.1
"""A rate that counts as hardly ever."""

TELLS_APART = 0.75
"""A share of pictures with P ranked above M from which scores tell the two apart."""


def pragmatch(
    name: str, found: Mapping[str, Estimate], kind: str, counts: ReadBy | None = None
) -> str:
    """One paragraph on a run of pairs or groups.

    Args:
        name: Model and prompt.
        found: Its figures.
        kind: `sample`, `custom` or `full`.
        counts: How its verdicts came about; None leaves that out.

    >>> pragmatch("m", {"n_left_out": Estimate(3.0, None, None, 3, "none")}, "full")
    'm: no picture has all its captions answered (3 left out).'
    """
    n, left_out = (int(_value(found, key) or 0) for key in ("n_pairs", "n_left_out"))
    accuracy, pairs = _value(found, "accuracy"), _value(found, "pair_acc")
    p, m, ell = (_value(found, key) for key in ("acc_p", "acc_m", "acc_l"))
    if accuracy is None or pairs is None or p is None or m is None:
        return f"{name}: no picture has all its captions answered ({left_out} left out)."
    but = "but" if accuracy - pairs > HARDLY else "and"
    parts = [
        f"{name}: accuracy {_percent(accuracy)}, {but} both captions right for "
        f"{_whole(pairs)}% of {n} pictures"
    ]
    group = _value(found, "group_acc")
    if group is not None:
        parts[0] += f", all three for {_whole(group)}%"
    sentences = [parts[0]]
    yes = _value(found, "yes_rate")
    no_evidence = yes is not None and yes <= HARDLY
    if no_evidence:
        sentences.append(
            f"It says Yes to {_whole(yes or 0)}% of the captions: M is right ({_whole(m)}%) "
            f"because hardly anything is called sarcastic, and P is not ({_whole(p)}%)"
        )
    elif p - m >= CLEAR:
        sentences.append(
            f"It takes mismatch for sarcasm: P is right for {_whole(p)}%, the arbitrary mismatch M "
            f"for {_whole(m)}%"
        )
    elif m - p >= CLEAR:
        sentences.append(f"It leans to No: M is right for {_whole(m)}%, P for {_whole(p)}%")
    if ell is not None and ell - m >= CLEAR and not no_evidence:
        sentences.append(
            f"Literal captions it recognises better ({_whole(ell)}% right) than mismatched ones"
        )
    sentences += _beyond(found)
    ranking = _value(found, "pair_ranking")
    if ranking is not None and ranking >= TELLS_APART and pairs < 0.5:
        sentences.append(
            f"Its scores rank P above M for {_whole(ranking)}% of pictures: the threshold is what "
            "is off"
        )
    elif ranking is not None and ranking < TELLS_APART:
        sentences.append(
            f"Its scores rank P above M for {_whole(ranking)}% of pictures (chance 50)"
        )
    unread = _value(found, "unusable_rate")
    if unread is not None and unread >= 0.02:
        sentences.append(f"{_whole(unread)}% of the answers hold no verdict and count as wrong")
    if counts is not None:
        sentences.append(note(counts))
    if left_out:
        sentences.append(f"{left_out} pictures are incomplete and left out")
    if kind != "full":
        sentences.append(_kind(kind))
    return ". ".join(sentences) + "."


def clash(
    name: str, conflict: Estimate | None, alarms: Estimate | None, image: Estimate | None, kind: str
) -> str:
    """One paragraph on a run of CLASH.

    >>> half = Estimate(0.5, 0.4, 0.6, 100, "wilson")
    >>> clash("m", half, None, None, "full")
    'm: flags the conflict for 50% of the false captions of 100 pictures; its false alarms are not \
known (..._original).'
    """
    if conflict is None or conflict.value is None:
        return f"{name}: no answers to conflicting captions."
    share = _whole(conflict.value)
    text = f"{name}: flags the conflict for {share}% of the false captions of {conflict.n} pictures"
    if alarms is None or alarms.value is None:
        text += "; its false alarms are not known (..._original)"
    else:
        text += f", and a conflict that is not there for {_whole(alarms.value)}% of true captions"
        if conflict.value - alarms.value < HARDLY:
            text += ": little more than it would flag anyway"
    if image is not None and image.value is not None and image.value >= 0.5:
        text += f". It mostly gives the picture's answer ({_whole(image.value)}%)"
    if kind != "full":
        text += f". {_kind(kind)}"
    return text + "."


def _beyond(found: Mapping[str, Estimate]) -> list[str]:
    excess, independence = found.get("pair_excess"), _value(found, "independence")
    if excess is None or excess.low is None or excess.high is None or independence is None:
        return []
    if independence in (0, 1):
        # Nothing is left for pairs to be better or worse at.
        return []
    if excess.low <= 0 <= excess.high:
        return [
            "Pairs come right about as often as they would if P and M had nothing to do with each "
            f"other ({_percent(independence)})"
        ]
    less = "less" if excess.high < 0 else "more"
    return [
        f"Pairs come right {less} often than if P and M had nothing to do with each other "
        f"({_percent(independence)})"
    ]


def _kind(kind: str) -> str:
    if kind == "sample":
        return "These are the sample's pictures: not a benchmark result"
    return "These are custom data: not comparable with the paper"


def _value(found: Mapping[str, Estimate], key: str) -> float | None:
    return found[key].value if key in found else None


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _whole(value: float) -> str:
    return f"{100 * value:.0f}"
