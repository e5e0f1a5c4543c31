"""Gradients of every order and under every transform."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from setwise import AUCLoss, FBetaLoss, MulticlassAUCLoss, PrecisionAtRecallLoss
from support.draws import perfect, stack, towards
from support.spec import Case
from support.table import CASES


def test_gradcheck_reverse_forward_and_batched(any_case: Case) -> None:
    case = any_case
    for seed in range(2 if case.layout == "binary" else 1):
        scores, labels, weight = case.draw(seed, size=9 if case.layout == "binary" else 5, weighted=True)
        scores = case.tame(scores, labels)

        def loss(s: Tensor, labels: Tensor = labels, weight: Tensor | None = weight) -> Tensor:
            return case.functional(s, labels, weight=weight, **case.settings)

        scores.requires_grad_()
        assert torch.autograd.gradcheck(loss, (scores,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(loss, (scores,))


def test_second_derivative_is_zero_only_where_it_should_be(any_case: Case) -> None:
    case = any_case
    scores, labels, weight = case.draw(1, size=12, weighted=True)

    def loss(s: Tensor) -> Tensor:
        return case.functional(s, labels, weight=weight, **case.settings)

    def oracle(s: Tensor) -> Tensor:
        return case.oracle(s, labels, weight, **case.settings)

    hessian = torch.autograd.functional.hessian(loss, scores)
    expected = torch.autograd.functional.hessian(oracle, scores)
    torch.testing.assert_close(hessian, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(torch.func.hessian(loss)(scores), expected, rtol=1e-10, atol=1e-12)
    assert case.curved is None or bool(hessian.any()) is case.curved


def test_func_grad_and_jvp_are_autograd(any_case: Case) -> None:
    case = any_case
    scores, labels, weight = case.draw(2, ties=True, weighted=True)

    def loss(s: Tensor) -> Tensor:
        return case.functional(s, labels, weight=weight, **case.settings)

    eager = scores.clone().requires_grad_()
    loss(eager).backward()
    assert eager.grad is not None
    torch.testing.assert_close(torch.func.grad(loss)(scores), eager.grad, rtol=1e-12, atol=1e-12)
    direction = torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype).reshape(scores.shape)
    forward = torch.func.jvp(loss, (scores,), (direction,))
    torch.testing.assert_close(forward[0], loss(scores))
    torch.testing.assert_close(forward[1], (eager.grad * direction).sum())
    if case.shift_invariant:
        along = torch.func.jvp(loss, (scores,), (torch.ones_like(scores),))
        assert abs(along[1].item()) < 1e-12


def test_vmap_is_a_loop(any_case: Case) -> None:
    case = any_case
    sets = [case.draw(seed, size=15, ties=True, weighted=True) for seed in range(4)]
    scores, labels, weight = stack(sets)
    module = case.loss(**case.settings)
    values = torch.func.vmap(module)(scores, labels, weight)
    torch.testing.assert_close(values, torch.stack([module(*one) for one in sets]), rtol=1e-12, atol=1e-12)
    gradients = torch.func.vmap(torch.func.grad(module))(scores, labels, weight)
    loop = torch.stack([torch.func.grad(module)(*one) for one in sets])
    torch.testing.assert_close(gradients, loop, rtol=1e-12, atol=1e-12)


def test_compiles_to_one_graph(compiled_case: Case) -> None:
    # Graph and gradient are the same for both backends; inductor's code takes minutes to build for all losses.
    check_compiled(compiled_case, "aot_eager")


@pytest.mark.slow
def test_inductor_compiles_each_loss(first_case_of_a_loss: Case) -> None:
    check_compiled(first_case_of_a_loss, "inductor")


def test_inductor_compiles_the_losses_of_ranks_and_of_counts() -> None:
    for loss in (AUCLoss, FBetaLoss):
        check_compiled(next(case for case in CASES if case.loss is loss), "inductor")


@pytest.mark.slow
def test_inductor_compiles_a_weight_for_each_class() -> None:
    # Scales of weights by class fill whole vectors of Inductor's C++, in which exponents of float64 do not compile.
    torch.compiler.reset()
    module = FBetaLoss(average="macro")
    traced = torch.compile(module, fullgraph=True, dynamic=True)
    scores, labels, weight = torch.randn(40, 12), torch.randint(2, (40, 12)), torch.rand(40, 12)
    torch.testing.assert_close(traced(scores, labels, weight), module(scores, labels, weight))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_inductor_gives_the_gradient_of_many_classes(kind: str) -> None:
    # Inductor's gradient of `softmax(-1).mT` is wrong; the 3 classes of the table are too few to show it.
    torch.compiler.reset()
    module = MulticlassAUCLoss(kind=kind)
    traced = torch.compile(module, fullgraph=True)
    generator = torch.Generator().manual_seed(0)
    scores, labels = torch.randn(40, 12, generator=generator), torch.arange(40) % 12
    (found,) = torch.autograd.grad(traced(scores.requires_grad_(), labels), scores)
    (expected,) = torch.autograd.grad(module(scores, labels), scores)
    torch.testing.assert_close(found, expected)


def test_compiles_with_symbolic_settings() -> None:
    # `dynamic=True` traces the numbers among a module's attributes too, so that checks of them see symbols.
    case = next(case for case in CASES if case.loss is PrecisionAtRecallLoss)
    check_compiled(case, "aot_eager", dynamic=True)


def check_compiled(case: Case, backend: str, *, dynamic: bool | None = None) -> None:
    torch.compiler.reset()  # rows do not share a budget of recompilations
    module = case.loss(**case.settings)
    compiled: Callable[..., Tensor] = torch.compile(module, fullgraph=True, backend=backend, dynamic=dynamic)
    for seed, weighted in ((0, False), (1, True)):
        scores, labels, weight = case.draw(seed, size=33, ties=True, weighted=weighted, dtype=torch.float32)
        eager, traced = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        expected, value = module(eager, labels, weight), compiled(traced, labels, weight)
        expected.backward()
        value.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(traced.grad, eager.grad)
    one_class = torch.zeros_like(scores, requires_grad=True)
    compiled(one_class, torch.zeros(33, dtype=torch.long)).backward()
    assert one_class.grad is not None
    assert not one_class.grad.any()
    assert module.undefined_batches.item() == 1


def test_every_error_keeps_a_gradient_where_promised(case: Case) -> None:
    # Far apart and all wrong: a surrogate that saturates gives these samples nothing to move by.
    scores, labels = perfect(case)
    scores = (-0.05 * scores).requires_grad_()
    case.functional(scores, labels, **case.settings).backward()
    assert scores.grad is not None
    better = towards(case, labels).reshape(scores.shape)
    assert bool((scores.grad * better <= 0).all()) or not case.monotone
    if case.every_error_has_gradient is not None:
        assert bool(scores.grad.all()) is case.every_error_has_gradient


def test_backward_scales_with_what_comes_after(case: Case) -> None:
    scores, labels, weight = case.draw(3, weighted=True)
    once, tripled = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    case.functional(once, labels, weight=weight, **case.settings).backward()
    (3 * case.functional(tripled, labels, weight=weight, **case.settings)).backward()
    assert once.grad is not None
    torch.testing.assert_close(tripled.grad, 3 * once.grad)


def test_no_graph_where_none_is_asked_for(case: Case) -> None:
    scores, labels, _ = case.draw(0)
    assert not case.functional(scores, labels, **case.settings).requires_grad
    with torch.no_grad():
        assert not case.functional(scores.requires_grad_(), labels, **case.settings).requires_grad


@pytest.mark.parametrize(("optimizer", "rate"), [(torch.optim.SGD, 4.0), (torch.optim.Adam, 0.1)])
def test_minimizing_free_scores_ranks_them(case: Case, optimizer: type[torch.optim.Optimizer], rate: float) -> None:
    scores, labels, _ = case.draw(11, size=40)
    free = scores.clone().requires_grad_()
    steps = optimizer([free], lr=rate)  # type: ignore[call-arg]
    for _ in range(300):
        steps.zero_grad()
        case.functional(free, labels, **case.settings).backward()
        steps.step()
    reached = case.metric(free.detach(), labels)
    # a surrogate that saturates may stand still
    assert reached > case.reaches if case.every_error_has_gradient else reached >= case.metric(scores, labels)
