from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import setwise
from setwise._checks import InputError
from setwise.integrations.lightning import DualAscentCallback, MeasureModule
from setwise.lagrangian import DualAscent, SMeasure
from setwise.measures import parse
from setwise.metrics import auroc
from setwise.training import Blend


class Flat(nn.Module):
    """A linear model with logits of shape (n,)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs).squeeze(-1)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def data(n: int = 90) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(n, 3, generator=generator)
    noise = torch.randn(n, generator=generator)
    return TensorDataset(inputs, (inputs[:, 0] + noise > 1).float())


class Rates(Callback):
    """The learning rate each batch was trained with."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        self.seen.append(trainer.optimizers[0].param_groups[0]["lr"])


def fit(module: MeasureModule, *, epochs: int = 2, batch_size: int = 32, callback: Callback | None = None) -> Trainer:
    trainer = Trainer(
        callbacks=[callback] if callback else [],
        accelerator="cpu",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, DataLoader(data(), batch_size=batch_size), DataLoader(data(), batch_size=batch_size))
    return trainer


@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss(), setwise.AUCLoss()])
def test_it_judges_the_whole_validation_set_and_not_the_mean_of_batches(loss: nn.Module) -> None:
    module = MeasureModule(Flat(), loss, "auc", learning_rate=0.05)
    logged = fit(module).callback_metrics
    inputs, target = data().tensors
    with torch.no_grad():
        scores = module(inputs)
    measure, surrogate = auroc(scores, target), float(setwise.AUCLoss()(scores, target))
    assert float(logged["val_measure"]) == pytest.approx(measure, abs=1e-12)
    assert float(logged["val_surrogate"]) == pytest.approx(surrogate, rel=1e-6)
    assert float(logged["gap"]) == pytest.approx(surrogate - (1 - measure), abs=1e-6)
    batches = [auroc(s, t) for s, t in zip(scores.split(32), target.split(32), strict=True)]
    assert measure != pytest.approx(sum(batches) / len(batches), abs=1e-4)
    assert "train_loss" in logged


def test_the_watched_surrogate_can_be_another() -> None:
    module = MeasureModule(Flat(), nn.BCEWithLogitsLoss(), parse("auc"), surrogate=setwise.AUCLoss(margin=3.0))
    logged = fit(module, epochs=1).callback_metrics
    with torch.no_grad():
        expected = setwise.AUCLoss(margin=3.0)(module(data().tensors[0]), data().tensors[1])
    assert float(logged["val_surrogate"]) == pytest.approx(float(expected), rel=1e-6)


def test_training_raises_the_measure() -> None:
    untrained = fit(MeasureModule(Flat(), setwise.AUCLoss(), "auc", learning_rate=1e-9), epochs=1)
    trained = fit(MeasureModule(Flat(), setwise.AUCLoss(), "auc", learning_rate=0.1), epochs=8)
    assert float(trained.callback_metrics["val_measure"]) > float(untrained.callback_metrics["val_measure"]) + 0.02


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0.1] * 6),
        ("cosine", [0.05 * (1 + math.cos(math.pi * k / 6)) for k in range(6)]),
        ("one_cycle", None),
    ],
)
def test_schedules_are_stepped_by_batch_over_the_planned_epochs(schedule: str, rates: list[float] | None) -> None:
    rest = {"learning_rate": 0.1, "weight_decay": 0.5}
    module = MeasureModule(Flat(), nn.BCEWithLogitsLoss(), "auc", schedule=schedule, **rest)  # type: ignore[arg-type]
    seen = Rates()
    trainer = fit(module, callback=seen)
    assert isinstance(trainer.optimizers[0], torch.optim.AdamW)
    assert trainer.optimizers[0].param_groups[0]["weight_decay"] == 0.5
    if rates is None:
        assert len(seen.seen) == 6
        assert seen.seen[0] < 0.01
        assert 0.09 < max(seen.seen) <= 0.1
        assert seen.seen[-1] < 1e-5
    else:
        assert seen.seen == pytest.approx(rates)


def test_one_cycle_works_with_a_single_batch() -> None:
    module = MeasureModule(Flat(), nn.BCEWithLogitsLoss(), "auc", schedule="one_cycle")
    assert "val_measure" in fit(module, epochs=1, batch_size=100).callback_metrics


