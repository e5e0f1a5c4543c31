"""The faces of a measure agree: brute force, exact solution, program, function, module, hard metric."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from setwise import parse
from setwise.lp import LinearProgram
from support.draws import perfect, stack
from support.highs import HighsResult, highs_solve
from support.spec import Case


@pytest.mark.parametrize("ties", [False, True])
def test_value_and_gradient_are_those_of_brute_force(any_case: Case, ties: bool) -> None:
    case = any_case
    for seed in range(case.brute_force_cases):
        scores, labels, weight = case.draw(seed, ties=ties, weighted=seed % 3 != 0)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = case.functional(ours, labels, weight=weight, **case.settings)
        expected = case.oracle(theirs, labels, weight, **case.settings)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        if case.has_kink_convention or not ties:
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


def test_large_sets_of_float32_agree_with_float64(any_case: Case) -> None:
    case = any_case
    scores, labels, weight = case.draw(7, size=20_000, weighted=True)
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
def test_program_optimum_by_highs_is_the_exact_value(any_case_with_program: Case, seed: int) -> None:
    case = any_case_with_program
    assert case.program is not None
    scores, labels, weight = case.draw(seed, size=24, ties=seed % 2 == 0, weighted=seed % 3 == 0)
    assert case.exact is not None
    program = case.program(scores, labels, weight=weight, **case.program_settings)
    solution = highs_solve(program)
    exact = case.exact(scores, labels, weight=weight, **case.exact_settings)
    if exact.isinf():  # a fixed threshold at which the level is not held
        assert solution.status == "infeasible"
    else:
        assert solution.status == "optimal"
        assert exact.item() == pytest.approx(program.objective(solution.primal).item(), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_gradient_of_the_exact_value_is_the_programs_by_its_duals(any_case_with_program: Case, seed: int) -> None:
    case = any_case_with_program
    assert case.program is not None
    scores, labels, weight = case.draw(seed, size=20, weighted=True)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    assert case.exact is not None
    exact = case.exact(ours, labels, weight=weight, **case.exact_settings)
    if exact.isinf():  # as above
        return
    exact.backward()
    program = case.program(theirs, labels, weight=weight, **case.program_settings)
    lagrangian(program, highs_solve(program)).backward()  # the envelope theorem
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-8)


def lagrangian(program: LinearProgram, at: HighsResult) -> Tensor:
    """c'z + v'(A z - b) + w'(A_eq z - b_eq) at a solution, as a function of the program's data."""
    value = (program.c * at.primal).sum() + program.offset - (at.dual_inequality * program.b).sum()
    value = value - (at.dual_equality * program.b_eq).sum()
    for matrix, dual in ((program.A, at.dual_inequality), (program.A_eq, at.dual_equality)):
        assert isinstance(matrix, Tensor)
        if matrix.requires_grad or matrix.layout == torch.strided:
            value = value + dual @ (matrix @ at.primal)
    return value


def test_the_exact_value_is_the_loss(any_case_with_exact: Case) -> None:
    case = any_case_with_exact
    assert case.exact is not None
    for seed in range(20):
        scores, labels, weight = case.draw(seed, ties=seed % 2 == 0, weighted=True)
        exact = case.exact(scores, labels, weight=weight, **case.exact_settings)
        value = case.value(scores, labels, weight)
        if exact.isinf() or (exact == 1 and value > 1):
            assert value > 1  # the level is out of reach: the program has no solution, the loss says how far
        elif case.exact_is_loss:
            torch.testing.assert_close(exact, value, rtol=1e-12, atol=1e-12)
        elif value > 1e-6:  # a multiple of it that does not depend on the scores
            others = scores.flip(0)
            again = case.exact(others, labels, weight=weight, **case.exact_settings)
            torch.testing.assert_close(again * value, case.value(others, labels, weight) * exact)


def test_batch_is_the_stack_of_singles(any_case_with_exact: Case) -> None:
    case = any_case_with_exact
    assert case.exact is not None
    sets = [case.draw(seed, size=17, ties=True, weighted=True) for seed in range(6)]
    scores, labels, weight = (part.unflatten(0, (2, 3)) for part in stack(sets))
    scores.requires_grad_()
    together = case.exact(scores, labels, weight=weight, **case.exact_settings)
    together.sum().backward()
    assert together.shape == (2, 3)
    assert scores.grad is not None
    for place, (one, label, w) in enumerate(sets):
        single = one.clone().requires_grad_()
        value = case.exact(single, label, weight=w, **case.exact_settings)
        value.backward()
        index = divmod(place, 3)
        torch.testing.assert_close(together[index], value)
        torch.testing.assert_close(scores.grad[index], single.grad)


def test_function_and_module_agree(any_case: Case) -> None:
    case = any_case
    scores, labels, weight = case.draw(3, weighted=True)
    module = case.loss(**case.settings)
    assert torch.equal(module(scores, labels, weight), case.functional(scores, labels, weight=weight, **case.settings))
    assert torch.equal(module(scores, labels), case.functional(scores, labels, **case.settings))
    plain = [value for value in case.settings.values() if not callable(value) and not isinstance(value, Tensor)]
    assert all(str(value).strip("'()") in repr(module) for value in plain), module


def test_all_elements_of_any_shape_are_one_set(binary_case: Case) -> None:
    case = binary_case
    scores, labels, weight = case.draw(4, size=24, weighted=True)
    assert weight is not None
    flat = case.functional(scores, labels, weight=weight, **case.settings)
    for shape in ((24, 1), (4, 6), (2, 3, 4)):
        shaped = case.functional(
            scores.reshape(shape), labels.reshape(shape), weight=weight.reshape(shape), **case.settings
        )
        assert torch.equal(flat, shaped)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.bfloat16, torch.float64])
def test_labels_of_every_type(binary_case: Case, dtype: torch.dtype) -> None:
    case = binary_case
    scores, labels, _ = case.draw(5)
    expected = case.functional(scores, labels, **case.settings)
    assert torch.equal(case.functional(scores, labels.to(dtype), **case.settings), expected)


def test_integer_weights_are_repetitions(any_case: Case) -> None:
    case = any_case
    scores, labels, _ = case.draw(8, ties=True)
    times = torch.randint(0, 4, labels.shape, generator=torch.Generator().manual_seed(1))
    times[0], times[-1] = 1, 2
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    weighted = case.functional(ours, labels, weight=times, **case.settings)
    repeated = case.functional(theirs.repeat_interleave(times, 0), labels.repeat_interleave(times), **case.settings)
    weighted.backward()
    repeated.backward()
    torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)


def test_a_perfect_ranking_with_room_costs_nothing(any_case: Case) -> None:
    case = any_case
    scores, labels = perfect(case)
    assert case.functional(scores, labels, **case.settings).item() == pytest.approx(case.least, rel=1e-6, abs=0)


def test_hard_limit_is_the_measure_of_scikit_learn(any_case_with_limit: Case) -> None:
    case = any_case_with_limit
    assert case.limit is not None
    for seed in range(40):
        scores, labels = case.limit_draw(seed)
        value = case.functional(scores, labels, **{**case.settings, **case.limit}).item()
        assert value == pytest.approx(1 - case.judge(labels.numpy(), scores.numpy()), abs=1e-6)


def test_the_judge_is_scikit_learn_with_ties_and_weights(judged_case: Case) -> None:
    case = judged_case
    for seed in range(40):
        scores, labels, weight = case.draw(seed, ties=True, weighted=seed % 2 == 0)
        expected = case.judge(labels, scores, sample_weight=weight)
        assert case.metric(scores, labels, weight=weight) == pytest.approx(expected, abs=1e-12)


def test_the_measure_goes_by_its_names(case: Case) -> None:
    scores, labels, weight = case.draw(0, weighted=True)
    for name, options in case.names.items():
        measure = parse(name.upper() + " ")
        assert repr(measure.loss()) == repr(case.loss(**options)), name
        value = measure.metric(scores, labels, weight=weight)
        assert (1 - value if measure.minimize else value) == case.metric(scores, labels, weight=weight), name
        assert measure.program is None or measure.program(scores, labels).variables > 0
