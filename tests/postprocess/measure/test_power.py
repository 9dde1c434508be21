"""The power told in advance is that of the test in the tables."""

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.power import NormalIndPower

from postprocess.measure import power as planned
from postprocess.measure.intervals import tango
from postprocess.measure.power import Design
from postprocess.measure.significance import paired


@pytest.mark.parametrize(
    ("n", "of"), [(19, Design(0.1, 0.3)), (30, Design(0.02, 0.2)), (12, Design(0.0, 0.5))]
)
def test_power_is_the_chance_that_p_and_interval_say_so(n, of):
    by_hand = 0.0
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            rest = n - gained - lost
            ways = [sum(np.log(np.arange(1, k + 1))) for k in (n, gained, lost, rest)]
            chance = np.exp(ways[0] - ways[1] - ways[2] - ways[3])
            chance *= of.gained**gained * of.lost**lost * (1 - of.discordance) ** rest
            if chance > 1e-9 and paired(gained, lost, n).p_value < 0.05:
                _, low, high, *_ = tango(gained, lost, n)
                assert low > 0 or high < 0
                by_hand += chance
    assert planned.power(n, of) == pytest.approx(by_hand, abs=1e-6)


def test_the_needed_number_is_enough_and_one_less_is_not():
    for of in (Design(0.1, 0.02), Design(0.02, 0.3), Design(0.0, 0.05)):
        n = planned.pictures_needed(of)
        assert all(planned.power(k, of) >= 0.8 for k in range(n, n + 20))
        assert planned.power(n - 1, of) < 0.8


def test_large_numbers_agree_with_the_normal_formula():
    of = planned.design(0.3, 0.05)
    needed = planned.pictures_needed(of)
    # The mean of one value a picture, as statsmodels plans a single sample.
    effect = of.difference / (of.discordance - of.difference**2) ** 0.5
    plain = NormalIndPower(ddof=0).solve_power(effect, alpha=0.05, power=0.8, ratio=0)
    assert needed == pytest.approx(plain, rel=0.02)
    assert planned.pictures_needed(Design(0.0051, 0.005)) is None


def test_a_design_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"difference of 0\.9 give 1\.2"):
        planned.design(0.3, 0.9)
    with pytest.raises(ValueError, match=r"discordance of 0.02 does not fit: .* 0.05 to 0.65"):
        planned.design(0.3, 0.05, 0.02)


def test_models_that_differ_on_fewer_pictures_need_fewer():
    apart = planned.pictures_needed(planned.design(0.3, 0.05))
    alike = planned.pictures_needed(planned.design(0.3, 0.05, 0.1))
    assert alike < apart / 3


def test_the_smallest_difference_is_just_seen():
    smallest = planned.detectable(100, lambda x: planned.design(0.3, x))
    assert planned.power(100, planned.design(0.3, smallest)) >= 0.8
    assert planned.power(100, planned.design(0.3, smallest - 0.001)) < 0.8
    assert planned.detectable(3, lambda x: Design(0.0, x)) is None


def test_nothing_is_seen_without_a_difference_or_pictures():
    assert planned.power(0, Design(0.1, 0.2)) == planned.power(50, Design(0.0, 0.0)) == 0.0
    assert planned.pictures_needed(Design(0.1, 0.1)) is None
    half = planned.power(2000, Design(0.1, 0.1))
    assert half == pytest.approx(2 * norm.sf(1.96), abs=0.004)
