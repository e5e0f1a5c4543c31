"""The papers' general form: mapped by hand, solved by two outside solvers, and refused where blocks do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import LinearProgram
from support.highs import highs_solve

SIZES = {"g": (2,), "h": (3,), "E": (4, 2), "F": (4, 3), "p": (4,), "B": (1, 2), "G": (1, 3), "q": (1,)}


def blocks(seed: int, *batch: int) -> dict[str, Tensor]:
    """A feasible program with a bounded maximum: p and q come from a positive point, and rows of E, F are positive."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*batch, *shape, generator=generator, dtype=torch.float64)

    made = {name: uniform(*shape) for name, shape in SIZES.items()}
    u, v = uniform(2), uniform(3)
    made["B"], made["G"] = made["B"] - 0.5, made["G"] - 0.5
    made["p"] = torch.einsum("...mn,...n->...m", made["E"], u) + torch.einsum("...mn,...n->...m", made["F"], v) + 0.1
    made["q"] = torch.einsum("...mn,...n->...m", made["B"], u) + torch.einsum("...mn,...n->...m", made["G"], v)
    return made


def maximum(parts: dict[str, Tensor]) -> float:
    """The papers' program handed to scipy as it is written: nothing of the package takes part."""
    arrays = {name: part.numpy() for name, part in parts.items()}
    u = next(arrays[name].shape[-1] for name in ("g", "E", "B") if name in arrays)
    v = next((arrays[name].shape[-1] for name in ("h", "F", "G") if name in arrays), 0)

    def pair(left: str, right: str, rows: int) -> Any:
        return np.hstack([arrays.get(left, np.zeros((rows, u))), arrays.get(right, np.zeros((rows, v)))])

    upper = pair("E", "F", len(arrays["p"])) if "p" in arrays else None
    equal = pair("B", "G", len(arrays["q"])) if "q" in arrays else None
    cost = -np.concatenate([arrays.get("g", np.zeros(u)), arrays.get("h", np.zeros(v))])
    result = linprog(cost, upper, arrays.get("p"), equal, arrays.get("q"), bounds=(0, None))
    assert result.fun is not None, result.message
    return -float(result.fun)


@pytest.mark.parametrize("seed", range(20))
def test_the_minimum_is_minus_the_papers_maximum(seed: int) -> None:
    parts = blocks(seed)
    program = LinearProgram.from_general(**parts)
    assert (program.variables, program.inequalities, program.equalities) == (5, 4, 1)
    result = highs_solve(program)
    assert result.status == "optimal"
    assert -result.value == pytest.approx(maximum(parts), rel=1e-9)
    u, v = result.primal[:2], result.primal[2:]
    assert parts["g"] @ u + parts["h"] @ v == pytest.approx(maximum(parts), rel=1e-9)


@pytest.mark.parametrize(
    "absent",
    [("h", "F", "G"), ("B", "G", "q"), ("g",), ("h",), ("G",), ("B",), ("g", "B"), ("h", "G")],
)
def test_absent_blocks_are_zero(absent: tuple[str, ...]) -> None:
    parts = {name: part for name, part in blocks(3).items() if name not in absent}
    if "q" in parts:
        parts["q"] = torch.zeros(1, dtype=torch.float64)  # keeps the smaller program feasible
    result = highs_solve(LinearProgram.from_general(**parts))
    assert result.status == "optimal"
    assert -result.value == pytest.approx(maximum(parts), rel=1e-9, abs=1e-9)


def test_only_v_and_only_equalities() -> None:
    parts = blocks(0)
    program = LinearProgram.from_general(h=parts["h"], G=parts["G"], q=parts["q"])
    assert (program.variables, program.inequalities, program.equalities) == (3, 0, 1)
    torch.testing.assert_close(program.c, -parts["h"])
    torch.testing.assert_close(program.A_eq, parts["G"])


def test_where_every_block_goes() -> None:
    parts = blocks(1)
    program = LinearProgram.from_general(**parts)
    torch.testing.assert_close(program.c, -torch.cat([parts["g"], parts["h"]]))
    torch.testing.assert_close(program.A, torch.cat([parts["E"], parts["F"]], dim=1))
    torch.testing.assert_close(program.A_eq, torch.cat([parts["B"], parts["G"]], dim=1))
    assert program.b is parts["p"]
    assert program.b_eq is parts["q"]
    assert (program.lower == 0).all()
    assert program.upper.isinf().all()


def test_blocks_broadcast_over_the_batch() -> None:
    parts = blocks(2)
    wide = blocks(4, 5)
    program = LinearProgram.from_general(**(parts | {"g": wide["g"], "F": wide["F"]}))
    assert program.batch_shape == (5,)
    one = LinearProgram.from_general(**(parts | {"g": wide["g"][3], "F": wide["F"][3]}))
    assert highs_solve(program.element(3)).value == highs_solve(one).value


def test_gradients_reach_the_blocks() -> None:
    parts = {name: part.requires_grad_() for name, part in blocks(5).items()}
    program = LinearProgram.from_general(**parts)
    z = torch.full((5,), 3.0, dtype=torch.float64)
    residuals = program.residuals(z)
    total = program.objective(z) + residuals.inequality.sum() + residuals.equality.sum()
    grads = dict(zip(parts, torch.autograd.grad(total, list(parts.values())), strict=True))
    torch.testing.assert_close(grads["g"], -z[:2])
    torch.testing.assert_close(grads["G"], z[2:].expand(1, 3))
    torch.testing.assert_close(grads["q"], -torch.ones(1, dtype=torch.float64))
    assert all(grads[name].abs().sum() > 0 for name in SIZES)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"g": torch.ones(3)}, "`E`"),
        ({"h": torch.ones(2)}, "`F`"),
        ({"E": torch.ones(5, 2)}, "`E`"),
        ({"F": torch.ones(5, 3)}, "`F`"),
        ({"F": torch.ones(3)}, "`F`"),
        ({"p": torch.ones(5)}, "`E`"),
        ({"p": torch.ones(())}, "`p`"),
        ({"B": torch.ones(1, 3)}, "`B`"),
        ({"G": torch.ones(2, 3)}, "`G`"),
        ({"p": None}, "`p` beside `E`"),
        ({"q": None}, "`q` beside `B`"),
        ({"B": None, "q": None}, "`q` beside `G`"),
        ({"E": None, "F": None}, "`E` or `F` beside `p`"),
        ({"g": torch.ones(2, 2), "h": torch.ones(4, 3)}, "batch dimensions of `h`"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(change: dict[str, Tensor | None], named: str) -> None:
    correct = {name: torch.ones(shape) for name, shape in SIZES.items()}
    assert LinearProgram.from_general(**correct).variables == 5
    with pytest.raises(InputError, match=named):
        LinearProgram.from_general(**(correct | change))


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("h", torch.ones(3).double()),
        ("p", torch.ones(4).int()),
        ("E", torch.ones(4, 2).to_sparse_csr()),
        ("q", [1.0]),
        ("g", np.ones(2)),
    ],
)
def test_blocks_of_another_type_are_refused(name: str, block: Any) -> None:
    correct: dict[str, Any] = {name: torch.ones(shape) for name, shape in SIZES.items()}
    with pytest.raises(TypeError, match=f"`{name}`"):
        LinearProgram.from_general(**(correct | {name: block}))


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="at least one of `g`"):
        LinearProgram.from_general()
    with pytest.raises(InputError, match="at least one of `g`"):
        LinearProgram.from_general(p=torch.ones(2))
