"""Transformers: a measure's loss for ``Trainer(compute_loss_func=...)``, and the measure for ``compute_metrics``.

>>> import torch, setwise
>>> from types import SimpleNamespace
>>> loss = compute_loss_func(setwise.AUCLoss())
>>> logits = torch.tensor([[0.0, 2.0], [1.0, 1.0], [0.0, 0.5]])  # two logits a row: the score is their difference
>>> loss(SimpleNamespace(logits=logits), torch.tensor([1, 0, 0]))
tensor(0.)

**Gradient accumulation.** The trainer calls the loss once for each micro-batch and adds the gradients up, so each
micro-batch is a set of its own. What is minimized in a step of micro-batches B_1, ..., B_k is

    sum_j |B_j| / (|B_1| + ... + |B_k|)  L(B_j),

the mean of the micro-batches' losses by their labelled items; the trainer counts those of the whole step and passes
them as ``num_items_in_batch``. For cross-entropy this is the loss of the union; for a measure of a set it is not, since
pairs across micro-batches are not compared. So take micro-batches as large as memory allows, with some positives in
each (one without any has no gradient); for the exact gradient of the union see :class:`setwise.training.TwoPass`, for
sets beyond the batch :class:`setwise.training.ScoreQueue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setwise._checks import InputError, one_of
from setwise.measures import Measure, parse
from setwise.training import Blend, Recipe

LAYOUTS = ("binary", "classes")

LossFunction = Callable[..., Tensor]


def compute_loss_func(loss: nn.Module | str, *, layout: str | None = None, ignore_index: int = -100) -> LossFunction:
    """A function for ``Trainer(compute_loss_func=...)``.

    Args:
        loss: Called as ``loss(scores, target)``, such as ``setwise.AUCLoss()``; or the name of a measure, whose loss is
            then blended half and half with cross-entropy, as :class:`setwise.training.Recipe` does.
        layout: ``"binary"`` for a loss of one score per item, ``"classes"`` for one that takes all logits. By default
            the measure's own where a name is given, else ``"binary"`` where the model gives one or two logits.
        ignore_index: Items with this label are left out, as with tokens that have none.

    Returns:
        ``f(outputs, labels, num_items_in_batch=None)``; ``outputs`` has ``logits``, of shape (n,), (n, 1) or (n, C), or
        (n, length, C) for tokens.
    """
    own = layout
    if isinstance(loss, str):
        measure = parse(loss)
        own = measure.layout if layout is None else layout
        loss = _blended(measure)
    if not isinstance(loss, nn.Module):
        raise TypeError(f"Expected `loss` to be a torch.nn.Module or a name, but got {type(loss).__name__}.")
    one_of("layout", layout, (None, *LAYOUTS))
    module = loss

    def compute(outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        if labels is None:
            raise InputError("Expected the batch to hold `labels`, but it holds none.")
        scores, target = _items(_logits(outputs), labels, own, ignore_index)
        value: Tensor = module(scores, target)
        if num_items_in_batch is None:
            return value
        return value * (len(target) / torch.as_tensor(num_items_in_batch, device=value.device).clamp(min=1))

    return compute


def compute_metrics(*measures: Measure | str) -> Callable[[Any], dict[str, float]]:
    """A function for ``Trainer(compute_metrics=...)``: hard measures of the whole evaluation set.

    Args:
        *measures: By name or as :class:`~setwise.measures.Measure`. The results are called by their names, so that
            ``metric_for_best_model="auc"`` finds ``eval_auc``.
    """
    if not measures:
        raise InputError("Expected `measures` to name at least one measure, but got none.")
    wanted = [parse(measure) if isinstance(measure, str) else measure for measure in measures]

    def compute(prediction: Any) -> dict[str, float]:
        logits = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        all_logits, labels = torch.from_numpy(np.asarray(logits)), torch.from_numpy(np.asarray(prediction.label_ids))
        found = {}
        for measure in wanted:
            scores, target = _items(all_logits, labels, measure.layout, -100)
            found[measure.name] = float(measure.metric(scores, target))
        return found

    return compute


def _blended(measure: Measure) -> nn.Module:
    if measure.layout == "binary":
        return Recipe.for_measure(measure.name).member_loss()
    return Blend(nn.CrossEntropyLoss(), measure.loss(), 0.5)


def _logits(outputs: Any) -> Tensor:
    logits = outputs["logits"] if isinstance(outputs, dict) else getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError("Expected the model's `outputs` to hold a tensor `logits`, but they do not.")
    return logits


def _items(logits: Tensor, labels: Tensor, layout: str | None, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Scores and targets of the items that have a label.  # shapes: (m,) or (m, C), and (m,)."""
    if logits.ndim == labels.ndim:
        logits = logits.unsqueeze(-1) if logits.shape == labels.shape else logits
        labels = labels.squeeze(-1) if labels.shape[-1] == 1 and labels.ndim == logits.ndim else labels
    if logits.shape[:-1] != labels.shape:
        raise InputError(
            f"Expected `labels` to be of shape {tuple(logits.shape[:-1])} for logits of shape {tuple(logits.shape)}, "
            f"but got {tuple(labels.shape)}."
        )
    kept = labels != ignore_index
    logits, labels = logits[kept], labels[kept]
    classes = logits.shape[-1]
    if (layout or ("binary" if classes <= 2 else "classes")) == "classes":
        return logits, labels
    if classes > 2:
        raise InputError(f"Expected one or two logits per item for a loss of two classes, but got {classes}.")
    scores = logits[..., 0] if classes == 1 else logits[..., 1] - logits[..., 0]
    return scores, labels.to(scores.dtype)
