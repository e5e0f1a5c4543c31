"""What LinearProgram accepts and refuses, field by field, with the field named in the message."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import LinearProgram

NAN, INF = math.nan, math.inf


def fields(**changes: Any) -> dict[str, Any]:
    """A correct program of 3 variables, 2 inequalities and 1 equality, with some fields changed."""
    correct = {
        "c": torch.ones(3),
        "A": torch.ones(2, 3),
        "b": torch.ones(2),
        "A_eq": torch.ones(1, 3),
        "b_eq": torch.ones(1),
        "lower": torch.zeros(3),
        "upper": torch.ones(3),
        "offset": torch.tensor(0.0),
    }
    return correct | changes


def with_entry(name: str, value: float) -> Tensor:
    tensor: Tensor = fields()[name].clone()
    tensor.view(-1)[-1] = value
    return tensor


class Shapeless:
    def matvec(self, z: Tensor) -> Tensor:
        return z

    def rmatvec(self, y: Tensor) -> Tensor:
        return y


class Square(Shapeless):
    shape = (3, 3)


def test_the_correct_program_is_accepted() -> None:
    assert LinearProgram(**fields()).variables == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c", torch.ones(())),
        ("c", torch.ones(0)),
        ("c", torch.ones(5, 0)),
        ("A", torch.ones(3)),
        ("A", torch.ones(2, 4)),
        ("A", torch.ones(2, 4).to_sparse_csr()),
        ("A", torch.ones(5, 2, 3).to_sparse_csr()),
        ("b", torch.ones(())),
        ("b", torch.ones(3)),
        ("b", torch.ones(2, 1)),
        ("A_eq", torch.ones(1, 2)),
        ("b_eq", torch.ones(2)),
        ("lower", torch.zeros(2)),
        ("lower", torch.zeros(1)),
        ("upper", torch.ones(3, 1)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name: str, value: Tensor) -> None:
    with pytest.raises(InputError, match=f"`{name}` to have shape"):
        LinearProgram(**fields(**{name: value}))


def test_rows_of_an_operator_count_too() -> None:
    with pytest.raises(InputError, match=r"`b` to have shape .* one entry per row of `A`"):
        LinearProgram(**fields(A=Square()))
    assert LinearProgram(**fields(A=Square(), b=torch.ones(3))).inequalities == 3


@pytest.mark.parametrize("name", ["A", "b", "A_eq", "b_eq", "lower", "upper", "offset"])
def test_batches_that_do_not_broadcast_are_refused(name: str) -> None:
    value = fields()[name]
    good = fields(c=torch.ones(5, 3), **{name: value.expand(5, *value.shape)})
    assert LinearProgram(**good).batch_shape == (5,)
    bad = fields(c=torch.ones(5, 3), **{name: value.expand(4, *value.shape)})
    with pytest.raises(InputError, match=rf"batch dimensions of `{name}` to broadcast with \(5,\).* but got \(4,\)"):
        LinearProgram(**bad)


@pytest.mark.parametrize("name", ["A", "b", "A_eq", "b_eq", "lower", "upper", "offset"])
def test_every_tensor_has_the_dtype_of_c(name: str) -> None:
    value = fields()[name]
    with pytest.raises(TypeError, match=rf"`{name}` to have the dtype of `c`, torch.float32, but got torch.float64"):
        LinearProgram(**fields(**{name: value.double()}))
    with pytest.raises(TypeError, match=f"`{name}` to be a floating-point tensor"):
        LinearProgram(**fields(**{name: value.int()}))


@pytest.mark.parametrize("name", ["A", "b", "A_eq", "b_eq", "lower", "upper", "offset"])
def test_every_tensor_is_on_the_device_of_c(name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}` to be on the device of `c`, cpu, but it is on meta"):
        LinearProgram(**fields(**{name: fields()[name].to("meta")}))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.complex64])
def test_c_is_float32_or_float64(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match="`c` to be"):
        LinearProgram(torch.ones(3, dtype=dtype))
    for good in (torch.float32, torch.float64):
        assert LinearProgram(torch.ones(3, dtype=good)).dtype == good


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c", [1.0, 1.0, 1.0]),
        ("c", np.ones(3)),
        ("c", torch.ones(3).to_sparse()),
        ("A", np.ones((2, 3))),
        ("A", [[1.0] * 3] * 2),
        ("A", Shapeless()),
        ("A", torch.ones(2, 3).to_sparse()),
        ("A_eq", torch.ones(1, 3).to_sparse_csc()),
        ("b", 1.0),
        ("b", [1.0, 1.0]),
        ("lower", [0.0, 0.0, 0.0]),
        ("lower", None),
        ("lower", True),
        ("upper", "inf"),
        ("upper", torch.ones(3).to_sparse()),
        ("offset", None),
    ],
)
def test_other_types_and_layouts_are_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"`{name}`"):
        LinearProgram(**fields(**{name: value}))


def test_another_sparse_layout_gets_a_hint() -> None:
    with pytest.raises(TypeError, match="to_sparse_csr"):
        LinearProgram(**fields(A=torch.ones(2, 3).to_sparse()))


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), torch.tensor(2.0)])
def test_numbers_become_tensors(value: Any) -> None:
    program = LinearProgram(**fields(lower=value, upper=value, offset=value))
    assert program.lower.tolist() == program.upper.tolist() == [2.0, 2.0, 2.0]
    assert program.offset.item() == 2.0
    assert program.lower.dtype == program.offset.dtype == torch.float32


@pytest.mark.parametrize(("present", "absent"), [("A", "b"), ("b", "A"), ("A_eq", "b_eq"), ("b_eq", "A_eq")])
def test_a_matrix_and_its_side_come_together(present: str, absent: str) -> None:
    with pytest.raises(InputError, match=f"Expected `{absent}` beside `{present}`, but got None"):
        LinearProgram(**fields(**{absent: None}))


REFUSED = {
    "c": (NAN, INF, -INF),
    "A": (NAN, INF, -INF),
    "A_eq": (NAN, INF, -INF),
    "b_eq": (NAN, INF, -INF),
    "offset": (NAN, INF, -INF),
    "b": (NAN, -INF),
    "lower": (NAN, INF),
    "upper": (NAN, -INF),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_values_without_meaning_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"`{name}` to .*, but 1 of \d+ values are not, the first at \[.*\]: {value}"):
        LinearProgram(**fields(**{name: with_entry(name, value)}))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("name", ["A", "A_eq"])
def test_values_of_a_sparse_matrix_are_looked_at(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"`{name}` to be finite"):
        LinearProgram(**fields(**{name: with_entry(name, value).to_sparse_csr()}))


@pytest.mark.parametrize(("name", "value"), [("lower", NAN), ("lower", INF), ("upper", -INF), ("offset", INF)])
def test_numbers_without_meaning_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"`{name}`"):
        LinearProgram(**fields(**{name: value}))


@pytest.mark.parametrize(("name", "value"), [("b", INF), ("lower", -INF), ("upper", INF), ("lower", 5.0), ("c", 0.0)])
def test_values_with_meaning_are_accepted(name: str, value: float) -> None:
    program = LinearProgram(**fields(**{name: with_entry(name, value)}))
    assert getattr(program, name).view(-1)[-1] == value


def test_large_numbers_whose_sum_overflows_are_accepted() -> None:
    assert LinearProgram(torch.full((4,), 3e38)).c.sum().isinf()


def test_values_are_not_read_under_transforms() -> None:
    bad = torch.full((2, 3), NAN)
    with pytest.raises(InputError, match="`c`"):
        LinearProgram(bad)
    values = torch.vmap(lambda c: LinearProgram(c).objective(torch.ones(3)))(bad)
    assert values.isnan().all()


@pytest.mark.parametrize(
    ("z", "error"),
    [
        (torch.ones(2), InputError),
        (torch.ones(()), InputError),
        (torch.ones(4, 3), InputError),
        (torch.ones(3).double(), TypeError),
        ([1.0, 1.0, 1.0], TypeError),
    ],
)
def test_points_that_do_not_fit_are_refused(z: Any, error: type[Exception]) -> None:
    program = LinearProgram(**fields(c=torch.ones(5, 3)))
    for method in (program.objective, program.residuals):
        with pytest.raises(error, match="`z`"):
            method(z)
    assert program.objective(torch.ones(5, 3)).shape == (5,)
    assert program.objective(torch.ones(2, 1, 3)).shape == (2, 5)
