"""One training of a stack of networks, and the test scores of the moments that the validation set liked best."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from setwise import metrics
from setwise.training import choose_mix
from setwise.training.progress import PassesProgress
from setwise_research.benchmark_suite.problems import Draws, Problem
from setwise_research.benchmark_suite.stacked import StackedConvNet, StackedMLP, make_stack

RECALL = 0.9
MEASURES = {
    "auc": "AUROC",
    "ap": "Average precision",
    "f1": "F1",
    f"precision@recall>={RECALL:g}": f"Precision at recall {RECALL:g}",
}
"""The measures that are trained for and judged by, as :func:`setwise.parse` names them."""

Scores = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Training:
    """How a method trains one stack.

    Args:
        loss: One loss per seed, called as ``loss(scores, labels)`` for one network's batch.
        sampler: Batches of a seed: called with its training labels and the seed, gives endless batches of positions.
        optimizer: Gives the optimizer of the stack.
        scheduler: Gives its schedule for so many steps.
        average: Gives a running average of the stack's weights, or None.
        before_step: Called with the number of the step, before it is taken.
        heads: Scores that a network gives; of two, the validation set chooses the mix.
        members: Networks of a seed, on the same batches; their mean is judged.
    """

    loss: Sequence[nn.Module]
    sampler: Callable[[Labels, int], Iterator[list[int]]]
    optimizer: Callable[[nn.Module], Optimizer]
    scheduler: Callable[[Optimizer, int], LRScheduler]
    average: Callable[[nn.Module], Any] = lambda stack: None  # noqa: ARG005 (the others need it)
    before_step: Callable[[int, Optimizer], None] = lambda step, optimizer: None  # noqa: ARG005
    heads: int = 1
    members: int = 1


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a training gives, for every seed.

    Args:
        validation: The judgements of the validation set by measure. shape: (judgements, seeds)
        test: For every measure that the weights may be chosen by, the test values of all measures, one per seed.
        best: For every such measure the judgement that was chosen. shape: (seeds,)
        seconds: CPU time of the training, for one seed.
    """

    validation: dict[str, NDArray[np.float64]]
    test: dict[str, dict[str, NDArray[np.float64]]]
    best: dict[str, NDArray[np.int64]]
    seconds: float


