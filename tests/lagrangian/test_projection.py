from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from torch import Tensor, nn
from torch.autograd import forward_ad

from setwise import InputError
from setwise.lagrangian import Projection, project, project_touched, project_touched_
from setwise.lagrangian.dual_ascent import projection_threshold
from setwise.lagrangian.dual_ascent.projection import METHODS


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and lose much where others use the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


EXACT = ("newton", "sort", "one_pass")
FREE = (torch.tensor([3.0, 0.5, 2.5, -1.0]).double(), torch.tensor(1.0).double())
CLAMPED = (torch.tensor([0.3, -0.5, 0.2, -1.0]).double(), torch.tensor(-2.0).double())
ALL_BELOW = (torch.tensor([0.3, -0.5]).double(), torch.tensor(2.0).double())
PLACES = {"free": FREE, "clamped": CLAMPED, "all below": ALL_BELOW}


def by_quadratic_program(gamma: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
    """An oracle that shares nothing with the closed form: least squares with non-negative variables.

    The set is the cone {x: G x <= 0} with x = (tau, eps), so the projection of p is p - G'd for the d >= 0 that brings
    G'd nearest to p (Moreau's decomposition): scipy's active-set solver finds it.
    """
    n = len(gamma)
    G = np.zeros((n + 1, n + 1))
    G[:n, :n], G[:, n] = np.eye(n), -1.0
    p = np.append(gamma.numpy(), delta.numpy())
    found = torch.from_numpy(p - G.T @ nnls(G.T, p, maxiter=100 * (n + 1))[0])
    return found[:n], found[n]


def optimality_residual(gamma: Tensor, delta: Tensor, tau: Tensor, eps: Tensor) -> float:
    """How far the conditions that make a point the projection are from holding, all of them."""
    push = gamma - tau  # multipliers of tau_i <= eps
    lift = eps - delta - push.sum()  # multiplier of eps >= 0
    parts = [(tau - eps).relu(), (-eps).relu(), (-push).relu(), (-lift).relu(), push * (eps - tau), lift * eps]
    return max(float(part.abs().max()) if part.numel() else 0.0 for part in parts)


def random_case(seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    n = int(torch.randint(1, 31, (), generator=random))
    scale = 10 ** float(torch.randint(-2, 3, (), generator=random))
    gamma = scale * torch.randn(n, generator=random, dtype=torch.float64)
    if seed % 5 == 0:
        gamma = gamma.round(decimals=1)  # with ties
    delta = scale * (1 + n * (seed % 2)) * torch.randn((), generator=random, dtype=torch.float64)
    return gamma, delta


def test_equals_a_quadratic_program_in_500_cases() -> None:
    clamped = 0
    for seed in range(500):
        gamma, delta = random_case(seed)
        tau, eps = by_quadratic_program(gamma, delta)
        for method in EXACT:
            found = project(gamma, delta, method=method)
            torch.testing.assert_close(found[0], tau, atol=1e-9, rtol=0)
            torch.testing.assert_close(found[1], eps, atol=1e-9, rtol=0)
            assert optimality_residual(gamma, delta, *found) < 1e-9
        clamped += int(found[1] == 0)
    assert 50 < clamped < 250


DRAWS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": lambda n, random: torch.randn(n, generator=random),
    "heavy": lambda n, random: torch.empty(n).cauchy_(generator=random),
    "few values": lambda n, random: torch.randint(-3, 4, (n,), generator=random).float(),
    "sorted": lambda n, random: torch.randn(n, generator=random).sort().values,
    "one spike off the steps": lambda n, random: torch.randn(n, generator=random).index_fill(0, torch.tensor([1]), 1e6),
    "spikes on the steps": lambda n, _: torch.where(torch.arange(n) % (n // 8192) == 0, 10.0, 0.0),
    "negative": lambda n, random: -torch.rand(n, generator=random),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DRAWS)
def test_methods_agree_on_long_rows(name: str, dtype: torch.dtype) -> None:
    gamma = DRAWS[name](100_000, torch.Generator().manual_seed(0)).to(dtype)
    for start in (0.0, 3.0, -1.0, -1e4, -1e6):
        delta = torch.tensor(start, dtype=dtype)
        exact = project(gamma.double(), delta.double(), method="sort")
        push = (gamma.double() - exact[0]).sum()
        torch.testing.assert_close(exact[1], (delta.double() + push).clamp(min=0.0))
        for method in EXACT:
            tau, eps = project(gamma, delta, method=method)
            torch.testing.assert_close(eps, exact[1].to(dtype))
            torch.testing.assert_close(tau, torch.minimum(gamma, eps))


def test_entries_that_fall_one_by_one_are_sorted_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    entries, mean, gap, delta = [3.0], 2.0, 1e-12, 1.0
    while gap < 0.9:  # each new entry stands below the mean so far by so much more that it alone is below the next mean
        entries.append(mean - gap)
        mean = (mean * len(entries) + entries[-1]) / (len(entries) + 1)
        gap *= 1.1 * (len(entries) + 2)
    gamma = np.array(entries)
    passes = 0
    real = projection_threshold._above

    def counted(gamma: Any, bound: float) -> Any:
        nonlocal passes
        passes += 1
        return real(gamma, bound)

    monkeypatch.setattr(projection_threshold, "_above", counted)
    expected = projection_threshold._by_sorting(gamma, delta)
    found = {}
    for work in (10**6, projection_threshold._WORK, 0):
        monkeypatch.setattr(projection_threshold, "_WORK", work)
        passes = 0
        assert projection_threshold._newton(gamma, delta) == pytest.approx(expected, rel=1e-12)
        found[work] = passes
    most, default, least = found.values()
    assert most >= len(entries) > default > least


@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), max_size=12), st.floats(-9, 9))
def test_properties_of_a_projection(entries: list[float], start: float) -> None:
    gamma, delta = torch.tensor(entries, dtype=torch.float64), torch.tensor(start, dtype=torch.float64)
    tau, eps = project(gamma, delta)
    assert optimality_residual(gamma, delta, tau, eps) < 1e-9
    again = project(tau, eps)  # what lies in the set stays
    torch.testing.assert_close(again, (tau, eps))
    half = project(gamma / 2, delta / 2)  # the set is a cone
    torch.testing.assert_close(half, (tau / 2, eps / 2))


