from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import setwise
from setwise._checks import InputError
from setwise.app.images.settings import ComparisonSettings
from setwise.training import Anneal, Recipe, Temperature, WeightAverage

BINARY = (
    *("auc", "pauc@fpr<=0.1", "ap", "f1", "fbeta(2)", "dice", "jaccard", "tversky(0.3,0.7)", "accuracy", "precision"),
    *("recall", "specificity", "balanced_accuracy", "mcc", "g_mean", "kappa", "precision@recall>=0.9"),
    *("recall@precision>=0.8", "tpr@fpr<=0.05", "fpr@tpr>=0.95", "precision@k=20"),
)


def problem(n: int = 300, share: float = 0.06) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    y = torch.zeros(n)
    y[x[:, 0].topk(int(share * n)).indices] = 1
    return x, y


@pytest.mark.parametrize("measure", BINARY)
def test_a_few_steps_lower_the_loss_for_every_measure(measure: str) -> None:
    recipe = Recipe.for_measure(measure, learning_rate=0.03, batch_size=64, average="ema", average_decay=0.9)
    x, y = problem()
    torch.manual_seed(0)
    model = recipe.network(nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)))
    loss, sampler = recipe.loss(), recipe.sampler(y)
    optimizer = recipe.optimizer(model, loss)
    scheduler, average = recipe.scheduler(optimizer, 6 * len(sampler)), recipe.averaging(model)
    assert average is not None
    shown = next(iter(sampler))  # what is minimized is the loss of such batches, with more positives than the data
    before = loss(model(x[shown]), y[shown]).item()
    for _ in range(6):
        for batch in sampler:
            optimizer.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimizer.step()
            scheduler.step()
            average.update(model)
    assert loss(model(x[shown]), y[shown]).item() < before
    with average.applied(model):
        assert loss(model(x[shown]), y[shown]).item() < before


def test_the_loss_is_the_blend_of_the_settings() -> None:
    loss = Recipe.for_measure("auc", blend=0.25, margin=0.5, surrogate="squared_hinge", temperature=1.0).loss()
    scores, labels = torch.tensor([0.1, 0.7, -0.2]), torch.tensor([1.0, 0.0, 0.0])
    own = setwise.AUCLoss(margin=0.5, surrogate="squared_hinge")
    expected = 0.75 * nn.BCEWithLogitsLoss()(scores, labels) + 0.25 * own(scores, labels)
    torch.testing.assert_close(loss(scores, labels), expected)


def test_warm_up_margin_and_temperature_follow_the_training() -> None:
    loss = Recipe.for_measure(
        "auc", blend=0.6, warm_up=0.2, ramp=0.2, margin=1.0, margin_end=0.5, temperature=2.0
    ).member_loss()
    assert isinstance(loss.second, Temperature)
    assert loss.second.temperature == 2.0
    annealed = loss.second.loss
    assert isinstance(annealed, Anneal)
    for done, share, margin in ((0.0, 0.0, 1.0), (0.3, 0.3, 0.85), (1.0, 0.6, 0.5)):
        loss.set_progress(done)
        assert loss.share == pytest.approx(share)
        assert annealed.value == pytest.approx(margin)


def test_batches_have_the_share_that_is_asked_for_and_no_less_than_the_data() -> None:
    _, y = problem(share=0.02)
    recipe = Recipe.for_measure("auc", batch_size=50, batch_positives=0.1)
    assert recipe.sampler(y).quotas == {0: 45, 1: 5}
    assert recipe.sampler(y, 20).quotas == {0: 18, 1: 2}
    assert recipe.sampler(1 - y).quotas == {0: 1, 1: 49}, "more positives than the least share"
    assert Recipe.for_measure("auc", batch_positives=0).sampler(y, 50).quotas == {0: 49, 1: 1}
    assert list(recipe.sampler(y, seed=1)) != list(recipe.sampler(y, seed=2))
    assert list(recipe.sampler(y, seed=1)) == list(recipe.sampler(y.numpy(), seed=1))


