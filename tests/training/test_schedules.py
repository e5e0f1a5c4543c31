from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise import InputError
from setwise.training import Schedule, cosine, geometric, linear, warm_up

SHAPES = st.sampled_from(["linear", "cosine", "geometric"])
POSITIVE = st.floats(0.01, 100)
SHARES = st.floats(0, 1)


@given(shape=SHAPES, start=POSITIVE, end=POSITIVE, times=st.tuples(SHARES, SHARES), done=st.tuples(SHARES, SHARES))
def test_every_shape_goes_from_start_to_end_without_turning_back(
    shape: str, start: float, end: float, times: tuple[float, float], done: tuple[float, float]
) -> None:
    schedule = Schedule(shape, start, end, *sorted(times))
    assert schedule(1.0) == end
    assert schedule(0.0) == start or schedule.finish == 0
    before, after = (schedule(share) for share in sorted(done))
    assert (after - before) * (end - start) >= -1e-9 * max(start, end) ** 2
    assert min(start, end) * (1 - 1e-12) <= before <= max(start, end) * (1 + 1e-12)


def test_values_are_those_of_the_formulas() -> None:
    assert linear(1.0, 0.2)(0.25) == pytest.approx(0.8)
    assert cosine(2.0, 0.0)(0.25) == pytest.approx(1 + math.cos(math.pi / 4))
    assert geometric(1.0, 0.01)(0.5) == pytest.approx(0.1)
    assert geometric(-4.0, -1.0)(0.5) == pytest.approx(-2)
    assert linear(0.0, 1.0, begin=0.2, finish=0.6)(0.3) == pytest.approx(0.25)


def test_warm_up_jumps_or_rises() -> None:
    assert [warm_up(0.5, 0.8)(done) for done in (0.0, 0.499, 0.5, 1.0)] == [0, 0, 0.8, 0.8]
    assert warm_up(0.0, 0.8)(0.0) == 0.8
    assert [warm_up(0.5, 0.8, ramp=0.25)(done) for done in (0.5, 0.625, 0.75)] == pytest.approx([0, 0.4, 0.8])


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (Schedule, ("square", 0.0, 1.0), "`shape` to be one of.*'square'"),
        (geometric, (1.0, 0.0), "one sign and not 0"),
        (geometric, (1.0, -1.0), "one sign and not 0"),
        (linear, (math.inf, 1.0), "`start`"),
        (linear, (0.0, math.nan), "`end`"),
        (Schedule, ("linear", 0.0, 1.0, 0.5, 0.4), "`finish`.*0.4"),
        (Schedule, ("linear", 0.0, 1.0, -0.1), "`begin`"),
        (warm_up, (1.5, 0.5), "`share`"),
    ],
)
def test_refusals(make: Any, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(*arguments)


def test_a_ramp_must_end_with_the_training() -> None:
    assert warm_up(0.5, 0.8, ramp=0.5).finish == 1
    with pytest.raises(InputError, match="`ramp`"):
        warm_up(0.5, 0.8, ramp=0.6)
