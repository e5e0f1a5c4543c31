from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from setwise import InputError
from setwise.lagrangian import ExampleMultipliers, Multipliers
from setwise.lp import LinearProgram
from support.highs import highs_solve

INDEX = torch.tensor([4, 0, 4])
VIOLATION = torch.tensor([2.0, -1.0, 3.0])


def small_program(seed: int) -> tuple[LinearProgram, Tensor, Tensor]:
    """A bounded program whose solution is unique, and what HiGHS says: primal and duals of the rows."""
    random = np.random.default_rng(seed)
    c = torch.from_numpy(-random.uniform(0.5, 1.5, 4))
    A = torch.from_numpy(random.uniform(0.1, 1.0, (3, 4)))
    b = A.sum(1) * 0.5
    bounds = {"lower": torch.zeros(4, dtype=torch.float64), "upper": torch.ones(4, dtype=torch.float64)}
    problem = LinearProgram(c, A, b, **bounds)
    result = highs_solve(problem)
    assert result.status == "optimal"
    return problem, result.primal, result.dual_inequality


@pytest.mark.parametrize("seed", [0, 3])
def test_augmented_ascent_reaches_the_primal_and_dual_of_a_linear_program(seed: int) -> None:
    problem, primal, dual = small_program(seed)
    A: Any = problem.A
    duals = Multipliers(3, augmented=5.0).double()
    ascent = duals.optimizer(5.0)
    x = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    for _ in range(40):
        for _ in range(60):
            (problem.c @ x + duals.term(A @ x - problem.b).sum()).backward()
            assert x.grad is not None
            with torch.no_grad():
                x -= 0.06 * x.grad
                x.clamp_(0, 1)
            x.grad = None
        duals.record(A @ x - problem.b)
        ascent.step()
        ascent.zero_grad()
    torch.testing.assert_close(x.detach(), primal, atol=1e-6, rtol=0)
    torch.testing.assert_close(duals(), dual, atol=1e-6, rtol=0)
    assert duals.residual(A @ x - problem.b).max() < 1e-6


