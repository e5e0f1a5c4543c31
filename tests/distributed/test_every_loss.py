"""Every loss of the table over several ranks: value and gradient of one process, whatever each rank holds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from setwise import functional, losses
from setwise.distributed import Ranks
from support import ranks
from support.draws import Draw
from support.ranks import SPLITS, arranged, close, compare, own_rows
from support.spec import Case
from support.table import CASES

FIRST = list({case.loss: case for case in reversed(CASES)}.values())
SIZE = 26


def every_row_of_the_table() -> None:
    rows_of_the_table(CASES)


def every_loss() -> None:
    rows_of_the_table(FIRST)


def rows_of_the_table(cases: list[Case]) -> None:
    for number, case in enumerate(cases):
        for k, split in enumerate(SPLITS):
            whole = case.draw(number, size=SIZE, ties=k % 2 == 0, weighted=(number + k) % 2 == 0)
            compare(case, split, arranged(split, whole), partial(functional_of, case), 1e-9)


def functional_of(case: Case, scores: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
    return case.value(scores, labels, weight)


def in_float32() -> None:
    for number, case in enumerate(FIRST):
        whole = case.draw(number, size=SIZE, dtype=torch.float32)
        compare(case, "uneven", whole, partial(functional_of, case), 1e-6)


def modules_count_undefined_sets_of_all_ranks() -> None:
    for case in FIRST:
        module = case.loss(**case.settings)
        scores, labels, _ = arranged(SPLITS[2], case.draw(1, size=SIZE))
        rows = own_rows("even", SIZE)
        module(scores[rows].requires_grad_(), labels[rows])  # no positives on the first rank, but some elsewhere
        assert module.undefined_batches.item() == 0
        value = module(scores[rows].requires_grad_(), torch.zeros_like(labels[rows]))
        assert value.item() == 0
        assert module.undefined_batches.item() == 1


def network(case: Case) -> nn.Module:
    torch.manual_seed(5)
    last: nn.Module = nn.Linear(8, 3) if case.layout == "classes" else nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), last)


def parameters_under_ddp() -> None:
    models = {case.layout: DistributedDataParallel(network(case)) for case in FIRST}
    for number, case in enumerate(FIRST):
        split = SPLITS[1 + number % 3]
        _, labels, weight = arranged(split, case.draw(number, size=SIZE, weighted=True, dtype=torch.float32))
        inputs = torch.randn(SIZE, 4, generator=torch.Generator().manual_seed(number)) + labels[:, None]
        assert weight is not None
        alone, model = network(case), models[case.layout]
        case.value(alone(inputs), labels, weight, process_group=False).backward()
        rows = own_rows(split, SIZE)
        model.zero_grad()
        case.value(model(inputs[rows]), labels[rows], weight[rows]).backward()
        for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
            assert found.grad is not None
            assert expected.grad is not None
            close(found.grad, expected.grad, 1e-6)


def gradients_that_are_summed() -> None:
    for case in FIRST:
        whole = case.draw(3, size=SIZE)
        rows = own_rows("uneven", SIZE)
        part, alone = whole.scores[rows].clone().requires_grad_(), whole.scores.clone().requires_grad_()
        case.value(part, whole.labels[rows], process_group=Ranks(gradients="sum")).backward()
        case.value(alone, whole.labels, process_group=False).backward()
        assert part.grad is not None
        assert alone.grad is not None
        close(part.grad, alone.grad[rows], 1e-9)


def when_a_group_is_used() -> None:
    for case in FIRST:
        scores, labels, _ = case.draw(4, size=SIZE)
        rows = own_rows("even", SIZE)
        part = scores[rows], labels[rows]
        alone, whole = case.value(*part, process_group=False), case.value(scores, labels, process_group=False)
        assert not torch.equal(alone, whole)
        close(case.value(*part), whole)
        close(case.value(*part, process_group=dist.group.WORLD), whole)
        with torch.no_grad():  # an evaluation on one rank shall not wait for the others
            close(case.value(*part), alone)
            close(case.value(*part, process_group=Ranks()), alone)
            close(case.value(*part, process_group=dist.group.WORLD), whole)


LAYOUTS: list[dict[str, object]] = [
    {"average": average, "counting": counting, "surrogate": surrogate, "ignore_index": 2}
    for average in ("micro", "macro", "weighted", "none")
    for counting in ("batch", "image")
    for surrogate in ("hinge", "sigmoid")
]


def maps_of_classes() -> None:
    torch.manual_seed(6)
    maps, truth = torch.randn(7, 3, 4, 4, dtype=torch.float64), torch.randint(3, (7, 4, 4))
    truth[0], truth[1] = 2, 0  # an image without anything to count, and one of one class
    for options in LAYOUTS:
        _map_gradients(maps, truth, options)
    _map_gradients(maps, (truth.unsqueeze(1) == torch.arange(3).reshape(3, 1, 1)).long(), {"average": "macro"})
    _map_gradients(maps[:, 0], (truth == 1).long(), {"counting": "image"})
    _map_gradients(maps[:, 0], (truth == 1).long(), {})


def _map_gradients(maps: Tensor, truth: Tensor, options: dict[str, object]) -> None:
    for split in SPLITS[1], SPLITS[3]:
        rows = own_rows(split, len(maps))
        part, alone = maps[rows].clone().requires_grad_(), maps.clone().requires_grad_()
        value = functional.dice_loss(part, truth[rows], **options)  # type: ignore[arg-type]
        expected = functional.dice_loss(alone, truth, **options, process_group=False)  # type: ignore[arg-type]
        close(value, expected, 1e-9)
        value.sum().backward()
        expected.sum().backward()
        assert part.grad is not None
        assert alone.grad is not None
        close(part.grad / dist.get_world_size(), alone.grad[rows], 1e-9)


def labels_of_several_classes() -> None:
    torch.manual_seed(7)
    scores, labels = torch.randn(20, 4, dtype=torch.float64), torch.randint(2, (20, 4))
    for split in SPLITS[1], SPLITS[3]:
        rows = own_rows(split, 20)
        part, alone = scores[rows].clone().requires_grad_(), scores.clone().requires_grad_()
        functional.multiclass_auc_loss(part, labels[rows], scores="raw").backward()
        functional.multiclass_auc_loss(alone, labels, scores="raw", process_group=False).backward()
        assert part.grad is not None
        assert alone.grad is not None
        close(part.grad / dist.get_world_size(), alone.grad[rows], 1e-9)


def any_shape_is_one_set() -> None:
    whole = Draw(torch.linspace(-1, 1, 24).double(), torch.arange(24) % 3 % 2, None)
    rows = own_rows("uneven", 24)
    flat = functional.auc_loss(whole.scores[rows].requires_grad_(), whole.labels[rows])
    shaped = functional.auc_loss(whole.scores[rows].reshape(-1, 1).requires_grad_(), whole.labels[rows].reshape(-1, 1))
    assert torch.equal(flat, shaped)


def areas_by_points() -> None:
    scores, labels, weight = arranged(SPLITS[2], CASES[0].draw(2, size=SIZE, weighted=True))
    assert weight is not None
    for kind in ("roc", "pr"):
        for split in SPLITS:
            rows = own_rows(split, SIZE)
            part, alone = scores[rows].clone().requires_grad_(), scores.clone().requires_grad_()
            value = losses.OperatingCurveLoss(kind, points=9)(part, labels[rows], weight[rows])
            expected = functional.operating_curve_loss(
                alone, labels, kind=kind, points=9, weight=weight, process_group=False
            )
            close(value, expected, 1e-9)
            value.backward()
            expected.backward()
            assert part.grad is not None
            assert alone.grad is not None
            close(part.grad / dist.get_world_size(), alone.grad[rows], 1e-9)


CHECKS = {
    1: [every_loss],
    2: [
        every_row_of_the_table,
        in_float32,
        modules_count_undefined_sets_of_all_ranks,
        parameters_under_ddp,
        gradients_that_are_summed,
        when_a_group_is_used,
        maps_of_classes,
        labels_of_several_classes,
        any_shape_is_one_set,
        areas_by_points,
    ],
    4: [every_loss, in_float32, parameters_under_ddp, maps_of_classes],
}


@pytest.mark.parametrize("world", CHECKS)
def test_value_and_gradient_are_those_of_one_process(world: int, tmp_path: Path) -> None:
    ranks.run(world, CHECKS[world], tmp_path)


@pytest.mark.slow
def test_every_row_of_the_table_on_four_ranks(tmp_path: Path) -> None:
    ranks.run(4, [every_row_of_the_table], tmp_path)