@pytest.mark.parametrize(
    ("labels", "message"),
    [([], "at least one"), ([0, 2], "only 0 and 1"), ([0, 0, 0], "both classes, but all 3 are 0")],
)
def test_labels_that_make_no_batches_are_refused(labels: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe.for_measure("auc").sampler(np.array(labels, dtype=np.int64))


def test_optimizers_and_schedules() -> None:
    model = nn.Linear(2, 1)
    adamw = Recipe.for_measure("f1", learning_rate=0.1, weight_decay=0.2).optimizer(model)
    assert isinstance(adamw, torch.optim.AdamW)
    assert (adamw.defaults["lr"], adamw.defaults["weight_decay"]) == (0.1, 0.2)
    sgd = Recipe.for_measure("f1", algorithm="sgd", momentum=0.8, schedule="constant")
    optimizer = sgd.optimizer(model, nn.Linear(1, 1))
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.defaults["momentum"] == 0.8
    assert optimizer.defaults["nesterov"]
    assert len(optimizer.param_groups[0]["params"]) == 4
    assert not Recipe.for_measure("f1", algorithm="sgd", momentum=0.0).optimizer(model).defaults["nesterov"]
    for schedule, last in (("constant", 0.1), ("cosine", 0.0), ("one_cycle", 0.0)):
        recipe = Recipe.for_measure("auc", schedule=schedule, learning_rate=0.1)
        optimizer = recipe.optimizer(model)
        scheduler = recipe.scheduler(optimizer, 10)
        peak = 0.0
        for _ in range(9 if schedule == "one_cycle" else 10):
            optimizer.step()
            peak = max(peak, optimizer.param_groups[0]["lr"])
            scheduler.step()
        assert peak == pytest.approx(0.1, rel=0.05)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(last, abs=1e-4)
    with pytest.raises(InputError, match="`steps`"):
        recipe.scheduler(optimizer, 0)


def test_averaging_can_be_changed_and_left_out() -> None:
    model = nn.Linear(2, 1)
    own = Recipe.for_measure("auc").averaging(model)
    assert own is not None
    assert own.kind == "ema"
    assert Recipe.for_measure("auc", average=None).averaging(model) is None
    average = Recipe.for_measure("auc", average="equal", average_start=0.5).averaging(model)
    assert isinstance(average, WeightAverage)
    assert (average.kind, average.start) == ("equal", 0.5)
    assert repr(Recipe.for_measure("auc", average="ema", average_decay=0.9).averaging(model)).startswith(
        "WeightAverage(kind='ema', decay=0.9"
    )


def test_it_goes_through_json() -> None:
    recipe = Recipe.for_measure("f1", blend=0.7, loss_options={"surrogate": "sigmoid"}, average="ema")
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert Recipe.from_dict({"measure": "auc"}) == Recipe.for_measure("auc")


def test_setwise_train_takes_its_defaults_from_the_recipe() -> None:
    for measure in ("auc", "f1"):
        settings = ComparisonSettings.for_measure(measure, seeds=2)
        assert settings.recipe() == Recipe.for_measure(measure)
        assert settings.seeds == 2
    assert ComparisonSettings().recipe() == Recipe.for_measure("auc")
    assert ComparisonSettings(blend=0.9, batch_positives=0.2).recipe() == Recipe("auc", blend=0.9, batch_positives=0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blend": 0.0}, "`blend`"),
        ({"loss_measure": "auc_mu"}, "`loss_measure` to be one of two classes"),
        ({"warm_up": 1.1}, "`warm_up`"),
        ({"warm_up": 0.7, "ramp": 0.5}, "`ramp`"),
        ({"margin_end": 0.1}, "`margin` to be given"),
        ({"temperature": 0.0}, "`temperature`"),
        ({"batch_size": 1}, "`batch_size`"),
        ({"batch_positives": 1.0}, "`batch_positives`"),
        ({"algorithm": "adam"}, "`algorithm` to be one of 'adamw', 'sgd'"),
        ({"learning_rate": 0.0}, "`learning_rate`"),
        ({"weight_decay": -1.0}, "`weight_decay`"),
        ({"momentum": 1.0}, "`momentum`"),
        ({"schedule": "step"}, "`schedule`"),
        ({"average": "swa"}, "`average` to be one of None, 'ema', 'equal'"),
        ({"average_decay": 1.0}, "`average_decay`"),
        ({"average_start": -0.1}, "`average_start`"),
        ({"surrogate": "logistic"}, "`surrogate`"),
        ({"loss_options": {"beta": 3}}, "options of the auc loss"),
        ({"rate": 1.0}, "but got `rate`"),
        ({"measure": "auc_mu"}, "two classes"),
        ({"measure": "acu"}, "Did you mean 'auc'"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe.from_dict({"measure": "auc"} | changes)


def test_other_types_and_a_missing_measure_are_refused() -> None:
    with pytest.raises(TypeError, match="`loss_options` to be a mapping"):
        Recipe.for_measure("auc", loss_options=[1])
    with pytest.raises(InputError, match="name the `measure`"):
        Recipe.from_dict({"blend": 0.5})


def test_the_loss_of_another_measure_is_trained() -> None:
    scores, labels = torch.tensor([0.3, -0.2, 0.9, 0.1]), torch.tensor([1.0, 0.0, 0.0, 1.0])
    other = Recipe.for_measure("f1", loss_measure="ap", blend=1.0)
    assert other.parsed_measure().name == "f1"
    assert torch.equal(other.loss()(scores, labels), Recipe.for_measure("ap", blend=1.0).loss()(scores, labels))
    assert not torch.equal(other.loss()(scores, labels), Recipe.for_measure("f1", blend=1.0).loss()(scores, labels))