def test_averaged_ascent_reaches_it_where_the_last_iterate_does_not() -> None:
    problem, primal, dual = small_program(1)
    A: Any = problem.A
    duals = Multipliers(3, maximum=10.0).double()
    ascent = duals.optimizer(0.02)
    mean_x, mean_dual, last = torch.zeros(4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), 0.0
    steps = 3000
    for step in range(steps):
        x = (problem.c + A.T @ duals() < 0).double()  # the exact minimizer over the box: a corner
        duals.record(A @ x - problem.b)
        ascent.step()
        ascent.zero_grad()
        if step >= steps // 2:
            mean_x += x / (steps // 2)
            mean_dual += duals() / (steps // 2)
        if step >= steps - 100:
            last = max(last, float((x - primal).abs().max()))
    torch.testing.assert_close(mean_x, primal, atol=2e-2, rtol=0)
    torch.testing.assert_close(mean_dual, dual, atol=2e-2, rtol=0)
    assert last > 0.1


def test_an_equality_has_a_multiplier_of_either_sign() -> None:
    """Minimize (x - 2)^2 / 2 subject to x = 3 or x = 1: the multipliers are -1 and 1."""
    duals = Multipliers(2, kind="equality", augmented=1.0)
    ascent = duals.optimizer(0.5)
    x = torch.zeros(2, requires_grad=True)
    descent = torch.optim.SGD([x], lr=0.2)
    for _ in range(300):
        violation = x - torch.tensor([3.0, 1.0])
        duals.record(violation)
        ((x - 2) ** 2 / 2 + duals.term(violation)).sum().backward()
        for optimizer in (descent, ascent):
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(duals(), torch.tensor([-1.0, 1.0]), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.detach(), torch.tensor([3.0, 1.0]), atol=1e-4, rtol=0)


def exactly(duals: Multipliers, value: float) -> Multipliers:
    duals.double().values.data.fill_(value)
    return duals


@settings(deadline=None)
@given(st.floats(-3, 3), st.floats(0, 4), st.floats(0.1, 5))
def test_the_term_is_its_formula(g: float, multiplier: float, rho: float) -> None:
    violation = torch.tensor([g], dtype=torch.float64)
    plain = exactly(Multipliers(), multiplier)
    augmented = exactly(Multipliers(augmented=rho), multiplier)
    equality = exactly(Multipliers(kind="equality", augmented=rho), -multiplier)
    expected = (max(rho * g + multiplier, 0) ** 2 - multiplier**2) / (2 * rho)
    assert plain.term(violation).item() == pytest.approx(multiplier * g)
    assert augmented.term(violation).item() == pytest.approx(expected, abs=1e-12)
    assert equality.term(violation).item() == pytest.approx(-multiplier * g + rho / 2 * g * g, abs=1e-12)
    assert augmented.augmented == rho


def test_the_gradient_of_the_augmented_term() -> None:
    duals = Multipliers(3, init=1.0, augmented=2.0).double()
    g = torch.tensor([-2.0, -0.1, 1.0], dtype=torch.float64, requires_grad=True)
    duals.term(g).sum().backward()
    torch.testing.assert_close(g.grad, torch.tensor([0.0, 0.8, 3.0], dtype=torch.float64))
    assert torch.autograd.gradcheck(duals.term, (g,))


def test_the_model_gives_the_multipliers_no_gradient() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(3, 2)
            self.duals = Multipliers(2, init=0.5, augmented=0.1)
            self.rows = ExampleMultipliers(10, init=0.25)

    torch.manual_seed(0)
    model = Whole()
    adam = torch.optim.Adam(model.parameters(), lr=0.1, weight_decay=0.1)
    before = model.body.weight.detach().clone()
    out = model.body(torch.randn(3, 3))
    (model.duals.term(out.mean(0)).sum() + model.rows.term(out[:, 0], INDEX).sum()).backward()
    adam.step()
    assert not torch.equal(before, model.body.weight)
    assert torch.equal(model.duals(), torch.full((2,), 0.5))
    assert torch.equal(model.rows(), torch.full((10,), 0.25))
    assert model.duals.values.grad is None
    assert model.rows.values.grad is None
    assert {name for name, part in model.named_parameters() if part.requires_grad} == {"body.weight", "body.bias"}


def test_a_dual_step_before_the_backward_pass_does_no_harm() -> None:
    for duals in (Multipliers(3, init=1.0), Multipliers(3, init=1.0, augmented=1.0)):
        g = torch.ones(3, requires_grad=True)
        loss = duals.term(g).sum()
        duals.record(g)
        duals.optimizer(1.0).step()
        loss.backward()
        torch.testing.assert_close(g.grad, torch.full((3,), 1.0 + duals.augmented))
        torch.testing.assert_close(duals(), torch.full((3,), 2.0))


@pytest.mark.parametrize("columns", [None, 2])
def test_sparse_gradients_step_like_dense_ones_and_like_autograd(columns: int | None) -> None:
    found = []
    violation = VIOLATION if columns is None else torch.stack([VIOLATION, -VIOLATION], 1)
    for sparse in (True, False):
        duals = ExampleMultipliers(6, columns=columns, sparse=sparse, kind="equality", init=0.5)
        ascent = duals.optimizer(0.1)
        for _ in range(3):
            duals.record(violation, INDEX)
            duals.record(violation[:2], INDEX[:2])
            assert duals.values.grad is not None
            assert duals.values.grad.is_sparse is sparse
            ascent.step()
            ascent.zero_grad()
        found.append(duals())
    by_autograd = torch.full_like(found[0], 0.5).requires_grad_()
    (by_autograd[INDEX] * violation + 0).sum().backward()
    assert by_autograd.grad is not None
    once = by_autograd.grad + torch.zeros_like(by_autograd).index_add(0, INDEX[:2], violation[:2]).detach()
    torch.testing.assert_close(found[0], 0.5 + 0.3 * once)
    torch.testing.assert_close(found[0], found[1])


def test_rows_and_the_whole_add_up_in_any_order() -> None:
    whole = torch.arange(6.0)
    grads = []
    for first in ("rows", "whole"):
        duals = ExampleMultipliers(6)
        steps: list[Callable[[], None]] = [lambda d=duals: d.record(VIOLATION, INDEX), lambda d=duals: d.record(whole)]  # type: ignore[misc]
        for record in steps if first == "rows" else steps[::-1]:
            record()
        assert duals.values.grad is not None
        grads.append(duals.values.grad.to_dense())
    expected = whole.index_add(0, INDEX, VIOLATION)
    torch.testing.assert_close(grads[0], expected)
    torch.testing.assert_close(grads[1], expected)
    assert torch.equal(whole, torch.arange(6.0))  # what was recorded is left alone


def test_a_step_touches_only_the_rows_of_the_batch() -> None:
    duals = ExampleMultipliers(6)
    with torch.no_grad():
        duals.values.copy_(torch.tensor([-1.0, 1, -1, 1, -1, 1]))
    ascent = duals.optimizer(0.1)
    duals.record(VIOLATION, INDEX)
    ascent.step()
    torch.testing.assert_close(duals(), torch.tensor([0.0, 1, -1, 1, 0, 1]))
    duals.project_()
    torch.testing.assert_close(duals(), torch.tensor([0.0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize(
    ("kind", "maximum", "expected"),
    [
        ("inequality", None, [0.0, 7.0]),
        ("inequality", 2.0, [0.0, 2.0]),
        ("equality", None, [-7.0, 7.0]),
        ("equality", 2.0, [-2.0, 2.0]),
    ],
)
def test_bounds(kind: str, maximum: float | None, expected: list[float]) -> None:
    duals = Multipliers(2, kind=kind, maximum=maximum)
    duals.record(torch.tensor([-7.0, 7.0]))
    duals.optimizer(1.0).step()
    assert duals().tolist() == expected
    other = Multipliers(2, kind=kind, maximum=maximum)
    other.record(torch.tensor([-7.0, 7.0]))
    torch.optim.SGD(other.parameters(), lr=1.0, maximize=True).step()
    assert other().tolist() == [-7.0, 7.0]
    other.project_(torch.tensor([0]))
    assert other().tolist() == [expected[0], 7.0]
    other.project_()
    assert other().tolist() == expected


def test_the_residual_is_zero_only_at_the_optimum() -> None:
    duals = Multipliers(4)
    with torch.no_grad():
        duals.values.copy_(torch.tensor([0.0, 2.0, 2.0, 0.0]))
    assert duals.residual(torch.tensor([-1.0, 0.0, -0.5, 0.3])).tolist() == pytest.approx([0.0, 0.0, 0.5, 0.3])
    assert Multipliers(kind="equality").residual(torch.tensor([-0.5])).tolist() == [0.5]


def test_one_constraint_takes_a_plain_number() -> None:
    duals = Multipliers(init=3.0)
    assert duals.term(torch.tensor(2.0)).shape == ()
    duals.record(torch.tensor(2.0))
    duals.optimizer(0.5).step()
    assert duals().tolist() == [4.0]


def test_indices_of_any_shape_and_integer_type() -> None:
    duals = ExampleMultipliers(6, columns=2, init=1.0)
    index = torch.tensor([[1, 2], [3, 3]], dtype=torch.int32)
    assert duals(index).shape == (2, 2, 2)
    assert duals.term(torch.ones(2, 2, 2), index).shape == (2, 2, 2)
    duals.record(torch.ones(2, 2, 2), index)
    duals.optimizer(1.0).step()
    assert duals()[:, 0].tolist() == [1, 2, 2, 3, 1, 1]
    duals.record(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))  # a batch without any
    empty = ExampleMultipliers(0)
    assert empty.term(torch.zeros(0)).shape == (0,)


def test_precision_and_device_follow_the_module() -> None:
    duals = Multipliers(2, init=1.0)
    assert duals.term(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.float32
    assert duals.term(torch.ones(2, dtype=torch.float64)).dtype == torch.float64
    ascent = duals.optimizer(1.0)
    duals.double()
    duals.record(torch.ones(2))
    assert duals.values.grad is not None
    assert duals.values.grad.dtype == torch.float64
    ascent.step()
    assert duals().tolist() == [2.0, 2.0]
    meta = ExampleMultipliers(3, columns=2).to("meta")
    assert meta().device.type == "meta"


def test_resuming_from_a_state_is_bit_identical() -> None:
    def steps(duals: ExampleMultipliers, ascent: torch.optim.Optimizer, number: int, seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        for _ in range(number):
            duals.record(torch.randn(5, generator=random), torch.randint(0, 20, (5,), generator=random))
            ascent.step()
            ascent.zero_grad()

    whole = ExampleMultipliers(20, augmented=0.3, maximum=0.4)
    ascent = whole.optimizer(0.1)
    steps(whole, ascent, 10, 0)
    saved = copy.deepcopy((whole.state_dict(), ascent.state_dict()))
    steps(whole, ascent, 10, 1)
    again = ExampleMultipliers(20, augmented=0.3, maximum=0.4)
    other = again.optimizer(0.7)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    steps(again, other, 10, 1)
    assert torch.equal(whole(), again())
    assert 0 < whole().max() <= 0.4


def test_a_data_set_that_grows_keeps_its_multipliers_and_its_optimizer() -> None:
    duals = ExampleMultipliers(5, columns=2, init=0.5)
    ascent = duals.optimizer(1.0)
    parameter = duals.values
    duals.record(torch.ones(3, 2), INDEX)
    ascent.step()
    duals.resize(7)
    assert duals.values is parameter
    assert duals.values.grad is None
    assert duals.num_examples == 7
    assert duals()[:, 0].tolist() == [1.5, 0.5, 0.5, 0.5, 2.5, 0.5, 0.5]
    duals.record(torch.ones(1, 2), torch.tensor([6]))
    ascent.step()
    assert duals()[6].tolist() == [1.5, 1.5]
    with pytest.raises(InputError, match=r"`num_examples` to be at least 7.*got 3; `shrink=True`"):
        duals.resize(3)
    duals.resize(3, shrink=True)
    assert duals()[:, 0].tolist() == [1.5, 0.5, 0.5]


def test_a_data_set_in_another_order() -> None:
    duals = ExampleMultipliers(4, init=9.0)
    parameter = duals.values
    with torch.no_grad():
        duals.values.copy_(torch.arange(4.0))
    duals.reindex(torch.tensor([3, -1, 0, 0, 2]))
    assert duals().tolist() == [3, 9, 0, 0, 2]
    assert duals.values is parameter
    for source, error, message in (
        (torch.tensor([5]), InputError, r"`source` to be in \[-1, 4\], but got 5"),
        (torch.tensor([-2, 0]), InputError, r"`source`.*but got -2"),
        (torch.tensor([[0]]), InputError, "`source` to have one dimension"),
        (torch.tensor([0.0]), TypeError, "`source`.*integers.*float32"),
        ([0], TypeError, "`source` to be a torch.Tensor, but got list"),
    ):
        with pytest.raises(error, match=message):
            duals.reindex(source)  # type: ignore[arg-type]


def test_a_state_of_another_size_is_refused_with_a_way_out() -> None:
    small, large = ExampleMultipliers(4, init=1.0), ExampleMultipliers(6)
    with pytest.raises(InputError, match=r"shape \(6,\), but got \(4,\); call `resize\(4, shrink=True\)`"):
        nn.ModuleDict({"duals": large}).load_state_dict(nn.ModuleDict({"duals": small}).state_dict())
    assert large().tolist() == [0.0] * 6  # and nothing was taken over
    large.resize(4, shrink=True)
    large.load_state_dict(small.state_dict())
    large.resize(6)
    assert large().tolist() == [1.0] * 4 + [0.0] * 2
    with pytest.raises(InputError, match=r"shape \(2,\), but got \(3,\)\.$"):
        Multipliers(2).load_state_dict(Multipliers(3).state_dict())


@pytest.mark.parametrize("method", ["term", "record", "residual"])
@pytest.mark.parametrize(
    ("violation", "index", "error", "message"),
    [
        (VIOLATION, torch.tensor([0, 1, 6]), InputError, r"`index` to be in \[0, 5\], but got 6"),
        (VIOLATION, torch.tensor([0, -1, 2]), InputError, r"`index`.*but got -1"),
        (VIOLATION, torch.tensor([0.0, 1.0, 2.0]), TypeError, "`index`.*integers.*float32"),
        (VIOLATION, torch.tensor([True, False, True]), TypeError, "`index`.*bool"),
        (VIOLATION, torch.tensor([0, 1, 2], dtype=torch.uint8), TypeError, "`index`.*uint8"),
        (VIOLATION, [0, 1, 2], TypeError, "`index` to be a torch.Tensor, but got list"),
        (VIOLATION, None, InputError, r"`violation` to be of shape \(6,\).*but got \(3,\)"),
        (VIOLATION[:2], INDEX, InputError, r"`violation` to be of shape \(3,\).*at `index`, but got \(2,\)"),
        (VIOLATION[:, None], INDEX, InputError, r"`violation`.*but got \(3, 1\)"),
        (torch.tensor([0.0, torch.nan, 1.0]), INDEX, InputError, r"`violation` to be finite.*\[1\]: nan"),
        (torch.tensor([0.0, torch.inf, 1.0]), INDEX, InputError, "`violation` to be finite"),
        (torch.tensor([0, 1, 2]), INDEX, TypeError, "`violation` to be a floating-point tensor"),
        (0.5, INDEX, TypeError, "`violation` to be a torch.Tensor"),
    ],
)
def test_violations_and_indices_that_do_not_fit_are_refused(
    method: str, violation: Any, index: Any, error: type[Exception], message: str
) -> None:
    duals = ExampleMultipliers(6, init=1.0)
    with pytest.raises(error, match=message):
        getattr(duals, method)(violation, index)
    assert duals.values.grad is None


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"count": 0}, InputError, "`count` to be at least 1"),
        ({"count": 2.0}, TypeError, "`count` to be an integer"),
        ({"kind": "less"}, InputError, "`kind` to be one of 'inequality', 'equality', but got 'less'"),
        ({"init": -1.0}, InputError, "`init`"),
        ({"init": 3.0, "maximum": 2.0}, InputError, r"`init` to be in \[0.0, 2.0\], but got 3.0"),
        ({"init": float("inf")}, InputError, "`init`"),
        ({"init": float("nan"), "kind": "equality"}, InputError, "`init`"),
        ({"maximum": 0.0}, InputError, "`maximum`"),
        ({"maximum": "1"}, TypeError, "`maximum` to be a number"),
        ({"augmented": -0.1}, InputError, "`augmented`"),
        ({"augmented": float("inf")}, InputError, "`augmented`"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Multipliers(**settings)
    with pytest.raises(error, match=message.replace("`count`", "`num_examples`").replace("1", "")):
        ExampleMultipliers(**({"num_examples": 3} | {k.replace("count", "num_examples"): v for k, v in bad(settings)}))


def bad(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """The same for examples, of which there may be none."""
    return [(name, -1 if (name, value) == ("count", 0) else value) for name, value in settings.items()]


def test_more_settings_that_are_refused() -> None:
    with pytest.raises(InputError, match="`columns`"):
        ExampleMultipliers(3, columns=0)
    with pytest.raises(InputError, match="`learning_rate`"):
        Multipliers().optimizer(-1.0)
    with pytest.raises(InputError, match="`num_examples`"):
        ExampleMultipliers(3).resize(-1)


def test_settings_are_shown_and_accepted() -> None:
    assert repr(Multipliers(2, kind="equality", init=-1, maximum=3, augmented=1)) == (
        "Multipliers(2, kind='equality', init=-1.0, maximum=3.0, augmented=1.0)"
    )
    assert repr(ExampleMultipliers(5, columns=2)) == "ExampleMultipliers(5, 2, kind='inequality')"
    ascent = Multipliers().optimizer(0.1, momentum=0.5)
    assert ascent.defaults["momentum"] == 0.5
    assert ascent.defaults["maximize"] is True


def test_copies_are_independent() -> None:
    duals = Multipliers(2)
    twin = copy.deepcopy(duals)
    duals.record(torch.ones(2))
    duals.optimizer(1.0).step()
    assert twin().tolist() == [0.0, 0.0]


def test_compiles() -> None:
    duals = ExampleMultipliers(6, init=0.5, augmented=2.0)
    compiled = torch.compile(duals.term, fullgraph=True, backend="aot_eager")
    violation = VIOLATION.clone().requires_grad_()
    torch.testing.assert_close(compiled(violation, INDEX), duals.term(violation, INDEX))
