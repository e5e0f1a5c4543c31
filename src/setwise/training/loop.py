"""Training loop: steps over batches, with schedule, averaged weights, validation, early stopping and a checkpoint.

A loop runs in rounds: some steps, and a validation after them. An epoch can be such a round, or every ten steps of an
endless stream of batches; without a validation the whole training is one. The best weights by the validation measure,
or else the averaged ones, are in the model at the end.

A training that can be stopped and goes on bit for bit has the batches of a round depend on its number alone, and saves
:meth:`TrainLoop.parts` after each: everything else that decides the outcome is in there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from setwise._checks import InputError
from setwise.training.recipe import Recipe

Batch = Tensor | None  # positions in the training set; None for all of it
MEASURE = "measure"  # the value of a validation that decides which weights are kept


@dataclass(frozen=True)
class TrainConfig:
    """How a training goes.

    Args:
        recipe: Optimizer, schedule of the learning rate, and averaging of the weights.
        steps: Steps of the optimizer, at most.
        validate_every: Steps in a round, after which there is a validation; None for one round.
        patience: Validations without a better measure before training stops.
        tolerance: By how much a measure has to be larger to count as better.
    """

    recipe: Recipe
    steps: int
    validate_every: int | None = None
    patience: int = 1
    tolerance: float = 0.0

    @property
    def round_steps(self) -> int:
        """Steps in a round."""
        return self.validate_every or self.steps


class History:
    """What the validations have found, and the best weights so far.

    Attributes:
        values: Values by name, a number for each validation.
        best_round: Round with the highest measure, the first of equals, counted from 1.
        weights: The weights after that round.
        best: The measure there.
        waited: Rounds since then.
        steps: Steps of the optimizer.
        seconds: Time spent in the rounds, over all sittings.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {"loss": [], MEASURE: []}
        self.best_round = 0
        self.weights: dict[str, Tensor] = {}
        self.best = -math.inf
        self.waited = 0
        self.steps = 0
        self.seconds = 0.0

    @property
    def rounds(self) -> int:
        """Rounds that were validated."""
        return len(self.values[MEASURE])

    def add(self, values: Mapping[str, float], model: nn.Module, tolerance: float) -> None:
        """Take a validation in; keep the model's weights where its measure is the best so far."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)
        self.waited += 1
        if values[MEASURE] > self.best + tolerance or not self.weights:  # a first measure of NaN still has weights
            self.best, self.best_round, self.waited = values[MEASURE], self.rounds, 0
            self.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def state_dict(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a checkpoint."""
        vars(self).update({name: state[name] for name in vars(self)})


class TrainLoop:
    """A model in training.

    Args:
        model: Trained in place.
        loss_of: The loss of a batch, given the share of the training that is done.
        config: How the training goes.
        loss: The module behind ``loss_of``, where its parameters are to be trained too and its state saved.
        validate: Evaluates the model after a round, whose averaged weights it then has, if there are any; returns its
            values by name, the ``"measure"`` among them, of which more is better.
        after_step: Called after each step of the optimizer, for what moves with it, such as multipliers.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_of: Callable[[Batch, float], Tensor],
        config: TrainConfig,
        *,
        loss: nn.Module | None = None,
        validate: Callable[[], Mapping[str, float]] | None = None,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.model, self.loss_of, self.config, self.loss = model, loss_of, config, loss
        self.validate, self.after_step = validate, after_step
        self.optimizer = config.recipe.optimizer(model, loss)
        self.scheduler = config.recipe.scheduler(self.optimizer, config.steps)
        self.average = config.recipe.averaging(model)
        self.history = History()

    @property
    def done(self) -> int:
        """Steps that were taken."""
        return self.history.steps

    def run(
        self,
        batches: Callable[[int], Iterable[Batch]],
        *,
        save: Callable[[], None] = lambda: None,
        on_validation: Callable[[int, float], None] = lambda *_: None,
    ) -> History:
        """Train until the steps or the patience are used up, going on from what has been loaded.

        Args:
            batches: The batches of a round by its number, from 0.
            save: Writes the checkpoint, after each round.
            on_validation: Told the rounds done and the last measure.
        """
        config, history = self.config, self.history
        while self.done < config.steps and history.waited < config.patience:
            started = time.perf_counter()
            loss = self._round(batches(history.rounds))
            if self.validate is not None:
                with self._averaged():
                    history.add({"loss": loss, **self.validate()}, self.model, config.tolerance)
            history.seconds += time.perf_counter() - started
            save()
            if self.validate is not None:
                on_validation(history.rounds, history.values[MEASURE][-1])
        if history.weights:
            self.model.load_state_dict(history.weights)
        elif self.average is not None:
            self.average.copy_to(self.model)
        return history

    def _round(self, batches: Iterable[Batch]) -> float:
        """Take the steps of a round; the mean loss over its examples."""
        total, count = 0.0, 0
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.loss_of(batch, self.done / self.config.steps)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.history.steps += 1
            self.after_step()
            if self.average is not None:
                self.average.update(self.model, done=self.done / self.config.steps)
            size = 1 if batch is None else len(batch)
            total, count = total + float(loss.detach()) * size, count + size
        return total / count

    def _averaged(self) -> Any:
        return nullcontext() if self.average is None else self.average.applied(self.model)

    def parts(self) -> dict[str, Any]:
        """What a :class:`~setwise.training.Checkpoint` has to hold, by name."""
        found = {
            "network": self.model,
            "loss": self.loss,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "history": self.history,
            "average": self.average,
        }
        return {name: part for name, part in found.items() if part is not None}

    def check_loaded(self) -> None:
        """Refuse a loaded state that cannot be one of this training, though every part has taken its own.

        Raises:
            InputError: When something of it contradicts the rest; anything of a wrong type raises as it may.
        """
        history, weights = self.history, self.model.state_dict()
        series = [*history.values.values(), [history.best, history.seconds]]
        finite = all(isinstance(value, float) and math.isfinite(value) for values in series for value in values)
        counts = history.best_round, history.waited, history.steps
        most = math.ceil(self.config.steps / self.config.round_steps)
        if not finite or not 1 <= history.best_round <= history.rounds <= most or not all(map(_is_int, counts)):
            raise InputError("its history is none of this training")
        if history.steps != min(history.rounds * self.config.round_steps, self.config.steps):
            raise InputError("its steps do not fit its history")
        if history.waited != history.rounds - history.best_round:
            raise InputError("its patience does not fit its history")
        kept, own = ({k: (v.shape, v.dtype) for k, v in each.items()} for each in (history.weights, weights))
        if kept != own:
            raise InputError("its best weights are those of another network")
        # An optimizer takes up any state, and would fail or broadcast in its next step only.
        for parameter, state in self.optimizer.state.items():
            if any(part.shape not in (parameter.shape, ()) for part in state.values() if isinstance(part, Tensor)):
                raise InputError("its optimizer's state is that of another network")
        if not all(bool(tensor.isfinite().all()) for tensor in (*history.weights.values(), *weights.values())):
            raise InputError("its weights are not finite")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
