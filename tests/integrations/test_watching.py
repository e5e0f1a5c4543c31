from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from setwise import InputError, parse
from setwise.integrations.lightning import MeasureCallback, MeasureMixin
from setwise.metrics import auroc, precision_at_recall


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Plain(LightningModule):
    """Knows nothing of measures; says what its validation step should return."""

    def __init__(self, returns: str = "nothing", outputs: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, outputs)
        self.returns = returns
        self.ends = 0

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs)  # type: ignore[no-any-return]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:  # noqa: ARG002
        return self(batch[0]).square().mean()  # type: ignore[no-any-return]

    def validation_step(self, batch: Any, batch_idx: int) -> Any:  # noqa: ARG002
        inputs, target = batch
        scores = self(inputs)
        return {"nothing": None, "scores": {"scores": scores, "target": target}, "loss": scores.mean()}[self.returns]

    def on_validation_epoch_end(self) -> None:
        self.ends += 1

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Mixed(MeasureMixin, Plain):
    """The same with the mix-in."""

    def __init__(self, *measures: Any, outputs: int = 1, **options: Any) -> None:
        super().__init__(outputs=outputs)
        if measures:
            self.watch(*measures, **options)

    def validation_step(self, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        self.collect(self(batch[0]), batch[1])


def data(classes: int = 2) -> TensorDataset:
    random = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(50, 3, generator=random), torch.arange(50) % (classes + 1) % classes)


def validate(module: LightningModule, *callbacks: Callback, classes: int = 2, fit: bool = False) -> dict[str, float]:
    trainer = Trainer(
        callbacks=list(callbacks),
        accelerator="cpu",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    loader = DataLoader(data(classes), batch_size=20)
    if fit:
        trainer.fit(module, loader, loader)
        return {name: float(value) for name, value in trainer.callback_metrics.items()}
    (found,) = trainer.validate(module, loader, verbose=False)
    return {name: float(value) for name, value in found.items()}


@pytest.mark.parametrize("returns", ["nothing", "scores", "loss"])
def test_the_callback_judges_the_whole_set(returns: str) -> None:
    module = Plain(returns)
    found = validate(module, MeasureCallback("auc", parse("precision@recall>=0.9")))
    inputs, target = data().tensors
    scores = module(inputs).detach().squeeze(1)
    assert found["val_auc"] == pytest.approx(auroc(scores, target), abs=1e-12)  # no mean over the three batches
    assert found["val_precision@recall>=0.9"] == pytest.approx(precision_at_recall(scores, target, recall=0.9))


def test_the_mix_in_judges_the_whole_set_and_calls_on() -> None:
    module = Mixed("auc", prefix="held/")
    found = validate(module)
    inputs, target = data().tensors
    assert found["held/auc"] == pytest.approx(auroc(module(inputs).detach().squeeze(1), target), abs=1e-12)
    assert module.ends == 1
    assert validate(module) == found  # nothing is left of the first time


def test_both_log_while_training_and_take_classes() -> None:
    found = validate(Mixed("auc_mu", "f1[macro]", outputs=3), classes=3, fit=True)
    assert 0 < found["val_auc_mu"] < 1
    assert 0 <= found["val_f1[macro]"] < 1
    found = validate(Plain(outputs=3), MeasureCallback("auc_mu"), classes=3, fit=True)
    assert 0 < found["val_auc_mu"] < 1


def test_your_own_reader() -> None:
    def read(module: LightningModule, outputs: Any, batch: Any) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        return -module(batch[0]).squeeze(1), batch[1]

    up = validate(Plain(), MeasureCallback("auc"))["val_auc"]
    down = validate(Plain(), MeasureCallback("auc", read=read))["val_auc"]
    assert up + down == pytest.approx(1)


def test_refusals() -> None:
    with pytest.raises(InputError, match="`measures`"):
        MeasureCallback()
    with pytest.raises(InputError, match=r"`measure`.*'acu'"):
        MeasureCallback("acu")
    with pytest.raises(InputError, match="`watch`"):
        validate(Mixed())
    with pytest.raises(InputError, match=r"`scores` and `target`.*3 and 2"):
        MeasureCallback("auc")._collected.add(torch.zeros(3), torch.zeros(2))
    with pytest.raises(InputError, match=r"`validation_step`.*NoneType and Tensor"):
        MeasureCallback("auc")._read(Plain(), None, torch.zeros(2))