@pytest.mark.parametrize("method", METHODS)
def test_known_cases(method: str) -> None:
    def projected(gamma: list[float], delta: float) -> tuple[list[float], float]:
        tau, eps = project(torch.tensor(gamma), torch.tensor(delta), method=method, temperature=1e-5)
        return tau.tolist(), eps.item()

    assert projected([], 2.0) == ([], 2.0)
    assert projected([], -2.0) == ([], 0.0)
    assert projected([3.0], -1.0) == ([1.0], 1.0)
    assert projected([3.0], 1.0) == ([2.0], 2.0)
    assert projected([-3.0], -1.0) == ([-3.0], 0.0)
    assert projected([0.5, -2.0], -1.0) == ([0.0, -2.0], 0.0)
    assert projected([1.0, 1.0, 1.0], 1.0) == ([1.0, 1.0, 1.0], 1.0)
    assert projected([4.0, 4.0, 4.0], 0.0) == ([3.0, 3.0, 3.0], 3.0)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("place", PLACES)
def test_derivatives(place: str, method: str) -> None:
    inputs = tuple(part.clone().requires_grad_() for part in PLACES[place])

    def function(gamma: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        return project(gamma, delta, method=method)

    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, inputs)
    batch = (torch.stack([inputs[0], 2 * inputs[0] + 0.1]).detach().requires_grad_(), inputs[1].detach().repeat(2))
    assert torch.autograd.gradcheck(function, (batch[0], batch[1].requires_grad_()))


def test_the_derivative_is_the_closed_form() -> None:
    gamma, delta = (part.clone().requires_grad_() for part in FREE)  # 3 and 2.5 are above eps = 13/6
    tau, eps = project(gamma, delta)
    assert eps.item() == pytest.approx(6.5 / 3)
    rows = torch.autograd.grad(eps, (gamma, delta), retain_graph=True)
    torch.testing.assert_close(rows[0], torch.tensor([1 / 3, 0, 1 / 3, 0]).double())
    assert rows[1].item() == pytest.approx(1 / 3)
    rows = torch.autograd.grad(tau.sum(), (gamma, delta))
    torch.testing.assert_close(rows[0], torch.tensor([2 / 3, 1, 2 / 3, 1]).double())
    gamma, delta = (part.clone().requires_grad_() for part in CLAMPED)
    tau, eps = project(gamma, delta)
    rows = torch.autograd.grad(tau.sum() + eps, (gamma, delta))
    torch.testing.assert_close(rows[0], torch.tensor([0, 1, 0, 1]).double())
    assert rows[1].item() == 0


