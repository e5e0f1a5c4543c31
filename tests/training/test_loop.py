"""The training loop: equal to one written out, early stopping, averages, and going on from a checkpoint."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from setwise._checks import InputError
from setwise.training import Checkpoint, Recipe
from setwise.training.loop import Batch, TrainConfig, TrainLoop

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * torch.randn(60, generator=torch.Generator().manual_seed(1)) > 0.5).float()
BATCHES = list(torch.arange(60).split(20))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))


def loop_of(
    network: nn.Module, *, average: str | None = "ema", values: list[float] | None = None, **config: int
) -> TrainLoop:
    """A loop on the data above; ``values`` are what its validations find, one after the other."""
    recipe = Recipe.for_measure("auc", average=average, learning_rate=0.1, members=1)
    loss = nn.BCEWithLogitsLoss()

    def loss_of(batch: Batch, done: float) -> Tensor:
        assert 0 <= done < 1
        rows = slice(None) if batch is None else batch
        found: Tensor = loss(network(X[rows]), Y[rows])
        return found

    stream = None if values is None else iter(values)
    validate = None if stream is None else lambda: {"measure": next(stream)}
    return TrainLoop(network, loss_of, TrainConfig(recipe, 12, **config), loss=loss, validate=validate)


def test_equal_to_a_loop_written_out() -> None:
    trained, plain = model(), model()
    history = loop_of(trained).run(lambda _: itertools.islice(itertools.cycle(BATCHES), 12))
    recipe = Recipe.for_measure("auc", average="ema", learning_rate=0.1, members=1)
    optimizer = recipe.optimizer(plain)
    scheduler, average = recipe.scheduler(optimizer, 12), recipe.averaging(plain)
    assert average is not None
    for k in range(12):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(plain(X[BATCHES[k % 3]]), Y[BATCHES[k % 3]]).backward()
        optimizer.step()
        scheduler.step()
        average.update(plain, done=(k + 1) / 12)
    average.copy_to(plain)
    for mine, theirs in zip(trained.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert history.rounds == 0


def test_all_of_it_as_one_batch() -> None:
    first, second = model(), model()
    loop_of(first).run(lambda _: [None] * 12)
    loop_of(second).run(lambda _: [torch.arange(60)] * 12)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_stops_after_its_patience_with_the_best_weights() -> None:
    network, seen = model(), []
    loop = loop_of(network, average=None, values=[0.5, 0.7, 0.7, 0.6], validate_every=3, patience=2)
    loop.after_step = lambda: seen.append(loop.done)
    told: list[tuple[int, float]] = []
    history = loop.run(lambda _: BATCHES, on_validation=lambda *each: told.append(each))
    assert told == [(1, 0.5), (2, 0.7), (3, 0.7), (4, 0.6)]
    assert (history.best, history.best_round, history.waited) == (0.7, 2, 2)
    assert all(torch.equal(history.weights[name], tensor) for name, tensor in network.state_dict().items())
    assert seen == list(range(1, 13))


def test_a_better_measure_is_better_by_more_than_the_tolerance() -> None:
    network = model()
    loop = loop_of(network, values=[0.5, 0.55, 0.7, 0.7], validate_every=3, patience=9)
    loop.config = TrainConfig(loop.config.recipe, 12, 3, 9, tolerance=0.1)
    assert loop.run(lambda _: BATCHES).best_round == 3


def test_a_measure_that_is_not_a_number_still_keeps_weights() -> None:
    history = loop_of(model(), values=[math.nan] * 4, validate_every=3, patience=9).run(lambda _: BATCHES)
    assert (history.best_round, history.rounds) == (1, 4)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_goes_on_from_a_checkpoint(tmp_path: Path, stop: int) -> None:
    values = [0.5, 0.6, 0.4, 0.55]
    whole = loop_of(model(), values=values, validate_every=3, patience=9)
    wanted = whole.run(lambda _: BATCHES)

    first = loop_of(model(), values=values, validate_every=3, patience=9)
    checkpoint = Checkpoint(tmp_path / "last", **first.parts())

    def end(rounds: int, _: float) -> None:
        if rounds == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(lambda _: BATCHES, save=checkpoint.save, on_validation=end)
    second = loop_of(model(), values=values[stop:], validate_every=3, patience=9)
    assert Checkpoint(tmp_path / "last", **second.parts()).load()
    second.check_loaded()
    found = second.run(lambda _: BATCHES)
    assert found.values == wanted.values
    assert all(torch.equal(found.weights[name], wanted.weights[name]) for name in wanted.weights)
    assert found.seconds > 0


def test_a_state_that_contradicts_itself_is_refused() -> None:
    loop = loop_of(model(), values=[0.5, 0.6, 0.4, 0.5], validate_every=3, patience=9)
    with pytest.raises(InputError, match="history"):
        loop.check_loaded()
    history = loop.run(lambda _: BATCHES)
    loop.check_loaded()
    history.waited = 7
    with pytest.raises(InputError, match="patience"):
        loop.check_loaded()
    history.waited, history.steps = 2, 11
    with pytest.raises(InputError, match="steps"):
        loop.check_loaded()
    history.steps = 12
    history.weights = {"other": torch.zeros(1)}
    with pytest.raises(InputError, match="best weights"):
        loop.check_loaded()