def fit(
    problem: Problem,
    draws: Draws,
    seeds: Sequence[int],
    make: Callable[[float, int], Training],
    *,
    steps: int,
    judgements: int,
) -> Fitted:
    """Train one network per seed.

    Args:
        problem: The data.
        draws: The rows of every seed.
        seeds: Those of initial weights and batches.
        make: Gives the training for the share of positives and the number of seeds.
        steps: Of the optimizer.
        judgements: How often the validation set is judged.
    """
    train, labels = torch.from_numpy(draws.train), problem.labels[draws.train]
    training = make(float(labels.mean()), len(seeds))
    stack = make_stack(problem.inputs, train, seeds, training.heads, training.members)
    optimizer = training.optimizer(stack)
    scheduler, average = training.scheduler(optimizer, steps), training.average(stack)
    batches = [training.sampler(labels[k], seed) for k, seed in enumerate(seeds)]
    targets = torch.from_numpy(labels).float()
    kept: list[dict[str, Tensor]] = []
    validation: list[list[dict[str, float]]] = []
    started = time.process_time()
    spent = 0.0
    for step in range(steps):
        for loss in training.loss:
            if isinstance(loss, PassesProgress):
                loss.set_progress(step / steps)
        batch = torch.tensor([next(each) for each in batches])  # shape: (seeds, batch)
        optimizer.zero_grad()
        scores = stack(problem.inputs[train.gather(1, batch)])
        target = targets.gather(1, batch)
        # every member's own loss: what is minimized is their sum over members and seeds
        seed_of = [k // training.members for k in range(len(scores))]
        total = torch.stack([training.loss[k](each, target[k]) for k, each in zip(seed_of, scores, strict=True)]).sum()
        total.backward()
        training.before_step(step, optimizer)
        optimizer.step()
        scheduler.step()
        if average is not None:
            average.update(stack, done=(step + 1) / steps)
        if (step + 1) % (steps // judgements) == 0:
            spent += time.process_time() - started
            judged = stack if average is None else average.module
            kept.append(copy.deepcopy(judged.state_dict()))
            validation.append(judge_rows(scores_of(judged, problem, draws.validation), problem, draws.validation))
            started = time.process_time()
    values = {m: np.array([[row[m] for row in rows] for rows in validation]) for m in MEASURES}
    best = {m: np.argmax(values[m], axis=0) for m in MEASURES}
    return Fitted(values, test_values(stack, kept, best, problem, draws), best, spent / len(seeds))


def test_values(
    stack: StackedMLP | StackedConvNet,
    kept: Sequence[Mapping[str, Tensor]],
    best: Mapping[str, NDArray[np.int64]],
    problem: Problem,
    draws: Draws,
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Test values of the weights that each measure of the validation set chose; F1 at that set's threshold."""
    cache: dict[int, tuple[Scores, Scores]] = {}

    def scored(moment: int) -> tuple[Scores, Scores]:
        if moment not in cache:
            stack.load_state_dict(kept[moment])
            cache[moment] = scores_of(stack, problem, draws.validation), scores_of(stack, problem, draws.test)
        return cache[moment]

    found: dict[str, dict[str, NDArray[np.float64]]] = {}
    for chosen_by, moments in best.items():
        rows = []
        for k, moment in enumerate(moments):
            validation, test = scored(int(moment))
            labels = problem.labels[draws.validation[k]]
            mix = choose_scores(validation[k], labels, chosen_by)
            cut = tuned_threshold(mix(validation[k]), labels)
            rows.append(judge(mix(test[k]), problem.labels[draws.test[k]], cut, draws.test_weight))
        found[chosen_by] = {m: np.array([row[m] for row in rows]) for m in MEASURES}
    return found


@torch.no_grad()
def scores_of(
    stack: StackedMLP | StackedConvNet, problem: Problem, rows: NDArray[np.int64], chunk: int = 1000
) -> Scores:
    """Scores of rows, one line per seed, the mean over its members. shape: (seeds, n), or (seeds, n, heads)."""
    was_training = stack.training
    stack.eval()
    index = torch.from_numpy(rows)
    parts = [stack(problem.inputs[index[:, k : k + chunk]]) for k in range(0, index.shape[1], chunk)]
    stack.train(was_training)
    scores: Tensor = torch.cat(parts, dim=1).double().unflatten(0, (len(rows), stack.members)).mean(dim=1)
    return scores.numpy()


def judge_rows(scores: Scores, problem: Problem, rows: NDArray[np.int64]) -> list[dict[str, float]]:
    """Every seed's measures on the validation set, F1 at its best threshold there, two heads in their best mix."""
    judged = []
    for k in range(len(rows)):
        labels = problem.labels[rows[k]]
        if scores.ndim == 2:
            judged.append(judge(scores[k], labels, None, 1.0))
        else:
            mixed = {m: choose_scores(scores[k], labels, m)(scores[k]) for m in MEASURES}
            judged.append({m: judge(mixed[m], labels, None, 1.0)[m] for m in MEASURES})
    return judged


def choose_scores(scores: Scores, labels: Labels, measure: str) -> Callable[[Scores], Scores]:
    """How a network's scores become one a row: two heads in the mix that a measure of the validation set likes best."""
    if scores.ndim == 1:
        return lambda each: each
    if not np.isfinite(scores).all():
        return lambda each: each[:, 0]
    mix = choose_mix(torch.from_numpy(scores), torch.from_numpy(labels), partial(_value, measure))
    return lambda each: mix(torch.from_numpy(each)).numpy()


def _value(measure: str, scores: Tensor, labels: Tensor) -> float:
    return judge(scores.numpy(), labels.numpy(), None, 1.0)[measure]


def judge(scores: Scores, labels: Labels, threshold: float | None, positive_weight: float) -> dict[str, float]:
    """All measures of one set of scores; F1 at a threshold, or at the best one where that is None."""
    if not np.isfinite(scores).all():  # a training that diverged
        return dict.fromkeys(MEASURES, 0.0)
    weight = None if positive_weight == 1 else np.where(labels == 1, positive_weight, 1.0)
    if threshold is None:
        f1 = metrics.choose_threshold(scores, labels, maximize="f1", weight=weight).value
    else:
        f1 = metrics.fbeta(scores, labels, threshold=threshold, weight=weight)
    values = (
        metrics.auroc(scores, labels, weight=weight),
        metrics.average_precision(scores, labels, weight=weight),
        f1,
        metrics.precision_at_recall(scores, labels, recall=RECALL, weight=weight),
    )
    return dict(zip(MEASURES, map(float, values), strict=True))


def tuned_threshold(scores: Scores, labels: Labels) -> float:
    """The threshold with the best F1."""
    if not np.isfinite(scores).all():
        return 0.0
    return float(metrics.choose_threshold(scores, labels, maximize="f1").threshold)
