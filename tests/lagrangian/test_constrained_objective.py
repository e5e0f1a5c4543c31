"""Objectives under constraints: exact estimates, multipliers by true rates, training that ends feasible, resuming."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import setwise
from setwise import InputError
from setwise.data import StratifiedBatchSampler
from setwise.lagrangian import ConstrainedObjective, Scored, equal_tpr
from setwise.lagrangian.constraints.rates import read_constraints
from setwise.lagrangian.constraints.thresholds import Threshold


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors are slower on many."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def problem(seed: int = 0, n: int = 1200) -> tuple[Tensor, Tensor, Tensor]:
    """Two groups whose TPR differs by about a fifth under cross-entropy."""
    generator = torch.Generator().manual_seed(seed)
    group = (torch.rand(n, generator=generator) < 0.3).long()
    x = torch.randn(n, 4, generator=generator)
    x[:, 1] += group
    labels = (x[:, 0] + x[:, 2] - 0.8 * group + 0.7 * torch.randn(n, generator=generator) > 0.3).long()
    return x, labels, group


def train(
    objective: ConstrainedObjective,
    x: Tensor,
    labels: Tensor,
    group: Tensor | None = None,
    *,
    epochs: int = 15,
    full: bool = False,
) -> nn.Module:
    """With steps of the multipliers by the memory, or once an epoch by a full pass."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], lr=0.03)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            if full:
                loss = objective(model(x[index]), labels[index], group=None if group is None else group[index])
            else:
                loss = objective(model(x[index]), labels[index], index=index)
            loss.backward()
            optimizer.step()
            if not full:
                objective.step()
        if full:
            with torch.no_grad():
                objective.epoch_end(model(x))
    return model


CONSTRAINTS = ["recall>=0.9", "precision>=0.8", "tpr_difference<=0.02", "fpr[group=0]<=0.1", "accuracy=0.8±0.05"]


@pytest.mark.parametrize("surrogate", ["hinge", "logistic", "sigmoid"])
def test_batches_estimate_the_whole_without_bias(surrogate: str) -> None:
    _, labels, group = problem(n=120)
    scores = torch.randn(120, dtype=torch.float64)
    objective = ConstrainedObjective("cross_entropy", CONSTRAINTS, labels, group, surrogate=surrogate)
    objective.duals.values.copy_(torch.arange(1.0, len(objective.rows) + 1))
    index = torch.randperm(120)
    whole = objective(scores, labels, group=group)
    parts = torch.stack([objective(scores[i], labels[i], group=group[i]) for i in index.split(8)])
    assert parts.mean().item() == pytest.approx(whole.item(), rel=1e-9)
    by_index = torch.stack([objective(scores[i], labels[i], index=i) for i in index.split(8)])
    assert torch.equal(parts, by_index)
    own = torch.cat([c.surrogate(scores, labels, group, kind=surrogate) for c in objective.constraints])
    plain = nn.functional.binary_cross_entropy_with_logits(scores, labels.double())
    assert whole.item() == pytest.approx((plain + (objective.duals().double() * own).sum()).item())


def test_the_surrogate_suits_the_constraint() -> None:
    _, labels, group = problem(n=120)
    scores = torch.randn(120, dtype=torch.float64)
    for text in [*CONSTRAINTS, "error<=0.2", "positive_rate<=0.2"]:
        kind = "logistic" if text in ("recall>=0.9", "fpr[group=0]<=0.1", "positive_rate<=0.2") else "sigmoid"
        values = []
        for surrogate in ("auto", kind):
            objective = ConstrainedObjective(_Nothing(), text, labels, group, surrogate=surrogate)
            objective.duals.values.fill_(1.0)
            values.append(objective(scores, labels, group=group).item())
        assert values[0] == values[1], text


