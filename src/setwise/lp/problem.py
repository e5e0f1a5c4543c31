"""Linear programs as data, validated once for every solver.

The problem, for each element of a batch, is

    min c'z + offset   s.t.   A z <= b,   A_eq z = b_eq,   lower <= z <= upper.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self, cast

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import _program_checks
from setwise.lp.operator import Matrix, batch_of, is_csr, kind, matvec, to_dense
from setwise.lp.solvers import tolerances as tol

FIELDS = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper", "offset")
_MATRICES = ("A", "A_eq")
_SIDES = ("b", "b_eq", "lower", "upper")


class Residuals(NamedTuple):
    """By how much a point breaks each constraint; all zeros mean that it is feasible."""

    inequality: Tensor  # relu(A z - b), shape: (*batch, m)
    equality: Tensor  # A_eq z - b_eq, with its sign, shape: (*batch, equalities)
    bound: Tensor  # distance of z from [lower, upper], shape: (*batch, n)

    def largest(self) -> Tensor:
        """The largest violation of each batch element, shape (*batch,)."""
        return torch.cat([self.inequality, self.equality.abs(), self.bound], dim=-1).amax(-1)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LinearProgram:
    """A batch of linear programs min c'z + offset s.t. A z <= b, A_eq z = b_eq, lower <= z <= upper.

    The leading dimensions of all fields broadcast to ``batch_shape``. Tensors are kept as they are given, so gradients
    reach whatever they were computed from; every tensor has the dtype and device of ``c``. Numbers (not tensors) are
    converted, and an absent matrix becomes one with 0 rows, so that every field of a program is set.

    ``b = inf`` switches a row off, ``lower = -inf`` makes a variable free; numbers of 1e20 and beyond count as
    infinite. A program with ``lower > upper`` is a valid
    description of an infeasible problem, not an error.

    Args:
        c: Cost, shape (*batch, n), float32 or float64.
        A: Inequality matrix, shape (*batch, m, n): dense; ``torch.sparse_csr`` of shape (m, n), shared by the whole
            batch; or a :class:`~setwise.lp.LinearOperator`. None for no inequalities.
        b: Right-hand side of the inequalities, shape (*batch, m); numbers or inf.
        A_eq: Equality matrix, shape (*batch, equalities, n), in any of the three kinds. None for no equalities.
        b_eq: Right-hand side of the equalities, shape (*batch, equalities).
        lower: Lower bounds, a number or a tensor of shape () or (*batch, n); numbers or -inf.
        upper: Upper bounds, a number or a tensor of shape () or (*batch, n); numbers or inf.
        offset: A constant added to the objective, a number or a tensor of shape (*batch,).

    Raises:
        TypeError: A field of the wrong type, dtype or layout.
        InputError: Shapes that do not fit, NaN, or an infinity without meaning. Values are looked at in eager mode
            only, and those of an operator never.

    Examples:
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0]]), torch.tensor([4.0])
        >>> program = LinearProgram(c, A, b, upper=3)
        >>> program
        LinearProgram(variables=2, inequalities=1, equalities=0, batch_shape=(), A=dense, dtype=torch.float32,
            device=cpu)
        >>> program.objective(torch.tensor([1.0, 3.0]))
        tensor(-7.)
        >>> program.residuals(torch.tensor([1.0, 3.5])).largest()
        tensor(0.5000)
    """

    c: Tensor
    A: Matrix
    b: Tensor
    A_eq: Matrix
    b_eq: Tensor
    lower: Tensor
    upper: Tensor
    offset: Tensor
    _batch: torch.Size = field(init=False)  # asked for so often that it is kept

    def __init__(
        self,
        c: Tensor,
        A: Matrix | None = None,
        b: Tensor | None = None,
        A_eq: Matrix | None = None,
        b_eq: Tensor | None = None,
        lower: float | Tensor = 0.0,
        upper: float | Tensor = math.inf,
        *,
        offset: float | Tensor = 0.0,
    ) -> None:
        _program_checks.cost("c", c)
        n = c.shape[-1]
        self._set(c=c, offset=_program_checks.number_or_tensor("offset", offset, c))
        for name, rows, side_name, side in (("A", A, "b", b), ("A_eq", A_eq, "b_eq", b_eq)):
            _program_checks.paired(name, rows, side_name, side)
            matrix = c.new_zeros(0, n) if rows is None else rows
            vector = c.new_zeros(0) if side is None else side
            _program_checks.matrix(name, matrix, n, c)
            _program_checks.vector(side_name, vector, matrix.shape[-2], f"one entry per row of `{name}`", c)
            self._set(**{name: matrix, side_name: vector})
        for name, bound in (("lower", lower), ("upper", upper)):
            value = _program_checks.number_or_tensor(name, bound, c)
            value = value.expand(n) if value.dim() == 0 else value
            _program_checks.vector(name, value, n, "one entry per entry of `c`", c)
            self._set(**{name: value})
        if _checks.values_are_readable() and c.device.type != "meta":
            for name in _SIDES:
                self._set(**{name: _program_checks.with_infinity(getattr(self, name), tol.INFINITY)})
            self._check_values()
        self._set_batch()

    @classmethod
    def from_general(
        cls,
        g: Tensor | None = None,
        h: Tensor | None = None,
        E: Tensor | None = None,
        F: Tensor | None = None,
        p: Tensor | None = None,
        B: Tensor | None = None,
        G: Tensor | None = None,
        q: Tensor | None = None,
    ) -> Self:
        """The program max g'u + h'v s.t. E u + F v <= p, B u + G v = q, u >= 0, v >= 0.

        With z = (u, v) this is min c'z for c = -(g, h), A = [E F], b = p, A_eq = [B G], b_eq = q, lower = 0. The
        optimal value here is therefore minus the maximum. A block given as None is absent: zero beside its neighbour.

        Args:
            g: Gain of u, shape (*batch, size of u).
            h: Gain of v, shape (*batch, size of v).
            E: Inequality columns of u, shape (*batch, m, size of u).
            F: Inequality columns of v, shape (*batch, m, size of v).
            p: Right-hand side of the inequalities, shape (*batch, m).
            B: Equality columns of u, shape (*batch, equalities, size of u).
            G: Equality columns of v, shape (*batch, equalities, size of v).
            q: Right-hand side of the equalities, shape (*batch, equalities).

        Returns:
            The program in z = (u, v), with dense matrices.

        Raises:
            TypeError: A block that is no dense floating-point tensor, or of another dtype than the rest.
            InputError: Blocks whose sizes do not fit, or a family of rows without its right-hand side.

        Examples:
            >>> program = LinearProgram.from_general(g=torch.ones(2), E=torch.eye(2), p=torch.tensor([1.0, 2.0]))
            >>> program.c, program.b
            (tensor([-1., -1.]), tensor([1., 2.]))
        """
        c, A, b, A_eq, b_eq = _program_checks.stack(g=g, h=h, E=E, F=F, p=p, B=B, G=G, q=q)
        return cls(cast("Tensor", c), A, b, A_eq, b_eq)

    @property
    def variables(self) -> int:
        """The number n of variables."""
        return self.c.shape[-1]

    @property
    def inequalities(self) -> int:
        """The number m of inequality rows."""
        return self.b.shape[-1]

    @property
    def equalities(self) -> int:
        """The number of equality rows."""
        return self.b_eq.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """The broadcast of the leading dimensions of all fields."""
        return self._batch

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of every tensor."""
        return self.c.dtype

    @property
    def device(self) -> torch.device:
        """The device of every tensor."""
        return self.c.device

    @property
    def requires_grad(self) -> bool:
        """Whether any tensor requires grad; what an operator holds inside is not seen."""
        return any(isinstance(value, Tensor) and value.requires_grad for value in self._fields().values())

    @property
    def has_entries(self) -> bool:
        """Whether both matrices are tensors, dense or CSR, and no operators."""
        return isinstance(self.A, Tensor) and isinstance(self.A_eq, Tensor)

    @property
    def is_dense(self) -> bool:
        """Whether both matrices are dense tensors."""
        return self.has_entries and not (is_csr(self.A) or is_csr(self.A_eq))

    def objective(self, z: Tensor) -> Tensor:
        """The value c'z + offset at a point of shape (*batch, n), whether feasible or not; shape (*batch,)."""
        return (self.c * self._point(z)).sum(-1) + self.offset

    def residuals(self, z: Tensor) -> Residuals:
        """By how much a point of shape (*batch, n) breaks the inequalities, the equalities and the bounds."""
        z = self._point(z)
        return Residuals(
            inequality=(matvec(self.A, z) - self.b).relu(),
            equality=matvec(self.A_eq, z) - self.b_eq,
            bound=torch.maximum(self.lower - z, z - self.upper).relu(),
        )

    def expand(self) -> LinearProgram:
        """The same program with every dense field expanded to ``batch_shape``, as views.

        A CSR matrix or an operator stays as it is: it serves the whole batch.
        """
        return self._mapped(lambda value, _: value)

    def element(self, *index: int) -> LinearProgram:
        """The program at one place of the batch, without batch dimensions.

        Examples:
            >>> programs = LinearProgram(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
            >>> programs.element(1).c
            tensor([3., 4.])
        """
        batch = self.batch_shape
        inside = len(index) == len(batch) and all(-size <= i < size for i, size in zip(index, batch, strict=True))
        if not inside:
            raise IndexError(f"Expected `index` to be one place in a batch of shape {tuple(batch)}, but got {index}.")
        for name in _MATRICES:
            matrix = getattr(self, name)
            if not isinstance(matrix, Tensor) and batch_of(matrix):
                raise TypeError(f"Expected `{name}` to be a tensor or one operator for all, but it is a batch of them.")
        return self._mapped(lambda value, _: value[index])

    def select(self, places: Tensor) -> LinearProgram:
        """The programs at some places of the batch, counted through.  # shape: (places,)."""
        count = self.batch_shape.numel()
        return self._mapped(lambda value, own: value.reshape(count, *own)[places])

    def _mapped(self, function: Callable[[Tensor, torch.Size], Tensor]) -> LinearProgram:
        """A function of every dense field, expanded to the batch, and of its shape without it."""
        values = {}
        for name, value in self._fields().items():
            if isinstance(value, Tensor) and not is_csr(value):
                own = value.shape[value.dim() - self._dims(name) :]
                values[name] = function(value.expand((*self.batch_shape, *own)), own)
        return self.replace(**values)

    def dense(self) -> LinearProgram:
        """The same program with dense matrices; an operator is applied to the n unit vectors."""
        A, A_eq = (to_dense(matrix, dtype=self.dtype, device=self.device) for matrix in (self.A, self.A_eq))
        return self.replace(A=A, A_eq=A_eq)

    def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> LinearProgram:
        """The same program on another device or in another dtype; operators move by their own method ``to``."""
        device = self.device if device is None else torch.device(device)
        dtype = dtype or self.dtype
        moved = {}
        for name, value in self._fields().items():
            if not isinstance(value, Tensor) and not hasattr(value, "to"):
                raise TypeError(f"Expected the operator `{name}` to have a method `to`, but {kind(value)} has none.")
            moved[name] = value.to(device=device, dtype=dtype)
        return type(self)(**moved)

    def __repr__(self) -> str:
        held = f"A={kind(self.A)}" + (f", A_eq={kind(self.A_eq)}" if self.equalities else "")
        return (
            f"{type(self).__name__}(variables={self.variables}, inequalities={self.inequalities}, "
            f"equalities={self.equalities}, batch_shape={tuple(self.batch_shape)}, {held}, "
            f"dtype={self.dtype}, device={self.device})"
        )

    def _fields(self) -> dict[str, Tensor | Matrix]:
        return {name: getattr(self, name) for name in FIELDS}

    def _dims(self, name: str) -> int:
        """How many dimensions of a field come after the batch."""
        return 2 if name in _MATRICES else 0 if name == "offset" else 1

    def _set_batch(self) -> None:
        shapes = {name: torch.Size(value.shape) for name, value in self._fields().items()}
        batches = [(name, shape[: len(shape) - self._dims(name)]) for name, shape in shapes.items()]
        object.__setattr__(self, "_batch", _program_checks.broadcast(batches))

    def _check_values(self) -> None:
        for name in ("c", "A", "A_eq", "b_eq", "offset"):
            _program_checks.finite(name, getattr(self, name))
        _program_checks.not_nan_nor(-math.inf, "b", self.b)
        _program_checks.not_nan_nor(math.inf, "lower", self.lower)
        _program_checks.not_nan_nor(-math.inf, "upper", self.upper)

    def _point(self, z: Tensor) -> Tensor:
        """The point with the batch dimensions of the program, so that every result has them too."""
        _program_checks.vector("z", z, self.variables, "one entry per variable", self.c)
        batch = _program_checks.broadcast([("the program", self.batch_shape), ("z", z.shape[:-1])])
        return z.expand(*batch, self.variables)

    def _set(self, **values: Matrix) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else

    def replace(self, **values: Matrix) -> LinearProgram:
        """A copy with other fields of the same shape, dtype and device, which are not checked again."""
        other = copy.copy(self)
        other._set(**values)  # noqa: SLF001 (of the same class)
        if any(value.shape != getattr(self, name).shape for name, value in values.items()):
            other._set_batch()  # noqa: SLF001
        return other


def check_program(name: str, value: object) -> None:
    """Refuse what is no program."""
    if not isinstance(value, LinearProgram):
        raise TypeError(f"Expected `{name}` to be a LinearProgram, but got {type(value).__name__}.")
