"""One training of a network for ``setwise train``: a plain loop that does all that a :class:`Recipe` says.

The order of the batches and torch's seed depend on (seed, epoch) alone, and everything else that decides the outcome
(weights, optimizer, schedule, averages, multipliers, history, best weights) is in the checkpoint written after each
epoch. So a training that goes on from its checkpoint ends as one that was never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from setwise import metrics
from setwise._checks import InputError
from setwise._files import DamagedFileError
from setwise.app.constraints import Constraints
from setwise.app.networks import score
from setwise.experiments.problem import Draw
from setwise.experiments.scoring import Fit, seed_epoch, shuffled
from setwise.lagrangian import ConstrainedObjective, Scored
from setwise.lagrangian.constraints.threshold_search import TOLERANCE
from setwise.training import Checkpoint, Recipe
from setwise.training._call import call_loss
from setwise.training.progress import PassesProgress

_NO_STATE = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # of scores, labels and positions in the training set


@dataclass(frozen=True)
class Course:
    """How a training goes.

    Args:
        recipe: Loss, batches, optimizer, schedule and averages.
        baseline: Minimize cross-entropy alone, on plain batches and without constraints.
        constraints: What the thresholds, and the measure-trained network, have to meet.
        seed: Seed of everything random.
        epochs: Most epochs.
        patience: Epochs without a better validation measure before stopping.
    """

    recipe: Recipe
    baseline: bool
    constraints: Constraints
    seed: int
    epochs: int
    patience: int


def learn(
    start: Callable[[], nn.Module],
    drawn: Draw,
    course: Course,
    folder: Path,
    on_epoch: Callable[[int, float], None],
    on_note: Callable[[str], object],
) -> Fit:
    """Train until the epochs or the patience are used up, going on from the checkpoint in ``folder`` if there is one.

    A checkpoint that is damaged, or cannot be gone on with, is thrown away, and the training starts from its beginning.

    Args:
        start: Gives the network with its initial weights, the same every time.
        drawn: Training and validation set.
        course: How to train.
        folder: Where the checkpoint of the last epoch is.
        on_epoch: Told the epochs done and the last validation measure.
        on_note: Told in a sentence that the training starts from its beginning, and why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "last.ckpt"
    if path.exists():
        try:
            return _train(_Trainer(start(), drawn, course), course, path, on_epoch)
        except _NO_STATE as error:  # also from later epochs: a state may fit and yet be none to go on from
            why = error.why if isinstance(error, DamagedFileError) else str(error)[:200]
            on_note(f"{path} is damaged ({why}): this training starts from its beginning.")
            path.unlink()
    return _train(_Trainer(start(), drawn, course), course, path, on_epoch)


def _train(trainer: _Trainer, course: Course, path: Path, on_epoch: Callable[[int, float], None]) -> Fit:
    checkpoint = Checkpoint(path, **trainer.parts())
    fit = trainer.record.fit
    if checkpoint.load():
        trainer.check_state()
        on_epoch(fit.epochs, fit.history["measure"][-1])
    while fit.epochs < course.epochs and trainer.record.waited < course.patience:
        started = time.perf_counter()
        seed_epoch(course.seed, fit.epochs)
        loss = trainer.train_epoch(fit.epochs)
        trainer.judge_epoch(loss)
        fit.seconds += time.perf_counter() - started
        checkpoint.save()
        on_epoch(fit.epochs, fit.history["measure"][-1])
    return fit


