"""Schedules: numbers as functions of the share of the training that is done.

They serve :class:`~setwise.training.Blend` as its share and :class:`~setwise.training.Anneal` as its value. With w in
[0, 1] the share of the way from ``begin`` to ``finish``:

    linear:     start + w (end - start)
    cosine:     start + (1 - cos(pi w)) / 2 (end - start)       flat at both ends
    geometric:  start (end / start)^w                           the same factor in every step

>>> from setwise.training import cosine, linear, warm_up
>>> [linear(1.0, 0.2)(done) for done in (0.0, 0.5, 1.0)]
[1.0, 0.6, 0.2]
>>> [warm_up(0.2, to=0.5)(done) for done in (0.0, 0.19, 0.2, 1.0)]
[0.0, 0.0, 0.5, 0.5]
>>> cosine(0.0, 1.0, begin=0.5)
Schedule(shape='cosine', start=0.0, end=1.0, begin=0.5, finish=1.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from setwise import _checks

SHAPES = ("linear", "cosine", "geometric")


@dataclass(frozen=True)
class Schedule:
    """A number that goes from one value to another while training goes on.

    Args:
        shape: ``"linear"``, ``"cosine"`` or ``"geometric"`` (both values of one sign, neither 0).
        start: The value up to ``begin``.
        end: The value from ``finish`` on.
        begin: Share of the training at which it starts to change.
        finish: Share at which it is there; equal to ``begin`` it jumps.
    """

    shape: str
    start: float
    end: float
    begin: float = 0.0
    finish: float = 1.0

    def __post_init__(self) -> None:
        _checks.one_of("shape", self.shape, SHAPES)
        for name in ("start", "end"):
            _checks.in_range(name, getattr(self, name), open_low=True, open_high=True)
        if self.shape == "geometric" and self.start * self.end <= 0:
            raise _checks.InputError(
                "Expected `start` and `end` to be of one sign and not 0 for a geometric schedule, "
                f"but got {self.start} and {self.end}."
            )
        _checks.in_range("begin", self.begin, 0.0, 1.0)
        _checks.in_range("finish", self.finish, self.begin, 1.0)

    def __call__(self, done: float) -> float:
        """The value when the share ``done`` of the training is done."""
        if done >= self.finish:  # first, so that a jump at 0 is at its end
            return float(self.end)
        if done <= self.begin:
            return float(self.start)
        way = (done - self.begin) / (self.finish - self.begin)
        if self.shape == "geometric":
            return float(self.start * (self.end / self.start) ** way)
        if self.shape == "cosine":
            way = (1 - math.cos(math.pi * way)) / 2
        return self.start + way * (self.end - self.start)


def linear(start: float, end: float, *, begin: float = 0.0, finish: float = 1.0) -> Schedule:
    """In a straight line from ``start`` to ``end``; see :class:`Schedule`."""
    return Schedule("linear", start, end, begin, finish)


def cosine(start: float, end: float, *, begin: float = 0.0, finish: float = 1.0) -> Schedule:
    """Along half a cosine from ``start`` to ``end``; see :class:`Schedule`."""
    return Schedule("cosine", start, end, begin, finish)


def geometric(start: float, end: float, *, begin: float = 0.0, finish: float = 1.0) -> Schedule:
    """By the same factor in every step from ``start`` to ``end``; see :class:`Schedule`."""
    return Schedule("geometric", start, end, begin, finish)


def warm_up(share: float, to: float, *, ramp: float = 0.0) -> Schedule:
    """0 for the first ``share`` of the training, then ``to``.

    In a :class:`~setwise.training.Blend` it is the first loss alone that warms up.

    Args:
        share: How much of the training is warm-up, in [0, 1].
        to: The value afterwards.
        ramp: Share of the training over which it rises to there; 0 is a jump.
    """
    _checks.in_range("share", share, 0.0, 1.0)
    _checks.in_range("ramp", ramp, 0.0, 1.0 - share)
    return Schedule("linear", 0.0, to, share, share + ramp)