def test_stratified_batches_count_by_their_share_of_the_data_set() -> None:
    _, labels, _ = problem(n=400)
    labels = labels * (torch.arange(400) % 4 == 0)  # about a tenth positive, half of every batch
    scores = torch.randn(400, dtype=torch.float64)
    batches = [index for _ in range(10) for index in StratifiedBatchSampler(labels, 40, positives=20)]
    off = {}
    for sampling in ("uniform", "stratified"):
        objective = ConstrainedObjective(_Nothing(), "recall>=0.9", labels, sampling=sampling)
        objective.duals.values.fill_(1.0)
        mean = sum(objective(scores[i], labels[i]).item() for i in batches) / len(batches)
        off[sampling] = abs(mean - objective(scores, labels).item())
    assert off["stratified"] < 0.02
    assert off["uniform"] > 0.5


class _Nothing(nn.Module):
    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return 0.0 * input.sum()


def test_a_batch_without_a_group_gives_no_nan() -> None:
    _, labels, group = problem()
    for sampling in ("uniform", "stratified"):
        objective = ConstrainedObjective("cross_entropy", CONSTRAINTS, labels, group, sampling=sampling)
        objective.duals.values.fill_(1.0)
        scores = torch.randn(3, requires_grad=True)
        value = objective(scores, torch.tensor([0, 0, 0]), group=torch.tensor([0, 0, 0]))
        value.backward()
        assert math.isfinite(value.item())
        assert scores.grad is not None
        assert bool(scores.grad.isfinite().all())


def test_violations_are_those_of_the_constraints() -> None:
    _, labels, group = problem()
    scores = torch.randn(1200)
    objective = ConstrainedObjective("cross_entropy", CONSTRAINTS, labels, group, threshold=0.2)
    expected = torch.cat([c.true(scores, labels, group, threshold=0.2) for c in read_constraints(CONSTRAINTS)])
    assert objective.epoch_end(scores).tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert objective.violations(Scored(scores, labels, group)).tolist() == pytest.approx(expected.tolist())
    part = Scored(scores[:300], labels[:300], group[:300])
    there = torch.cat([c.true(*_three(part), threshold=0.2) for c in read_constraints(CONSTRAINTS)])
    assert objective.violations(part).tolist() == pytest.approx(there.tolist())


def _three(scored: Scored) -> tuple[Tensor, Tensor, Any]:
    return scored.scores, scored.labels, scored.group


def test_a_memory_half_full_speaks_for_the_rest() -> None:
    _, labels, group = problem()
    scores = torch.randn(1200)
    objective = ConstrainedObjective("cross_entropy", "recall>=0.9", labels)
    half = torch.arange(600)
    objective(scores[half], labels[half], index=half)
    recall = float((scores[half][labels[half] == 1] >= 0).double().mean())
    assert objective.violations().item() == pytest.approx(0.9 - recall)
    gap = ConstrainedObjective("cross_entropy", equal_tpr(0.02), labels, group)
    first = (group == 0).nonzero().squeeze(1)
    gap(scores[first], labels[first], index=first)
    assert gap.violations().tolist() == [0.0, 0.0]  # nothing known of the other group yet


def test_multipliers_move_by_the_share_of_an_epoch() -> None:
    _, labels, _ = problem()
    scores = torch.randn(1200)
    once = ConstrainedObjective("cross_entropy", "recall>=0.9", labels, dual_learning_rate=2.0)
    once(scores, labels, index=torch.arange(1200))
    once.step()
    violation = once.violations().item()
    assert once.duals().item() == pytest.approx(2.0 * violation, rel=1e-5)
    often = ConstrainedObjective("cross_entropy", "recall>=0.9", labels, dual_learning_rate=2.0)
    often.memory.copy_(scores)
    for index in torch.arange(1200).split(100):
        often(scores[index], labels[index], index=index)
        often.step()
    assert often.duals().item() == pytest.approx(once.duals().item(), rel=1e-5)
    falling = ConstrainedObjective("cross_entropy", "recall>=0.9", labels, dual_learning_rate=lambda e: 1 / (1 + e))
    falling.memory.copy_(scores)
    falling.step(share=1.0)
    falling.step(share=1.0)
    assert falling.duals().item() == pytest.approx(1.5 * violation, rel=1e-5)
    held = ConstrainedObjective("cross_entropy", "recall>=0.9", labels)
    held.step(torch.tensor([0.25]), share=1.0)
    assert held.duals().item() == pytest.approx(0.25)


