"""What HiGHS keeps from one call to the next: a model of the matrices, sides as it wants them, and bases."""

from __future__ import annotations

import math
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from setwise.lp.operator import Matrix
from setwise.lp.presolve.reductions import DependentRows
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.highs_model import Model, Rows
from setwise.lp.solvers.verifier import form_to_verify
from setwise.lp.standard_form import AnyArray, Array, StandardForm


class HotStart:
    """What HiGHS keeps from one call of :func:`~setwise.lp.solve` to the next: the model, and the last bases.

    It serves programs over the same matrices (the same tensors, not changed in between) with the same settings, in
    which costs, sides and bounds may differ; for any others it starts afresh. Each place of a batch starts from the
    basis that it ended with, where that saves half of the iterations: in a training that sees the same examples in the
    same order it does. Where it does not, as in batches drawn anew, it is tried again after 1, 2, 4, ... calls. Where
    several points are optimal, which one is found may depend on the calls before.

    Examples:
        >>> import torch
        >>> from setwise import lp
        >>> A, b, memory = torch.ones(1, 2).double(), torch.ones(1).double(), HotStart()
        >>> for c in torch.tensor([[-1.0, -2.0], [-2.0, -1.0]]).double():
        ...     print(lp.solve(lp.LinearProgram(c, A, b), lp.HiGHS(), memory=memory).primal.tolist())
        [0.0, 1.0]
        [1.0, 0.0]
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.stamp: Stamp | None = None
        self.settings: tuple[Any, ...] = ()
        self.sides: Sides | None = None
        self.rows: Rows | None = None
        self.models: dict[int, Model] = {}  # by worker
        self.dependent: tuple[DependentRows | None] | None = None  # None until they were looked for
        self.bases: list[Any] = []
        self.cold = math.inf  # mean iterations without them
        self.pause = self.length = 0  # calls to go without them, and how many it was last time

    @property
    def lock(self) -> Lock:
        """For one thread at a time; made when it is first asked for, since torch.compile cannot make one."""
        lock: Lock = self.__dict__.setdefault("_lock", Lock())
        return lock

    def knows(self, problem: LinearProgram) -> bool:
        """Whether the model is of these matrices."""
        return self.stamp is not None and self.stamp.fits(problem)

    def open(self, problem: LinearProgram, settings: tuple[Any, ...]) -> None:
        """Start afresh where matrices or settings are others."""
        if not (self.knows(problem) and self.settings == settings):
            self.clear()
            self.stamp, self.settings = Stamp(problem, ("A", "A_eq")), settings

    def sides_of(self, problem: LinearProgram) -> Sides:
        """Sides and bounds of the programs in the order of HiGHS, read again where they are others."""
        if self.sides is None or not self.sides.fit(problem):
            self.sides = Sides.of(problem)
        return self.sides

    def is_in_usual_units(self, problem: LinearProgram) -> bool:
        """Whether the last call has found the same matrices and sides in units that need no scaling."""
        return self.knows(problem) and self.sides is not None and self.sides.usual and self.sides.fit(problem)

    def starts(self, count: int) -> list[Any]:
        """A basis, or None, for each program of a batch."""
        return list(self.bases) if not self.pause and len(self.bases) == count else [None] * count

    @property
    def asks_for_bases(self) -> bool:
        """Whether the next call may start from those of this one."""
        return self.pause <= 1

    def note(self, bases: list[Any], steps: float, *, hot: bool) -> None:
        """Keep the bases of a batch; where to start from the ones before did not pay, do without them for a while."""
        self.bases, self.pause = bases, max(0, self.pause - 1)
        if not hot:
            self.cold = steps
        elif steps > tol.HOT_SHARE * self.cold:
            self.pause = self.length = min(max(1, 2 * self.length), tol.HOT_PAUSE)
        else:
            self.length = 0

    def __reduce__(self) -> tuple[type[HotStart], tuple[()]]:
        """Copies and pickles start afresh."""
        return type(self), ()


class Stamp:
    """Some fields of a program, by which they are known again as long as nobody changes them."""

    def __init__(self, problem: LinearProgram, names: tuple[str, ...]) -> None:
        # A tensor with a graph is another one next time, and would keep that graph alive.
        parts = (getattr(problem, name) for name in names)
        self.names, self.parts = names, [None if getattr(part, "grad_fn", None) else part for part in parts]
        self.versions = [_version(part) for part in self.parts]

    def fits(self, problem: LinearProgram) -> bool:
        """Whether these are the fields of a program."""
        same = all(_is_same(part, getattr(problem, name)) for name, part in zip(self.names, self.parts, strict=True))
        return same and self.versions == [_version(part) for part in self.parts]


def _is_same(part: Matrix | None, other: Matrix) -> bool:
    """Whether two fields are one object, or matrices without rows, of which a program makes a new one each time."""
    if part is None or part is other:
        return part is other
    return tuple(part.shape) == tuple(other.shape) and part.shape[-2:-1] == (0,)


def _version(part: Matrix | None) -> object:
    """How often a tensor was changed in place; an object that equals no other where that is not known."""
    return part._version if isinstance(part, Tensor) and not part.is_inference() else object()  # noqa: SLF001


class Sides(NamedTuple):
    """Sides and bounds of a batch."""

    stamp: Stamp
    form: StandardForm  # whose costs are those of the first call
    low: Array  # of the rows, shape: (batch, rows)
    high: Array  # shape: (batch, rows)
    lower: Array  # shape: (batch, n)
    upper: Array  # shape: (batch, n)
    each: list[tuple[Array, ...]]  # these four of each program, the same objects where all have the same
    crossed: list[int]  # a variable whose bounds exclude each other, or -1
    usual: bool  # whether all is in units that need no scaling

    def fit(self, problem: LinearProgram) -> bool:
        """Whether these are the sides of a batch."""
        return len(self.each) == problem.batch_shape.numel() and self.stamp.fits(problem)

    @classmethod
    def of(cls, problem: LinearProgram) -> Sides:
        """Those of a batch."""
        form = form_to_verify(problem)
        lower, upper = (as_numpy(part) for part in form.bounds)
        side = np.where(as_numpy(form.mask) > 0, as_numpy(form.h), np.inf)[:, : problem.inequalities]
        low, high = (np.concatenate([part, as_numpy(form.e)], 1) for part in (np.full_like(side, -np.inf), side))
        wrong = lower > upper
        crossed = np.where(wrong.any(1), wrong.argmax(1), -1).tolist()
        stamp = Stamp(problem, ("A", "A_eq", "b", "b_eq", "lower", "upper"))
        parts = (low, high, lower, upper)
        each = list(zip(*map(_rows, parts), strict=True))
        return cls(stamp, form, *parts, each, crossed, usual=False)


def _rows(part: Array) -> list[Array]:
    """The rows of an array, a single object where all are equal."""
    return [part[0]] * len(part) if len(part) and (part == part[:1]).all() else list(part)


def as_numpy(value: AnyArray) -> Array:
    """The same on NumPy arrays."""
    return value.numpy(force=True) if isinstance(value, Tensor) else value
