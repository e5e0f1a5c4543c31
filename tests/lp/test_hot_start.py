"""What HiGHS keeps from call to call: the same answers with less work, and nothing of what has changed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import HiGHS, HotStart, LinearProgram, LPLayer, RegretLoss, Status, solve
from setwise.lp.solvers.highs_model import Model
from support.programs import shortest_paths

DOUBLE = torch.float64


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every model that is built."""
    built: list[Any] = []
    init = Model.__init__

    def counted(self: Model, *arguments: Any) -> None:
        built.append(self)
        init(self, *arguments)

    monkeypatch.setattr(Model, "__init__", counted)
    return built


def costs(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def test_one_model_serves_a_batch_and_with_a_memory_all_calls(models: list[Any]) -> None:
    program = shortest_paths(0, 6)
    solve(program)
    assert len(models) == 1
    solve(program)
    assert len(models) == 2
    memory = HotStart()
    for seed in range(3):
        drawn = program.replace(c=costs(seed, 6, 40))
        torch.testing.assert_close(solve(drawn, memory=memory).value, solve(drawn).value)
    assert sum(model is memory.models[0] for model in models) == 1


def test_the_answer_is_that_of_a_fresh_start_whatever_changes() -> None:
    program = shortest_paths(1, 4)
    memory = HotStart()
    upper = torch.ones(40, dtype=DOUBLE)
    changes: list[dict[str, Tensor]] = [
        {},
        {"c": costs(1, 4, 40)},
        {"upper": 0.7 * upper},
        {"b_eq": 0.5 * program.b_eq},
        {"c": costs(2, 7, 40)},
        {"c": costs(3, 40)},
        {"c": 1e-7 * costs(4, 4, 40)},
        {"upper": -upper},
        {"c": costs(5, 4, 40)},
    ]
    for change in changes:
        other = program.replace(**change)
        kept, fresh = solve(other, memory=memory, throw=False), solve(other, throw=False)
        assert np.array_equal(np.asarray(kept.status), np.asarray(fresh.status))
        torch.testing.assert_close(kept.value, fresh.value)


def test_the_same_examples_start_from_their_last_bases_and_others_do_not() -> None:
    program, memory = shortest_paths(2, 5), HotStart()
    first = solve(program, memory=memory)
    again = solve(program.replace(c=program.c * 1.001), memory=memory)
    assert int(first.steps.min()) > 0
    assert int(again.steps.max()) == 0
    solve(program.replace(c=costs(9, 5, 40)), memory=memory)
    assert memory.pause == 1  # bases of other examples saved nothing
    cold = solve(program, memory=memory)
    assert torch.equal(cold.steps, first.steps)
    assert int(solve(program, memory=memory).steps.max()) == 0  # and these are the same again


def test_where_bases_never_help_they_are_tried_less_and_less() -> None:
    program, memory = shortest_paths(8, 4), HotStart()
    pauses = []
    for seed in range(20):
        solve(program.replace(c=costs(seed, 4, 40)), memory=memory)
        pauses.append(memory.length)
    assert pauses[-1] == 8
    assert pauses == sorted(pauses)


@pytest.mark.parametrize("which", ["in place", "another tensor", "settings", "tolerance"])
def test_a_matrix_that_was_changed_is_read_again(which: str) -> None:
    program, memory = shortest_paths(3, 2), HotStart()
    solve(program, memory=memory)
    E, tolerance, solver = program.A_eq, 1e-9, HiGHS()
    assert isinstance(E, Tensor)
    if which == "in place":
        E.mul_(0.5)
    elif which == "another tensor":
        program = program.replace(A_eq=0.5 * E)
    elif which == "settings":
        solver = HiGHS("ipm")
    else:
        tolerance = 1e-6
    kept = solve(program, solver, memory=memory, tolerance=tolerance)
    torch.testing.assert_close(kept.value, solve(program, solver, tolerance=tolerance).value)
    assert memory.knows(program)


def test_statuses_and_certificates_survive_a_kept_model() -> None:
    A, memory = torch.ones(1, 2, dtype=DOUBLE), HotStart()
    one = torch.ones(1, dtype=DOUBLE)
    for side, sign, status in ((1, 1, Status.OPTIMAL), (-1, 1, Status.INFEASIBLE), (2, 1, Status.OPTIMAL)):
        program = LinearProgram(sign * torch.ones(2, dtype=DOUBLE), A, side * one)
        assert solve(program, HiGHS(), memory=memory, throw=False).status is status
    free = LinearProgram(-torch.ones(2, dtype=DOUBLE), -A, one)
    assert solve(free, HiGHS(), memory=memory, throw=False).status is Status.UNBOUNDED


@pytest.mark.parametrize("share", [True, False])
def test_workers_give_what_one_gives(share: bool) -> None:
    program = shortest_paths(4, 9)
    if not share:
        E = program.A_eq
        assert isinstance(E, Tensor)
        program = program.replace(A_eq=E * (1 + costs(0, 9, 25, 1)), b_eq=program.b_eq * (1 + costs(0, 9, 25)))
    one, two = solve(program, HiGHS(), throw=False), solve(program, HiGHS(workers=3), throw=False)
    assert list(one.status) == list(two.status)  # type: ignore[arg-type]
    for part in ("value", "primal", "steps"):
        torch.testing.assert_close(getattr(one, part), getattr(two, part))
    with pytest.raises(InputError, match="`workers`"):
        HiGHS(workers=0)


def test_modules_keep_it_and_copies_start_afresh(models: list[Any]) -> None:
    program = shortest_paths(5, 1)
    loss = RegretLoss(LinearProgram(program.c[0], A_eq=program.A_eq, b_eq=program.b_eq, upper=1.0))
    truth = costs(0, 3, 40)
    expected = loss(costs(1, 3, 40), truth)
    built = len(models)
    torch.testing.assert_close(loss(costs(1, 3, 40), truth), expected)
    assert len(models) == built
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301 (our own bytes)
        torch.testing.assert_close(other(costs(1, 3, 40), truth), expected)
    assert len(models) == built + 2
    assert not any("memory" in name for name in loss.state_dict())
    layer = LPLayer(warm_start=True)
    arguments = {"A_eq": program.A_eq, "b_eq": program.b_eq, "upper": 1.0}
    first = layer(truth, **arguments)
    built = len(models)
    torch.testing.assert_close(layer(truth + 1e-4, **arguments), first)
    assert len(models) == built
    assert int(layer.solution.steps.max()) == 0  # type: ignore[union-attr]
    torch.testing.assert_close(copy.deepcopy(layer)(truth, **arguments), first)


def test_a_matrix_with_a_graph_is_not_kept(models: list[Any]) -> None:
    program, memory, scale = shortest_paths(7, 2), HotStart(), torch.ones((), dtype=DOUBLE, requires_grad=True)
    for _ in range(2):
        solve(program.replace(A_eq=scale * torch.as_tensor(program.A_eq)), memory=memory)
    assert len(models) == 2
    assert not any(getattr(part, "grad_fn", None) for part in vars(vars(memory)["stamp"])["parts"])


def test_a_program_in_unusual_units_is_scaled_and_keeps_nothing() -> None:
    program, memory = shortest_paths(6, 2), HotStart()
    small = program.replace(c=1e-9 * program.c)
    for _ in range(2):
        torch.testing.assert_close(solve(small, memory=memory).value, 1e-9 * solve(program).value)
    torch.testing.assert_close(solve(program, memory=memory).value, solve(program).value)
    torch.testing.assert_close(solve(small, memory=memory).value, 1e-9 * solve(program).value)