def test_damping_and_maximum_change_what_the_model_sees() -> None:
    _, labels, _ = problem()
    scores = torch.randn(1200)
    values = []
    for setting in ({"damping": 0.0}, {"damping": 5.0}, {"damping": 5.0, "maximum": 0.1}):
        objective = ConstrainedObjective(_Nothing(), "recall>=0.9", labels, **setting)  # type: ignore[arg-type]
        objective.step(torch.tensor([0.25]), share=1.0)
        values.append(objective(scores, labels).item())
    assert values[1] == pytest.approx(values[0] * (0.25 + 1.25) / 0.25, rel=1e-5)
    assert values[2] == pytest.approx(values[0] * 0.1 / 0.25, rel=1e-5)


def test_evaluation_mode_remembers_nothing() -> None:
    _, labels, _ = problem()
    objective = ConstrainedObjective("cross_entropy", "recall>=0.9", labels).eval()
    objective(torch.randn(10), labels[:10], index=torch.arange(10))
    assert bool(objective.memory.isnan().all())
    assert float(objective.since) == 0


def gap(model: nn.Module, x: Tensor, labels: Tensor, group: Tensor, threshold: float = 0.0) -> float:
    with torch.no_grad():
        return float(equal_tpr(0.0).true(model(x), labels, group, threshold=threshold).max())


@pytest.mark.parametrize("full", [False, True])
def test_training_meets_a_difference_that_cross_entropy_breaks(full: bool) -> None:
    x, labels, group = problem()
    free = train(ConstrainedObjective("cross_entropy", "recall>=0", labels), x, labels)
    objective = ConstrainedObjective("cross_entropy", equal_tpr(0.03), labels, group)
    model = train(objective, x, labels, group, epochs=25, full=full)
    assert gap(free, x, labels, group) > 0.1
    assert gap(model, x, labels, group, objective.threshold) < 0.05


@pytest.mark.parametrize("name", ["cross_entropy", "auc", "f1"])
def test_objectives_by_name_and_as_modules(name: str) -> None:
    x, labels, _ = problem()
    objective = ConstrainedObjective(name, "positive_rate<=0.2", labels, dual_learning_rate=5.0)
    model = train(objective, x, labels, epochs=10)
    with torch.no_grad():
        share = float((model(x) >= objective.threshold).double().mean())
    assert 0.1 < share < 0.25
    module = setwise.parse(name).loss() if name != "cross_entropy" else nn.BCEWithLogitsLoss()
    same = ConstrainedObjective(module, "positive_rate<=0.2", labels)
    scores = torch.randn(1200)
    again = ConstrainedObjective(name, "positive_rate<=0.2", labels)
    assert same(scores, labels).item() == pytest.approx(again(scores, labels).item(), rel=1e-6)


def test_two_constraints_at_once() -> None:
    x, labels, group = problem()
    objective = ConstrainedObjective("cross_entropy", ["recall>=0.9", equal_tpr(0.05)], labels, group)
    model = train(objective, x, labels, epochs=30)
    with torch.no_grad():
        found = objective.violations(Scored(model(x), labels, group))
    assert objective.rows == ("recall>=0.9", "tpr[group=0]-tpr[group=1]<=0.05", "tpr[group=1]-tpr[group=0]<=0.05")
    assert float(found.max()) < 0.02


