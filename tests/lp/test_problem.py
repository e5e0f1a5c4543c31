"""LinearProgram: sizes, broadcasting, the three kinds of matrix, values, gradients, copies."""

from __future__ import annotations

import copy
import dataclasses
import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from setwise.lp import LinearOperator, LinearProgram
from setwise.lp.operator import Matrix, matvec, rmatvec

BATCHES = [(), (3,), (2, 3)]


class Operator:
    """A matrix behind its products, with a batch or without."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix
        self.shape = tuple(matrix.shape)

    def matvec(self, z: Tensor) -> Tensor:
        return torch.einsum("...mn,...n->...m", self.matrix, z)

    def rmatvec(self, y: Tensor) -> Tensor:
        return torch.einsum("...mn,...m->...n", self.matrix, y)


class MovableOperator(Operator):
    def to(self, *, device: torch.device, dtype: torch.dtype) -> MovableOperator:
        return MovableOperator(self.matrix.to(device=device, dtype=dtype))


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def sparse(*shape: int) -> Tensor:
    return normal(*shape) * (torch.rand(*shape) < 0.5)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_sizes_dtype_and_repr() -> None:
    program = LinearProgram(normal(4), normal(3, 4), normal(3), normal(2, 4), normal(2))
    assert (program.variables, program.inequalities, program.equalities) == (4, 3, 2)
    assert program.batch_shape == torch.Size()
    assert program.dtype == torch.float64
    assert program.device == torch.device("cpu")
    assert repr(program) == (
        "LinearProgram(variables=4, inequalities=3, equalities=2, batch_shape=(), A=dense, A_eq=dense, "
        "dtype=torch.float64, device=cpu)"
    )


def test_repr_names_how_the_matrix_is_held() -> None:
    c, b = normal(4), normal(3)
    assert "A=csr" in repr(LinearProgram(c, sparse(3, 4).to_sparse_csr(), b))
    assert "A=Operator" in repr(LinearProgram(c, Operator(normal(3, 4)), b))


def test_fields_are_kept_as_given() -> None:
    given = {"c": normal(4), "A": normal(3, 4), "b": normal(3), "A_eq": normal(2, 4), "b_eq": normal(2)}
    bounds = {"lower": normal(4) - 5, "upper": normal(4) + 5, "offset": normal()}
    program = LinearProgram(**given, **bounds)
    for name, value in (given | bounds).items():
        assert getattr(program, name) is value


def test_defaults_are_tensors_without_rows_and_the_positive_orthant() -> None:
    program = LinearProgram(torch.ones(2, dtype=torch.float32))
    assert program.A.shape == (0, 2)
    assert program.b.shape == (0,)
    assert program.A_eq.shape == (0, 2)
    assert program.b_eq.shape == (0,)
    assert program.lower.tolist() == [0.0, 0.0]
    assert program.upper.tolist() == [math.inf, math.inf]
    assert program.offset.shape == ()
    assert {field.dtype for field in (program.b, program.lower, program.upper, program.offset)} == {torch.float32}


@pytest.mark.parametrize("rows", [torch.zeros(0, 2), torch.zeros(0, 2).to_sparse_csr(), Operator(torch.zeros(0, 2))])
def test_a_matrix_without_rows_works(rows: Matrix) -> None:
    program = LinearProgram(torch.ones(2), rows, torch.zeros(0))
    residuals = program.residuals(torch.tensor([-1.0, 2.0]))
    assert residuals.inequality.shape == (0,)
    assert residuals.bound.tolist() == [1.0, 0.0]
    assert residuals.largest() == 1.0


def test_a_number_or_a_0d_tensor_bounds_every_variable() -> None:
    ceiling = torch.tensor(2.0, requires_grad=True)
    program = LinearProgram(torch.ones(3), lower=-1, upper=ceiling)
    assert program.lower.tolist() == [-1.0] * 3
    assert program.upper.tolist() == [2.0] * 3
    torch.autograd.backward(program.upper.sum())
    assert ceiling.grad == 3.0


@pytest.mark.parametrize("part", ["c", "A", "b", "A_eq", "b_eq", "lower", "upper", "offset"])
@pytest.mark.parametrize("batch", BATCHES)
def test_any_one_field_can_carry_the_batch(part: str, batch: tuple[int, ...]) -> None:
    shapes = {"c": (4,), "A": (3, 4), "b": (3,), "A_eq": (2, 4), "b_eq": (2,), "lower": (4,), "upper": (4,)}
    fields = {name: normal(*(batch if name == part else ()), *shape) for name, shape in shapes.items()}
    program = LinearProgram(**fields, offset=normal(*(batch if part == "offset" else ())))
    assert program.batch_shape == batch
    z = normal(4)
    assert program.objective(z).shape == batch
    residuals = program.residuals(z)
    assert [tuple(part.shape) for part in residuals] == [(*batch, 3), (*batch, 2), (*batch, 4)]
    assert residuals.largest().shape == batch


def test_batches_broadcast_and_expand() -> None:
    program = LinearProgram(normal(2, 1, 4), normal(5, 3, 4), normal(3), lower=normal(1, 5, 4) - 9, upper=9.0)
    assert program.batch_shape == (2, 5)
    full = program.expand()
    assert full.c.shape == (2, 5, 4)
    assert full.A.shape == (2, 5, 3, 4)
    assert full.b.shape == (2, 5, 3)
    assert full.A_eq.shape == (2, 5, 0, 4)
    assert full.lower.shape == full.upper.shape == (2, 5, 4)
    assert full.offset.shape == (2, 5)
    assert full.b.data_ptr() == program.b.data_ptr(), "expanding must not copy"
    z = normal(2, 5, 4)
    torch.testing.assert_close(full.objective(z), program.objective(z))
    torch.testing.assert_close(tuple(full.residuals(z)), tuple(program.residuals(z)))


def test_expand_leaves_sparse_matrices_and_operators_alone() -> None:
    matrix, operator = sparse(3, 4).to_sparse_csr(), Operator(normal(2, 4))
    full = LinearProgram(normal(5, 4), matrix, normal(3), operator, normal(2)).expand()
    assert full.A is matrix
    assert full.A_eq is operator
    assert full.b.shape == (5, 3)


def test_element_is_one_program_of_the_batch() -> None:
    program = LinearProgram(normal(2, 1, 4), normal(5, 3, 4), normal(3), offset=normal(2, 1))
    one = program.element(1, -2)
    assert one.batch_shape == ()
    z = normal(2, 5, 4)
    torch.testing.assert_close(one.objective(z[1, 3]), program.objective(z)[1, 3])
    torch.testing.assert_close(one.residuals(z[1, 3]).inequality, program.residuals(z).inequality[1, 3])


def test_element_keeps_what_the_batch_shares() -> None:
    matrix, operator = sparse(3, 4).to_sparse_csr(), Operator(normal(2, 4))
    one = LinearProgram(normal(5, 4), matrix, normal(3), operator, normal(2)).element(4)
    assert one.A is matrix
    assert one.A_eq is operator


def test_element_refuses_places_outside_the_batch_and_batched_operators() -> None:
    program = LinearProgram(normal(2, 4))
    for index in [(2,), (-3,), (), (0, 0)]:
        with pytest.raises(IndexError, match="index"):
            program.element(*index)
    with pytest.raises(TypeError, match="`A`"):
        LinearProgram(normal(4), Operator(normal(2, 3, 4)), normal(3)).element(0)


@pytest.mark.parametrize("batch", BATCHES)
def test_dense_csr_and_operator_agree(batch: tuple[int, ...]) -> None:
    A, A_eq, c, b, b_eq, z = sparse(5, 4), sparse(2, 4), normal(*batch, 4), normal(5), normal(2), normal(*batch, 4)
    held: list[tuple[Matrix, Matrix]] = [
        (A, A_eq),
        (A.to_sparse_csr(), A_eq.to_sparse_csr()),
        (Operator(A), Operator(A_eq)),
        (Operator(A), A_eq.to_sparse_csr()),
    ]
    expected = torch.einsum("mn,...n->...m", A, z) - b
    for rows, rows_eq in held:
        program = LinearProgram(c, rows, b, rows_eq, b_eq, lower=-0.5, upper=0.5)
        residuals = program.residuals(z)
        torch.testing.assert_close(residuals.inequality, expected.clamp_min(0))
        torch.testing.assert_close(residuals.equality, torch.einsum("mn,...n->...m", A_eq, z) - b_eq)
        torch.testing.assert_close(residuals.bound, (z.abs() - 0.5).clamp_min(0))
        dense = program.dense()
        torch.testing.assert_close(dense.A, A)
        torch.testing.assert_close(dense.A_eq, A_eq)


def test_an_operator_with_a_batch_of_matrices() -> None:
    A, b, z = normal(2, 3, 5, 4), normal(3, 5), normal(4)
    program = LinearProgram(normal(4), Operator(A), b)
    assert program.batch_shape == (2, 3)
    torch.testing.assert_close(program.dense().A, A)
    torch.testing.assert_close(program.residuals(z).inequality, (A @ z - b).relu())


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("hold", ["dense", "csr", "csr with gradient", "operator"])
def test_rmatvec_is_the_adjoint_of_matvec(hold: str, batch: tuple[int, ...]) -> None:
    dense, z, y = sparse(5, 4), normal(*batch, 4), normal(*batch, 5)
    A: Matrix = Operator(dense) if hold == "operator" else dense if hold == "dense" else dense.to_sparse_csr()
    if hold == "csr with gradient":
        assert isinstance(A, Tensor)
        A = A.requires_grad_()
    forward, backward = matvec(A, z), rmatvec(A, y)
    assert forward.shape == (*batch, 5)
    assert backward.shape == (*batch, 4)
    torch.testing.assert_close((forward * y).sum(-1), (z * backward).sum(-1))
    torch.testing.assert_close(forward.detach(), torch.einsum("mn,...n->...m", dense, z))


def test_matvec_broadcasts_a_batch_of_matrices_over_points() -> None:
    A, z, y = normal(3, 5, 4), normal(2, 1, 4), normal(2, 1, 5)
    torch.testing.assert_close(matvec(A, z), torch.einsum("bmn,abn->abm", A, z.expand(2, 3, 4)))
    torch.testing.assert_close(rmatvec(A, y), torch.einsum("bmn,abm->abn", A, y.expand(2, 3, 5)))
    assert matvec(A, z[0, 0]).shape == (3, 5)


def test_the_objective_adds_the_offset() -> None:
    program = LinearProgram(torch.tensor([1.0, 2.0]), offset=torch.tensor([0.0, 10.0]))
    assert program.objective(torch.tensor([3.0, 4.0])).tolist() == [11.0, 21.0]


def test_infinite_sides_break_nothing() -> None:
    program = LinearProgram(
        torch.ones(2), torch.ones(1, 2), torch.tensor([math.inf]), lower=-math.inf, upper=torch.tensor([math.inf, 1.0])
    )
    z = torch.tensor([-1e9, 3.0], requires_grad=True)
    residuals = program.residuals(z)
    assert residuals.inequality.tolist() == [0.0]
    assert residuals.bound.tolist() == [0.0, 2.0]
    torch.autograd.backward(residuals.largest())
    assert z.grad is not None
    assert z.grad.tolist() == [0.0, 1.0]


def test_crossed_bounds_are_a_program_whose_every_point_is_infeasible() -> None:
    program = LinearProgram(torch.ones(1), lower=2.0, upper=1.0)
    for z in (0.0, 1.0, 1.5, 2.0, 3.0):
        assert program.residuals(torch.tensor([z])).largest() >= 0.5


def test_gradients_reach_every_field() -> None:
    names = ["c", "A", "b", "A_eq", "b_eq", "lower", "upper"]
    # Kept off the kinks: every inequality and bound is violated by a fixed point.
    fields = [normal(2, 4), normal(3, 4), normal(3) - 50, normal(2, 4), normal(2), normal(4) + 50, normal(4) + 80]
    inputs = [field.requires_grad_() for field in (*fields, normal(2), normal(2, 4))]

    def total(*values: Tensor) -> tuple[Tensor, ...]:
        program = LinearProgram(**dict(zip(names, values[:7], strict=True)), offset=values[7])
        assert program.requires_grad
        return (program.objective(values[8]), *program.residuals(values[8]))

    assert torch.autograd.gradcheck(total, inputs)
    assert torch.autograd.gradgradcheck(total, inputs)


def test_requires_grad_says_whether_any_tensor_does() -> None:
    assert not LinearProgram(normal(4)).requires_grad
    assert LinearProgram(normal(4), sparse(3, 4).to_sparse_csr().requires_grad_(), normal(3)).requires_grad
    assert LinearProgram(normal(4), upper=normal(4).requires_grad_()).requires_grad


def test_a_sparse_matrix_gets_a_sparse_gradient_equal_to_the_dense_one() -> None:
    dense, b, z = sparse(5, 4), normal(5) - 9, normal(3, 4)
    csr = dense.to_sparse_csr().requires_grad_()
    dense.requires_grad_()
    for A in (dense, csr):
        torch.autograd.backward(LinearProgram(normal(4), A, b).residuals(z).inequality.square().sum())
    assert csr.grad is not None
    assert dense.grad is not None
    assert csr.grad.layout == torch.sparse_csr
    torch.testing.assert_close(csr.grad.to_dense(), dense.grad * (dense != 0))


def test_a_gradient_passes_through_the_values_of_a_sparse_matrix() -> None:
    pattern = sparse(5, 4).to_sparse_csr()
    z, b = normal(2, 4).requires_grad_(), normal(5) - 9

    def violation(values: Tensor, z: Tensor) -> Tensor:
        crow, col = pattern.crow_indices(), pattern.col_indices()
        A = torch.sparse_csr_tensor(crow, col, values, (5, 4), check_invariants=True)
        return LinearProgram(torch.ones(4, dtype=torch.float64), A, b).residuals(z).inequality

    values = normal(pattern.values().numel()).requires_grad_()
    assert torch.autograd.gradcheck(violation, (values, z))


def test_to_changes_the_dtype_of_everything() -> None:
    held: list[Matrix] = [normal(3, 4), sparse(3, 4).to_sparse_csr(), MovableOperator(normal(3, 4))]
    for A in held:
        moved = LinearProgram(normal(4), A, normal(3), offset=1.5).to(dtype=torch.float32)
        tensors = [moved.c, moved.b, moved.b_eq, moved.lower, moved.upper, moved.offset]
        assert {tensor.dtype for tensor in tensors} == {torch.float32}
        assert moved.offset == 1.5
        assert moved.residuals(torch.ones(4)).inequality.dtype == torch.float32


def test_to_changes_the_device_of_everything() -> None:
    moved = LinearProgram(normal(4), normal(3, 4), normal(3)).to(device="meta")
    assert moved.device.type == "meta"
    assert moved.upper.device.type == "meta"
    assert moved.batch_shape == ()


def test_to_refuses_an_operator_that_cannot_move() -> None:
    with pytest.raises(TypeError, match=r"operator `A` to have a method `to`, but Operator has none"):
        LinearProgram(normal(4), Operator(normal(3, 4)), normal(3)).to(dtype=torch.float32)


def test_a_program_is_frozen_and_copies_check_again() -> None:
    program = LinearProgram(normal(4), normal(3, 4), normal(3), offset=2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.c = normal(4)  # type: ignore[misc]
    other = dataclasses.replace(program, b=torch.ones(3, dtype=torch.float64))
    assert other.b.tolist() == [1.0, 1.0, 1.0]
    assert other.A is program.A
    assert other.offset == 2.0
    with pytest.raises(ValueError, match="`b`"):
        dataclasses.replace(program, b=normal(2))
    twin = copy.deepcopy(program)
    torch.testing.assert_close(twin.c, program.c)


def test_vmap_and_compile_see_the_same_numbers() -> None:
    c, A, b, z = normal(4), normal(3, 5, 4), normal(3, 5), normal(3, 4)

    def violation(c: Tensor, A: Tensor, b: Tensor, z: Tensor) -> Tensor:
        program = LinearProgram(c, A, b)
        return program.objective(z) + program.residuals(z).largest()

    expected = violation(c, A, b, z)
    torch.testing.assert_close(torch.vmap(violation, (None, 0, 0, 0))(c, A, b, z), expected)
    torch.testing.assert_close(torch.compile(violation, fullgraph=True, backend="eager")(c, A, b, z), expected)


def test_the_protocol_asks_for_products_and_a_shape() -> None:
    assert isinstance(Operator(normal(3, 4)), LinearOperator)
    assert not isinstance(normal(3, 4), LinearOperator)
    assert not isinstance(object(), LinearOperator)


def test_importing_the_package_loads_no_extra() -> None:
    code = "import sys, setwise.lp; print([m for m in ('highspy', 'scipy', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_expand_and_element_of_a_single_program() -> None:
    program = LinearProgram(torch.ones(2), torch.eye(2), torch.ones(2))
    assert program.expand().c.shape == (2,)
    assert program.element().b.shape == (2,)


def test_products_with_a_sparse_matrix_without_rows() -> None:
    empty = torch.zeros(0, 3).to_sparse_csr()
    program = LinearProgram(torch.ones(3), empty, torch.zeros(0))
    assert program.residuals(torch.ones(3)).inequality.shape == (0,)
    assert torch.equal(rmatvec(empty, torch.zeros(0)), torch.zeros(3))
