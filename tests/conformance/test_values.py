"""The faces of a measure agree: brute force, exact solution, program, function, module, hard metric."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from setwise import parse
from support.draws import draw, stack
from support.highs import highs_solve
from support.spec import Case


@pytest.mark.parametrize("ties", [False, True])
def test_value_and_gradient_are_those_of_brute_force_in_200_cases(case: Case, ties: bool) -> None:
    for seed in range(200):
        scores, labels, weight = draw(seed, ties=ties, weighted=seed % 3 != 0)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = case.functional(ours, labels, weight=weight, **case.settings)
        expected = case.oracle(theirs, labels, weight, **case.settings)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


def test_large_sets_of_float32_agree_with_float64(case: Case) -> None:
    scores, labels, weight = draw(7, size=20_000, weighted=True)
    scores = scores.float().double()  # both see the same numbers
    assert weight is not None
    for w in (None, weight.float().double()):
        wide, narrow = scores.clone().requires_grad_(), scores.float().requires_grad_()
        expected = case.functional(wide, labels, weight=w, **case.settings)
        value = case.functional(narrow, labels, weight=None if w is None else w.float(), **case.settings)
        expected.backward()
        value.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
        assert wide.grad is not None
        assert narrow.grad is not None
        torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=1e-3, atol=1e-4 * float(wide.grad.abs().max()))


@pytest.mark.parametrize("seed", range(12))
def test_program_optimum_by_highs_is_the_exact_value(case_with_program: Case, seed: int) -> None:
    case = case_with_program
    assert case.program is not None
    scores, labels, weight = draw(seed, size=24, ties=seed % 2 == 0, weighted=seed % 3 == 0)
    solution = highs_solve(case.program(scores, labels, weight=weight, **case.program_settings))
    exact = case.exact(scores, labels, weight=weight, **case.settings)
    assert solution.status == "optimal"
    assert exact.item() == pytest.approx(solution.value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_gradient_of_the_exact_value_is_the_programs_by_its_duals(case_with_program: Case, seed: int) -> None:
    case = case_with_program
    assert case.program is not None
    scores, labels, weight = draw(seed, size=20, weighted=True)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    case.exact(ours, labels, weight=weight, **case.settings).backward()
    program = case.program(theirs, labels, weight=weight, **case.program_settings)
    duals = highs_solve(program).dual_inequality
    (-duals * program.b).sum().backward()  # the value changes by -v with the right-hand side
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)


def test_batch_is_the_stack_of_singles(case: Case) -> None:
    sets = [draw(seed, size=17, ties=True, weighted=True) for seed in range(6)]
    scores, labels, weight = (part.reshape(2, 3, 17) for part in stack(sets))
    scores.requires_grad_()
    together = case.exact(scores, labels, weight=weight, **case.settings)
    together.sum().backward()
    assert together.shape == (2, 3)
    assert scores.grad is not None
    for place, (one, label, w) in enumerate(sets):
        single = one.clone().requires_grad_()
        value = case.exact(single, label, weight=w, **case.settings)
        value.backward()
        index = divmod(place, 3)
        torch.testing.assert_close(together[index], value)
        torch.testing.assert_close(scores.grad[index], single.grad)


def test_function_and_module_agree(case: Case) -> None:
    scores, labels, weight = draw(3, weighted=True)
    module = case.loss(**case.settings)
    assert torch.equal(module(scores, labels, weight), case.functional(scores, labels, weight=weight, **case.settings))
    assert torch.equal(module(scores, labels), case.functional(scores, labels, **case.settings))
    assert all(str(value).strip("'") in repr(module) for value in case.settings.values())


def test_all_elements_of_any_shape_are_one_set(case: Case) -> None:
    scores, labels, weight = draw(4, size=24, weighted=True)
    assert weight is not None
    flat = case.functional(scores, labels, weight=weight, **case.settings)
    for shape in ((24, 1), (4, 6), (2, 3, 4)):
        shaped = case.functional(
            scores.reshape(shape), labels.reshape(shape), weight=weight.reshape(shape), **case.settings
        )
        assert torch.equal(flat, shaped)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.bfloat16, torch.float64])
def test_labels_of_every_type(case: Case, dtype: torch.dtype) -> None:
    scores, labels, _ = draw(5)
    expected = case.functional(scores, labels, **case.settings)
    assert torch.equal(case.functional(scores, labels.to(dtype), **case.settings), expected)


def test_integer_weights_are_repetitions(case: Case) -> None:
    scores, labels, _ = draw(8, ties=True)
    times = torch.randint(0, 4, scores.shape, generator=torch.Generator().manual_seed(1))
    times[0], times[-1] = 1, 2
    weighted = case.functional(scores, labels, weight=times, **case.settings)
    repeated = case.functional(scores.repeat_interleave(times), labels.repeat_interleave(times), **case.settings)
    torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=1e-12)


def test_a_perfect_ranking_with_room_costs_nothing(case: Case) -> None:
    labels = torch.tensor([1, 0, 1, 0, 0])
    scores = 1e3 * (2.0 * labels - 1) + torch.linspace(0, 1, 5)
    assert case.functional(scores, labels, **case.settings).item() == 0.0


def test_hard_limit_is_the_measure_of_scikit_learn(case_with_limit: Case) -> None:
    case = case_with_limit
    assert case.limit is not None
    for seed in range(100):
        generator = np.random.default_rng(seed)
        n = int(generator.integers(4, 60))
        scores = torch.from_numpy(generator.permutation(n) * 0.1)
        labels = torch.from_numpy(generator.integers(0, 2, n))
        labels[0], labels[1] = 0, 1
        value = case.functional(scores, labels, **case.limit).item()
        assert value == pytest.approx(1 - case.judge(labels.numpy(), scores.numpy()), abs=1e-6)


def test_the_judge_is_scikit_learn_with_ties_and_weights(case: Case) -> None:
    for seed in range(100):
        scores, labels, weight = draw(seed, ties=True, weighted=seed % 2 == 0)
        expected = case.judge(labels, scores, sample_weight=weight)
        assert case.metric(scores, labels, weight=weight) == pytest.approx(expected, abs=1e-12)


def test_the_measure_goes_by_its_names(case: Case) -> None:
    for name in case.names:
        measure = parse(name.upper() + " ")
        assert measure.loss is case.loss
        assert measure.metric is case.metric
        assert measure.loss(**case.settings)(*draw(0)[:2]).ndim == 0