def test_parameters_of_the_loss_are_trained_too() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(()))

        def forward(self, input: Tensor, target: Tensor) -> Tensor:
            return nn.functional.binary_cross_entropy_with_logits(input + self.shift, target)

    loss = Shifted()
    fit(MeasureModule(Flat(), loss, "auc", learning_rate=0.1))
    assert float(loss.shift.detach()) != 0


def test_diverged_training_says_what_to_change() -> None:
    class Broken(Flat):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(inputs) * torch.nan

    with pytest.raises(InputError, match=r"`learning_rate`.*diverged in epoch 1"):
        fit(MeasureModule(Broken(), nn.BCEWithLogitsLoss(), "auc"))


@pytest.mark.parametrize(
    ("option", "value"),
    [("learning_rate", 0.0), ("learning_rate", float("nan")), ("weight_decay", -1.0), ("schedule", "steps")],
)
def test_wrong_settings_are_refused(option: str, value: object) -> None:
    with pytest.raises(InputError, match=f"`{option}`"):
        MeasureModule(Flat(), nn.BCEWithLogitsLoss(), "auc", **{option: value})  # type: ignore[arg-type]


def test_unknown_measure_is_refused() -> None:
    with pytest.raises(InputError, match="`measure`"):
        MeasureModule(Flat(), nn.BCEWithLogitsLoss(), "auk")


def test_a_loss_with_a_schedule_hears_how_far_the_training_is() -> None:
    heard: list[float] = []
    loss = Blend(nn.BCEWithLogitsLoss(), setwise.AUCLoss(), lambda done: heard.append(done) or 0.5)  # type: ignore[func-returns-value]
    fit(MeasureModule(Flat(), loss, "auc"), epochs=2, batch_size=30)
    assert heard == pytest.approx([k / 6 for k in range(6)])


class Shaped(LightningModule):
    """Cross-entropy and a term on the shape."""

    def __init__(self, term: SMeasure | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network, self.term = nn.Linear(3, 2), term
        self.outside: list[SMeasure] = []  # a list hides a module from its parent

    def training_step(self, batch: list[Tensor], _: int) -> Tensor:
        inputs, target, shape, index = batch
        out = self.network(inputs)
        term = self.term if self.term is not None else self.outside[0]
        loss: Tensor = nn.functional.binary_cross_entropy_with_logits(out[:, 0], target) + term(out[:, 1], shape, index)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def shaped(variant: str, *, inside: bool) -> tuple[Shaped, DualAscentCallback]:
    term = SMeasure(90, variant=variant)
    module = Shaped(term if inside else None)
    if not inside:
        module.outside.append(term)
    return module, DualAscentCallback(DualAscent(term))


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("variant", ["exact", "partial_touched", "full"])
def test_dual_ascent_callback_resumes(tmp_path: Any, variant: str, inside: bool) -> None:
    inputs, target = data().tensors
    loader = DataLoader(TensorDataset(inputs, target, (inputs[:, 1] > 0).long(), torch.arange(90)), batch_size=30)
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }

    def train(epochs: int, path: Any = None) -> tuple[Shaped, DualAscentCallback, Trainer]:
        module, callback = shaped(variant, inside=inside)
        trainer = Trainer(max_epochs=epochs, callbacks=[callback], accelerator="cpu", **quiet)  # type: ignore[arg-type]
        trainer.fit(module, loader, ckpt_path=path)
        return module, callback, trainer

    whole, ascended, trainer = train(4)
    assert {"term_value", "term_optimum", "term_residual"} <= trainer.callback_metrics.keys()
    _, _, half = train(2)
    half.save_checkpoint(tmp_path / "half.ckpt")
    resumed, again, _ = train(4, tmp_path / "half.ckpt")
    torch.testing.assert_close(resumed.network.state_dict(), whole.network.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(again.ascent.term.state_dict(), ascended.ascent.term.state_dict(), rtol=0, atol=0)
    assert again.ascent.state_dict() == ascended.ascent.state_dict()


def test_dual_ascent_callback_refuses_a_term() -> None:
    with pytest.raises(TypeError, match="`ascent` to be a DualAscent"):
        DualAscentCallback(SMeasure(3))  # type: ignore[arg-type]