def test_a_learned_threshold_serves_a_frozen_model() -> None:
    x, labels, _ = problem()
    scores = x[:, 0] + x[:, 2] - 2  # hardly anybody is predicted
    objective = ConstrainedObjective("cross_entropy", "recall>=0.9", labels)
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        objective(scores, labels, index=torch.arange(1200)).backward()
        optimizer.step()
        objective.step()
    recall = float((scores[labels == 1] >= objective.threshold).double().mean())
    assert recall == pytest.approx(0.9, abs=0.02)


def test_an_optimizer_of_all_parameters_leaves_the_multipliers_alone() -> None:
    _, labels, _ = problem()
    objective = ConstrainedObjective("cross_entropy", "recall>=0.9", labels)
    objective.duals.values.fill_(0.5)
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.1)
    objective(torch.randn(50), labels[:50], index=torch.arange(50)).backward()
    objective.step(share=0.0)
    optimizer.step()
    assert objective.duals().item() == 0.5


def test_weights_are_as_repetitions() -> None:
    _, labels, group = problem(n=60)
    scores = torch.randn(60, dtype=torch.float64)
    weight = torch.randint(1, 4, (60,)).double()
    again = torch.arange(60).repeat_interleave(weight.long())
    one = ConstrainedObjective("cross_entropy", CONSTRAINTS, labels, group, weight=weight)
    two = ConstrainedObjective("cross_entropy", CONSTRAINTS, labels[again], group[again])
    for objective in (one, two):
        objective.duals.values.fill_(1.0)
    expected = two(scores[again], labels[again], group=group[again]).item()
    assert one(scores, labels, group=group, weight=weight).item() == pytest.approx(expected, rel=1e-6)
    assert one(scores, labels, index=torch.arange(60)).item() == pytest.approx(expected, rel=1e-6)
    one.step(share=1.0)
    two.memory.copy_(scores[again])
    two.step(share=1.0)
    assert one.violation.tolist() == pytest.approx(two.violation.tolist(), abs=1e-6)


def test_resuming_is_bit_for_bit() -> None:
    x, labels, group = problem()

    def run(stop: int | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        torch.manual_seed(0)
        orders = [torch.randperm(1200).split(100) for _ in range(4)]
        model = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
        objective = ConstrainedObjective("cross_entropy", equal_tpr(0.02), labels, group)
        optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], lr=0.03)
        for k, index in enumerate(index for order in orders for index in order):
            if k == stop:
                saved = copy.deepcopy((model.state_dict(), objective.state_dict(), optimizer.state_dict()))
                model = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
                objective = ConstrainedObjective("cross_entropy", equal_tpr(0.02), labels, group)
                optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], lr=0.03)
                model.load_state_dict(saved[0])
                objective.load_state_dict(saved[1])
                optimizer.load_state_dict(saved[2])
            optimizer.zero_grad()
            objective(model(x[index]), labels[index], index=index).backward()
            optimizer.step()
            if k % 3 == 2:
                objective.step()
        return model.state_dict(), objective.state_dict()

    whole = run(None)
    for stop in (1, 17, 30):
        for a, b in zip(whole, run(stop), strict=True):
            assert all(torch.equal(a[key].nan_to_num(), b[key].nan_to_num()) for key in a)