def test_one_tangent_alone_will_do() -> None:
    gamma, delta = FREE
    with forward_ad.dual_level():
        tau, eps = project(gamma, forward_ad.make_dual(delta, torch.ones_like(delta)))
        assert forward_ad.unpack_dual(eps).tangent.item() == pytest.approx(1 / 3)
        tau, eps = project(forward_ad.make_dual(gamma, torch.ones_like(gamma)), delta)
        torch.testing.assert_close(forward_ad.unpack_dual(tau).tangent, torch.tensor([2 / 3, 1, 2 / 3, 1]).double())


@pytest.mark.parametrize("n", [0, 1, 7, 2000])
@pytest.mark.parametrize("method", METHODS)
def test_a_batch_is_the_stack_of_its_rows(method: str, n: int) -> None:
    if method == "sinkhorn":
        n = min(n, 50)
    gamma = torch.randn(2, 3, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    delta = torch.linspace(-0.7 * n, 2, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()

    def seeded() -> dict[str, Any]:
        return {"method": method, "samples": 300, "generator": torch.Generator().manual_seed(2), "iterations": 5}

    tau, eps = project(gamma, delta, **seeded())
    assert tau.shape == (2, 3, n)
    assert eps.shape == (2, 3)
    cotangent = torch.randn(2, 3, n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    both = torch.autograd.grad((tau * cotangent).sum() + eps.sum(), (gamma, delta))
    for i, j in np.ndindex(2, 3):
        row = (gamma[i, j].detach().requires_grad_(), delta[i, j].detach().requires_grad_())
        one = project(*row, **seeded())
        torch.testing.assert_close((tau[i, j], eps[i, j]), one)
        alone = torch.autograd.grad((one[0] * cotangent[i, j]).sum() + one[1], row)
        torch.testing.assert_close((both[0][i, j], both[1][i, j]), alone)
    assert project(torch.zeros(0, n), torch.zeros(0), method=method)[0].shape == (0, n)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(method: str, dtype: torch.dtype) -> None:
    gamma = torch.randn(3000 if method != "sinkhorn" else 60, generator=torch.Generator().manual_seed(0)).to(dtype)
    gamma.requires_grad_()
    delta = torch.tensor(-40.0, dtype=dtype)
    tau, eps = project(gamma, delta, method=method, samples=5000, iterations=5)
    wide = project(gamma.detach().float(), delta.float(), method=method, samples=5000, iterations=5)
    assert tau.dtype == eps.dtype == dtype
    assert torch.equal(eps, wide[1].to(dtype))
    assert torch.equal(tau, torch.minimum(gamma, eps))
    tau.sum().backward()
    assert gamma.grad is not None
    assert gamma.grad.dtype == dtype


def test_single_precision_keeps_the_entries_above_apart_from_those_below() -> None:
    """Many equal entries pull eps to within rounding of them; they are all above it, and so is their derivative."""
    gamma = torch.full((100_000,), 0.7, requires_grad=True)
    tau, eps = project(gamma, torch.tensor(0.699))
    assert eps == torch.tensor(0.7)
    tau.sum().backward()
    assert gamma.grad is not None
    torch.testing.assert_close(gamma.grad, torch.full_like(gamma, 100_000 / 100_001))


def test_inputs_are_left_alone_and_need_not_be_contiguous() -> None:
    wide = torch.randn(7, 4000, generator=torch.Generator().manual_seed(0))
    before = wide.clone()
    tau, eps = project(wide.T, torch.zeros(4000))
    torch.testing.assert_close((tau[3], eps[3]), project(wide[:, 3].clone(), torch.tensor(0.0)))
    long = wide.flatten()[::2]
    torch.testing.assert_close(project(long, torch.tensor(0.5)), project(long.clone(), torch.tensor(0.5)))
    assert torch.equal(wide, before)


@pytest.mark.parametrize("method", ["newton", "sort"])
def test_transforms_of_torch_func(method: str) -> None:
    gamma = torch.randn(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    delta = torch.linspace(-3, 1, 5, dtype=torch.float64)

    def value(gamma: Tensor, delta: Tensor) -> Tensor:
        tau, eps = project(gamma, delta, method=method)
        return (tau**2).sum(-1) + 3 * eps

    found = torch.func.vmap(value)(gamma, delta)
    torch.testing.assert_close(found, value(gamma, delta))
    leaf = gamma.clone().requires_grad_()
    expected = torch.autograd.grad(value(leaf, delta).sum(), leaf)[0]
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(value))(gamma, delta), expected)
    forward = torch.func.jvp(lambda g: value(g, delta), (gamma,), (torch.ones_like(gamma),))[1]
    torch.testing.assert_close(forward, expected.sum(-1))
    assert torch.func.hessian(value)(gamma[0], delta[0]).shape == (6, 6)


@pytest.mark.parametrize("method", ["newton", "sampled", "sinkhorn"])
def test_compiles_to_one_graph(method: str) -> None:
    gamma = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    delta = torch.linspace(-3, 1, 4).requires_grad_()

    def value(gamma: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        return project(gamma, delta, method=method, iterations=3)

    torch._dynamo.reset()
    compiled = torch.compile(value, fullgraph=True, backend="aot_eager")
    found, expected = compiled(gamma, delta), value(gamma, delta)
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad((tau**2).sum() + eps.sum(), (gamma, delta)) for tau, eps in (found, expected)]
    torch.testing.assert_close(*grads)


class TestSampled:
    n = 200_000

    def gamma(self) -> Tensor:
        return torch.randn(self.n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    @pytest.mark.parametrize("samples", [1000, 10_000])
    def test_the_error_is_as_documented_where_many_entries_are_above(self, samples: int) -> None:
        gamma, delta = self.gamma(), torch.tensor(-0.1 * self.n).double()
        eps = project(gamma, delta)[1]
        excess = (gamma - eps).relu()
        stated = self.n * float(excess.std()) / ((1 + int((excess > 0).sum())) * samples**0.5)
        random = torch.Generator().manual_seed(1)
        found = [
            float(project(gamma, delta, method="sampled", samples=samples, generator=random)[1]) for _ in range(40)
        ]
        spread = float(np.sqrt(np.mean((np.array(found) - float(eps)) ** 2)))
        assert 0.5 * stated < spread < 1.5 * stated
        assert spread < 0.05 * (1000 / samples) ** 0.5 * 1.5

    def test_where_few_are_above_it_comes_out_low(self) -> None:
        gamma, delta = self.gamma(), torch.tensor(0.0).double()
        eps = project(gamma, delta)[1]
        random = torch.Generator().manual_seed(1)
        found = [float(project(gamma, delta, method="sampled", samples=1000, generator=random)[1]) for _ in range(40)]
        assert np.median(found) < 0.95 * float(eps)

    def test_the_point_is_in_the_set_and_the_derivative_is_that_at_the_point(self) -> None:
        gamma, delta = self.gamma().requires_grad_(), torch.tensor(-0.1 * self.n).double().requires_grad_()
        tau, eps = project(gamma, delta, method="sampled", samples=1000)
        assert (tau <= eps).all()
        slope = torch.autograd.grad(eps, (gamma, delta))
        above = 1 + int((gamma > eps).sum())
        torch.testing.assert_close(slope[0], (gamma > eps).double() / above)
        assert slope[1].item() == pytest.approx(1 / above)

    def test_the_generator_decides_and_as_many_samples_as_entries_are_exact(self) -> None:
        gamma, delta = self.gamma(), torch.tensor(-100.0).double()

        def draw(seed: int, samples: int = 500) -> float:
            random = torch.Generator().manual_seed(seed)
            return project(gamma, delta, method="sampled", samples=samples, generator=random)[1].item()

        assert draw(0) == draw(0) != draw(1)
        assert draw(0, self.n) == draw(1, 2 * self.n) == pytest.approx(project(gamma, delta)[1].item())
        torch.manual_seed(3)
        first = project(gamma, delta, method="sampled", samples=500)[1]
        torch.manual_seed(3)
        assert project(gamma, delta, method="sampled", samples=500)[1] == first


class TestSinkhorn:
    def cases(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for seed in range(5):
            gamma = torch.randn(60, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            delta = torch.tensor(-20.0).double()
            yield gamma, delta, project(gamma, delta)[1]

    def test_the_error_has_a_bound_and_is_downwards(self) -> None:
        errors = [float(project(g, d, method="sinkhorn")[1] - e) for g, d, e in self.cases()]
        assert max(errors) < 1e-3
        assert min(errors) > -0.03

    def test_a_lower_temperature_and_more_iterations_lower_it(self) -> None:
        def mean_error(temperature: float, iterations: int) -> float:
            options: dict[str, Any] = {"temperature": temperature, "iterations": iterations}
            found = [float(project(g, d, method="sinkhorn", **options)[1] - e) for g, d, e in self.cases()]
            return float(np.abs(found).mean())

        assert mean_error(0.1, 100) > 2 * mean_error(0.01, 100) > 4 * mean_error(0.002, 200)
        assert mean_error(0.002, 5) > 2 * mean_error(0.002, 200)

    def test_few_entries_above_cost_more(self) -> None:
        gamma, delta = next(self.cases())[0], torch.tensor(0.0).double()
        error = float(project(gamma, delta, method="sinkhorn")[1] - project(gamma, delta)[1])
        assert -0.6 < error < -0.1

    def test_derivatives(self) -> None:
        inputs = tuple(part.clone().requires_grad_() for part in FREE)

        def function(gamma: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
            return project(gamma, delta, method="sinkhorn", temperature=0.05, iterations=10)

        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)

    def test_equal_entries_have_a_finite_gradient(self) -> None:
        gamma = torch.full((5,), 2.0, requires_grad=True)
        tau, eps = project(gamma, torch.tensor(1.0), method="sinkhorn")
        torch.testing.assert_close(eps.item(), 11 / 6)
        tau.sum().backward()
        assert gamma.grad is not None
        assert gamma.grad.isfinite().all()

    def test_iterations_are_not_kept_for_the_backward_pass(self) -> None:
        gamma = torch.randn(64, generator=torch.Generator().manual_seed(0), requires_grad=True)

        def saved(iterations: int) -> int:
            total = 0

            def count(part: Tensor) -> Tensor:
                nonlocal total
                total += part.numel()
                return part

            with torch.autograd.graph.saved_tensors_hooks(count, lambda part: part):
                project(gamma, torch.tensor(0.0), method="sinkhorn", iterations=iterations)
            return total

        # Each iteration hands its arguments on, the plan's kernel among them by reference; nothing of size n^2 is new.
        few, many = saved(2), saved(12)
        assert (many - few) / 10 < 1.1 * 64 * 64


class TestTouched:
    def test_only_the_rows_of_the_batch_and_eps_move(self) -> None:
        tau, eps = torch.tensor([2.0, 5.0, -1.0, 4.0]).double(), torch.tensor(1.0).double()
        index = torch.tensor([3, 0, 3])
        found, level = project_touched(tau, eps, index)
        assert level.item() == pytest.approx(2.5)  # 4 and 1; 2 stays below their mean
        assert found.tolist() == [2.0, 5.0, -1.0, 2.5]
        assert tau.tolist() == [2.0, 5.0, -1.0, 4.0]
        whole = project_touched(tau, eps, torch.arange(4))
        torch.testing.assert_close(whole, project(tau, eps))

    @pytest.mark.parametrize(
        ("tau", "eps", "expected"),
        [
            (3.0, 1.0, (2.0, 2.0)),
            (0.5, 1.0, (0.5, 1.0)),
            (3.0, -1.0, (1.0, 1.0)),
            (1.0, -3.0, (0.0, 0.0)),
            (-2.0, -1.0, (-2.0, 0.0)),
            (1.0, 1.0, (1.0, 1.0)),
        ],
    )
    def test_a_batch_of_two(self, tau: float, eps: float, expected: tuple[float, float]) -> None:
        rows = torch.tensor([tau, 9.0])
        found, level = project_touched(rows, torch.tensor(eps), torch.tensor([0]))
        assert (found[0].item(), level.item()) == expected
        assert found[1] == 9.0

    def test_in_place_on_parameters(self) -> None:
        tau, eps = nn.Parameter(torch.tensor([2.0, 5.0, 4.0])), nn.Parameter(torch.tensor(1.0))
        expected = project_touched(tau, eps, torch.tensor([1]))
        project_touched_(tau, eps, torch.tensor([1]))
        torch.testing.assert_close((tau.data, eps.data), (expected[0].detach(), expected[1].detach()))
        assert tau.tolist() == [2.0, 3.0, 4.0]
        project_touched_(tau, eps, torch.tensor([], dtype=torch.int64))
        assert eps.item() == 3.0

    def test_derivatives(self) -> None:
        inputs = tuple(part.clone().requires_grad_() for part in FREE)
        assert torch.autograd.gradcheck(lambda tau, eps: project_touched(tau, eps, torch.tensor([0, 2])), inputs)

    def test_rounds_over_all_rows_approach_the_set(self) -> None:
        random = torch.Generator().manual_seed(0)
        tau, eps = torch.randn(100, generator=random), torch.tensor(0.0)
        for rows in torch.randperm(100, generator=random).split(10):
            project_touched_(tau, eps, rows)
        assert (tau <= eps).all()

    @pytest.mark.parametrize(
        ("tau", "eps", "index", "error", "message"),
        [
            (torch.zeros(3), torch.tensor(0.0), torch.tensor([3]), InputError, r"`index` to be in \[0, 2\], but got 3"),
            (torch.zeros(3), torch.tensor(0.0), torch.tensor([-1]), InputError, r"`index`.*but got -1"),
            (torch.zeros(3), torch.tensor(0.0), torch.tensor([1.0]), TypeError, "`index`.*float32"),
            (torch.zeros(3), torch.tensor(0.0), torch.tensor([True]), TypeError, "`index`.*bool"),
            (torch.zeros(3), torch.tensor(0.0), torch.tensor([[1]]), TypeError, r"`index`.*shape \(1, 1\)"),
            (torch.zeros(3), torch.tensor(0.0), [1], TypeError, "`index` to be a torch.Tensor"),
            (torch.zeros(3, 1), torch.tensor(0.0), torch.tensor([1]), InputError, r"`tau` of shape \(n,\)"),
            (torch.zeros(3), torch.zeros(1), torch.tensor([1]), InputError, r"`eps` a single number.*\(1,\)"),
            (torch.zeros(3).long(), torch.tensor(0.0), torch.tensor([1]), TypeError, "`tau`"),
            (torch.zeros(3), 0.0, torch.tensor([1]), TypeError, "`eps` to be a torch.Tensor"),
        ],
    )
    def test_what_does_not_fit_is_refused(
        self, tau: Any, eps: Any, index: Any, error: type[Exception], message: str
    ) -> None:
        for function in (project_touched, project_touched_):
            with pytest.raises(error, match=message):
                function(tau, eps, index)

    def test_only_exact_methods(self) -> None:
        with pytest.raises(InputError, match="`method` to be one of 'newton', 'sort', 'one_pass', but got 'sampled'"):
            project_touched(torch.zeros(3), torch.tensor(0.0), torch.tensor([1]), method="sampled")


class TestLayer:
    def test_an_optimizer_moves_freely_and_the_loss_sees_the_set(self) -> None:
        """The nearest point of the set to (2, -1, 0.5), found by descent through the layer."""
        layer = Projection()
        goal, level = torch.tensor([2.0, -1.0]).double(), torch.tensor(0.5).double()
        gamma = nn.Parameter(torch.tensor([0.5, -0.5]).double())
        delta = nn.Parameter(torch.tensor(1.0).double())
        descent = torch.optim.SGD([gamma, delta], lr=0.2)
        for _ in range(400):
            descent.zero_grad()
            tau, eps = layer(gamma, delta)
            (((tau - goal) ** 2).sum() + (eps - level) ** 2).backward()
            descent.step()
        torch.testing.assert_close(layer(gamma, delta), project(goal, level), atol=1e-6, rtol=0)

    def test_entries_above_move_together_only(self) -> None:
        """What the layer's docstring warns of: from here, descent on the first entry never lets go of the second."""
        gamma = nn.Parameter(torch.tensor([3.0, 3.0]))
        tau, _ = Projection()(gamma, torch.tensor(0.0))
        tau[0].backward()
        assert gamma.grad is not None
        assert gamma.grad[0] == gamma.grad[1] != 0

    def test_settings_reach_the_function(self) -> None:
        gamma = torch.randn(1000, generator=torch.Generator().manual_seed(0))
        delta = torch.tensor(-50.0)
        other: dict[str, Any] = {"temperature": 0.1, "iterations": 3}
        for method, options in (("sort", dict[str, Any]()), ("sinkhorn", other)):
            layer = Projection(method, **options)
            torch.testing.assert_close(layer(gamma, delta), project(gamma, delta, method=method, **options))
            torch.testing.assert_close(copy.deepcopy(layer)(gamma, delta), layer(gamma, delta))
        assert repr(Projection("sampled", samples=5)) == "Projection(method='sampled', samples=5)"
        assert list(Projection().parameters()) == []

    def test_settings_are_refused_at_once(self) -> None:
        with pytest.raises(InputError, match=r"`method` to be one of 'newton'.*'exact'"):
            Projection("exact")
        with pytest.raises(InputError, match="`samples`"):
            Projection("sampled", samples=0)
        with pytest.raises(TypeError, match="colour"):
            Projection(colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("gamma", "delta", "options", "error", "message"),
    [
        (torch.zeros(3), torch.zeros(3), {}, InputError, r"`delta` of shape \(\*batch,\).*\(3,\) and \(3,\)"),
        (torch.zeros(2, 3), torch.zeros(3), {}, InputError, r"\(2, 3\) and \(3,\)"),
        (torch.tensor(1.0), torch.tensor(1.0), {}, InputError, r"`gamma` of shape \(\*batch, n\)"),
        (torch.zeros(3).double(), torch.tensor(1.0), {}, TypeError, "`delta` to be torch.float64.*got torch.float32"),
        (torch.zeros(3).long(), torch.tensor(1.0), {}, TypeError, "`gamma` to be a floating-point"),
        (torch.zeros(3), torch.tensor(1), {}, TypeError, "`delta` to be a floating-point"),
        (torch.zeros(3), 1.0, {}, TypeError, "`delta` to be a torch.Tensor, but got float"),
        ([1.0], torch.tensor(1.0), {}, TypeError, "`gamma` to be a torch.Tensor, but got list"),
        (torch.tensor([0.0, torch.nan]), torch.tensor(1.0), {}, InputError, r"`gamma` to be finite.*\[1\]: nan"),
        (torch.tensor([torch.inf, -torch.inf]), torch.tensor(1.0), {}, InputError, "`gamma`.*2 of 2"),
        (torch.zeros(3), torch.tensor(-torch.inf), {}, InputError, "`delta` to be finite"),
        (torch.zeros(3), torch.tensor(1.0), {"method": "fast"}, InputError, "`method` to be one of.*'fast'"),
        (torch.zeros(3), torch.tensor(1.0), {"method": "sampled", "samples": 0}, InputError, "`samples`"),
        (torch.zeros(3), torch.tensor(1.0), {"method": "sampled", "samples": 2.5}, TypeError, "`samples`"),
        (torch.zeros(3), torch.tensor(1.0), {"method": "sinkhorn", "temperature": 0}, InputError, "`temperature`"),
        (torch.zeros(3), torch.tensor(1.0), {"method": "sinkhorn", "iterations": 0}, InputError, "`iterations`"),
    ],
)
def test_what_does_not_fit_is_refused(
    gamma: Any, delta: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        project(gamma, delta, **options)


def test_large_finite_numbers_are_no_reason_to_refuse() -> None:
    tau, eps = project(torch.full((20,), 3e38), torch.tensor(0.0))
    assert eps.item() == pytest.approx(3e38 * 20 / 21, rel=1e-6)
    assert (tau == eps).all()