class _Record:
    """History and best weights; its state travels in the checkpoint."""

    def __init__(self) -> None:
        self.fit = Fit()
        self.best = -math.inf
        self.waited = 0

    def add(self, values: dict[str, float], selected: float, weights: Callable[[], dict[str, Tensor]]) -> None:
        """Take an epoch in; the best so far is the one selected by the highest number, the first of equals."""
        for name, value in values.items():
            self.fit.history.setdefault(name, []).append(value)
        self.waited += 1
        if selected > self.best or not self.fit.weights:
            self.best, self.waited = selected, 0
            self.fit.weights, self.fit.best_epoch = weights(), self.fit.epochs

    def state_dict(self) -> dict[str, Any]:
        return {"fit": dict(vars(self.fit)), "best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self.fit).update(state["fit"])
        self.best, self.waited = state["best"], state["waited"]


class _Trainer:
    """The parts of a training, and its two halves: an epoch of steps, and judging it."""

    def __init__(self, network: nn.Module, drawn: Draw, course: Course) -> None:
        self.network, self.drawn, self.course = network, drawn, course
        self.inputs, self.labels, self.beside = drawn.set("train")
        recipe = course.recipe
        self.sampler = None if course.baseline else recipe.sampler(self.labels.long(), seed=course.seed)
        per_epoch = math.ceil(len(self.labels) / recipe.batch_size) if self.sampler is None else len(self.sampler)
        self.steps = course.epochs * per_epoch
        self.loss: nn.Module = nn.BCEWithLogitsLoss() if course.baseline else recipe.loss()
        self.constrained: ConstrainedObjective | None = None
        if course.constraints and not course.baseline:
            self.constrained = ConstrainedObjective(
                self.loss,
                course.constraints.each,
                self.labels.long(),
                course.constraints.columns(self.beside.groups),
                weight=self.beside.weight,
                threshold=0.0,  # the network's last bias does what a learned one would
                sampling="stratified",
            )
        self.surrogate = recipe.loss()
        self.surrogate.set_progress(1.0)  # one yardstick for all epochs: the loss as it is at the end
        self.optimizer = _fused(recipe.optimizer(network, self.loss))
        self.scheduler = recipe.scheduler(self.optimizer, self.steps)
        self.average = recipe.averaging(network)
        self.record = _Record()

    def parts(self) -> dict[str, Any]:
        """What the checkpoint holds."""
        found = {
            "network": self.network,
            "loss": self.constrained or self.loss,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "record": self.record,
        }
        return found if self.average is None else found | {"average": self.average}

    def check_state(self) -> None:
        """Refuse a loaded state that cannot be one of this training, though every part has taken its own."""
        fit, weights = self.record.fit, self.network.state_dict()
        series = [*fit.history.values(), [self.record.best, fit.seconds]]
        finite = all(isinstance(value, float) and math.isfinite(value) for values in series for value in values)
        counts = fit.epochs, fit.best_epoch, self.record.waited
        if not finite or not 1 <= fit.best_epoch <= fit.epochs <= self.course.epochs or not all(map(_is_int, counts)):
            raise InputError("its history is none of this training")
        if self.record.waited != fit.epochs - fit.best_epoch:
            raise InputError("its patience does not fit its history")
        kept, own = ({k: (v.shape, v.dtype) for k, v in each.items()} for each in (fit.weights, weights))
        if kept != own:
            raise InputError("its best weights are those of another network")
        for parameter, state in self.optimizer.state.items():
            if any(part.shape not in (parameter.shape, ()) for part in state.values() if isinstance(part, Tensor)):
                raise InputError("its optimizer's state is that of another network")
        tensors = [*fit.weights.values(), *weights.values()]
        if not all(bool(tensor.isfinite().all()) for tensor in tensors):
            raise InputError("its weights are not finite")

    def train_epoch(self, epoch: int) -> float:
        """One pass over the training set; the mean loss."""
        self.network.train()
        total, count, step = 0.0, 0, epoch * self.steps // self.course.epochs
        for rows in self._batches(epoch):
            index = torch.as_tensor(rows)
            if isinstance(self.loss, PassesProgress):
                self.loss.set_progress(step / self.steps)
            self.optimizer.zero_grad()
            scores = self.network(self.inputs[index])
            try:
                loss = self._loss_of(scores, index)
            except InputError:
                self._check(scores)  # what the loss refuses are scores that are not finite: say why they are not
                raise
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            step += 1
            if self.constrained is not None:
                self.constrained.step()
            if self.average is not None:
                self.average.update(self.network, done=step / self.steps)
            total, count = total + float(loss.detach()) * len(index), count + len(index)
        return total / count

    def _batches(self, epoch: int) -> Iterable[Any]:
        if self.sampler is None:
            return shuffled(len(self.labels), self.course.recipe.batch_size, self.course.seed, epoch)
        self.sampler.set_epoch(epoch)
        return self.sampler

    def _loss_of(self, scores: Tensor, index: Tensor) -> Tensor:
        labels = self.labels[index]
        if self.constrained is not None:
            found: Tensor = self.constrained(scores, labels, index=index)
            return found
        return call_loss(self.loss, scores, labels, None if self.beside.weight is None else self.beside.weight[index])

    def judge_epoch(self, loss: float) -> None:
        """Judge the validation rows for selection, by averaged weights where there are some, and keep what is best."""
        inputs, labels, beside = self.drawn.set("selection")
        with nullcontext() if self.average is None else self.average.applied(self.network):
            scores = score(self.network, inputs)
            self._check(scores)
            part = Scored(scores, labels.long(), self.course.constraints.columns(beside.groups), beside.weight)
            value, violation = self._judge(part)
            weighted: dict[str, Any] = {} if beside.weight is None else {"weight": beside.weight}
            with torch.no_grad():
                surrogate = float(self.surrogate(scores, labels, **weighted))
            values = {"loss": loss, "measure": value, "surrogate": surrogate, "gap": surrogate - (1 - value)}
            selected = value
            if violation is not None:
                values["violation"] = violation
                # Any epoch that has a threshold within the bounds is better than any that has none.
                selected = value if violation <= TOLERANCE else -2.0 - violation
            self.record.add(values, selected, self._weights)

    def _judge(self, part: Scored) -> tuple[float, float | None]:
        """The measure, where it needs a threshold at the one that would be chosen, and the worst violation there."""
        measure, constraints = self.course.recipe.parsed_measure(), self.course.constraints
        rule = measure.maximize_threshold, measure.subject_to
        threshold, violation = 0.0, None
        if constraints:
            fit = constraints.threshold(part, *rule)
            threshold, violation = float(fit.threshold), float(fit.violation.max())
        elif measure.at_threshold:
            threshold = metrics.choose_threshold(
                part.scores, part.labels, maximize=rule[0], subject_to=rule[1], weight=part.weight
            ).threshold
        options: dict[str, Any] = {"threshold": threshold} if measure.at_threshold else {}
        return float(measure.metric(part.scores, part.labels, weight=part.weight, **options)), violation

    def _check(self, scores: Tensor) -> None:
        if not bool(torch.isfinite(scores).all()):
            raise InputError(
                f"Expected `learning_rate` to keep the scores finite, but with {self.course.recipe.learning_rate:g} "
                f"training diverged in epoch {self.record.fit.epochs + 1}; lower it."
            )

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _fused(optimizer: Optimizer) -> Optimizer:
    """The same optimizer with one kernel for all its tensors: for small networks most of a step is calls."""
    if isinstance(optimizer, AdamW):
        for group in optimizer.param_groups:
            group["fused"] = True
    return optimizer