def test_the_report_reads_as_a_table() -> None:
    _, labels, group = problem()
    scores = torch.randn(1200)
    objective = ConstrainedObjective("cross_entropy", ["recall>=0.9", "fpr<=0.1"], labels)
    report = objective.report(train=Scored(scores, labels), test=Scored(scores[:100], labels[:100], group[:100]))
    assert [row.set for row in report.rows] == ["train", "train", "test", "test"]
    recall = float((scores[labels == 1] >= 0).double().mean())
    first = report.rows[0]
    assert first.value == pytest.approx(recall)
    assert first.violation == pytest.approx(0.9 - recall)
    assert first.standard_error == pytest.approx(math.sqrt(recall * (1 - recall) / int(labels.sum())))
    assert report.worst("train") == max(row.violation for row in report.rows[:2])
    lines = report.as_table().splitlines()
    assert lines[0] == "| set | constraint | value | standard error | violation |"
    assert lines[2].startswith(f"| train | `recall>=0.9` | {recall:.4f} |")
    by_group = ConstrainedObjective("cross_entropy", equal_tpr(0.1), labels, group)
    split = by_group.report(Threshold((-9.0, 9.0), "group"), all=Scored(scores, labels, group))
    assert split.rows[0].value == 1.0
    with pytest.raises(InputError, match="`name`"):
        report.worst("validation")
    with pytest.raises(TypeError, match="'train' to be a Scored"):
        objective.report(train=scores)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"objective": 3}, "objective"),
        ({"objective": "nothing"}, "measure"),
        ({"constraints": []}, "constraints"),
        ({"labels": torch.zeros(0)}, "labels"),
        ({"labels": torch.tensor([0, 2])}, "labels"),
        ({"constraints": "tpr_difference<=0.1"}, "group"),
        ({"weight": -torch.ones(1200)}, "weight"),
        ({"weight": torch.ones(3)}, "weight"),
        ({"threshold": "best"}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"surrogate": "step"}, "surrogate"),
        ({"dual_learning_rate": 0.0}, "dual_learning_rate"),
        ({"damping": -1.0}, "damping"),
        ({"maximum": 0.0}, "maximum"),
        ({"sampling": "some"}, "sampling"),
    ],
)
def test_bad_settings(settings: dict[str, Any], named: str) -> None:
    _, labels, _ = problem()
    arguments: dict[str, Any] = {"objective": "cross_entropy", "constraints": "recall>=0.9", "labels": labels}
    with pytest.raises((InputError, TypeError), match=f"`{named}`"):
        ConstrainedObjective(**{**arguments, **settings})


def test_bad_calls() -> None:
    _, labels, group = problem()
    scores = torch.randn(1200)
    objective = ConstrainedObjective("cross_entropy", equal_tpr(0.02), labels, group)
    with pytest.raises(InputError, match="`index`"):
        objective.step()
    with pytest.raises(InputError, match="`group`"):
        objective(scores[:5], labels[:5])
    with pytest.raises(InputError, match="0 to 1, but got 2"):
        objective(scores[:5], labels[:5], group=2 * torch.ones_like(group[:5]))
    with pytest.raises(InputError, match=r"`index` to be in \[0, 1199\]"):
        objective(scores[:1], labels[:1], index=torch.tensor([1200]))
    with pytest.raises(TypeError, match="`index`"):
        objective(scores[:1], labels[:1], index=torch.tensor([1.0]))
    with pytest.raises(InputError, match="`index`"):
        objective(scores[:2], labels[:2], index=torch.tensor([1]))
    with pytest.raises(InputError, match="`weight`"):
        objective(scores[:2], labels[:2], group=group[:2], weight=torch.ones(2))
    with pytest.raises(InputError, match="all 1200 training examples"):
        objective.epoch_end(scores[:7])
    with pytest.raises(InputError, match="`scores` to be finite"):
        objective.epoch_end(scores * math.inf)
    with pytest.raises(InputError, match="`share`"):
        objective.step(torch.zeros(2), share=-1.0)
    with pytest.raises(InputError, match="`violation`"):
        objective.step(torch.zeros(3), share=1.0)
    weighted = ConstrainedObjective("cross_entropy", "recall>=0.9", labels, weight=torch.ones(1200))
    with pytest.raises(InputError, match="`weight` or `index`"):
        weighted(scores[:2], labels[:2])
    other = ConstrainedObjective("cross_entropy", equal_tpr(0.02), labels[:100], group[:100])
    with pytest.raises(InputError, match="100 training examples, but got 1200"):
        other.load_state_dict(objective.state_dict())
