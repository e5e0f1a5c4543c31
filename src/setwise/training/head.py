"""Refit of the last layer (the head) of a trained network to a measure, over all rows at once.

The features before the last linear layer are computed once. On them the head is a linear scorer. Candidates are the
head refitted with cross-entropy under several ridge penalties, and the best of these and the old head fitted to the
measure from there (:mod:`setwise.linear`), held to its start by a ridge penalty. Rows held out decide which candidate
is best, and whether it is kept: it must gain more than a standard error of the paired bootstrap.

>>> import torch
>>> from setwise.training import refit_head
>>> torch.manual_seed(0)  # doctest: +ELLIPSIS
<torch...>
>>> x = torch.randn(600, 4)
>>> y = (x[:, 0] + x[:, 1] ** 2 + torch.randn(600) > 3).long()
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1), torch.nn.Flatten(0))
>>> loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=128)
>>> result = refit_head(model, loader, "ap")
>>> result.kept, result.gain > result.standard_error
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise import _checks, metrics
from setwise._checks import InputError
from setwise.linear.continuation import Labelled, Penalty, follow, hard_value
from setwise.linear.features import Features
from setwise.linear.logistic import fit_logistic, fit_softmax
from setwise.linear.selection import STRENGTHS
from setwise.measures import Measure, parse

Floats = NDArray[np.float64]

_RESAMPLES = 200
_PENALTIES = (1.0, 0.1, 0.01, 0.001)  # of the refits with cross-entropy, on standardized features


@dataclass(frozen=True)
class HeadRefit:
    """What came of a refit.

    Attributes:
        kept: Whether the network has the new head.
        gain: Of the best new head on the rows held out, more being better.
        standard_error: Of the gain, by the paired bootstrap.
        before: The measure of the old head on the rows held out.
        after: That of the best new one.
        loss: What it was fitted to, ``"measure"`` or ``"cross-entropy"``.
        strength: Its pull to its start, or its ridge penalty with cross-entropy.
        rows: How many rows were fitted to, and how many held out.
    """

    kept: bool
    gain: float
    standard_error: float
    before: float
    after: float
    loss: str
    strength: float
    rows: tuple[int, int]

    @property
    def message(self) -> str:
        """One sentence."""
        loss = self.loss if self.loss == "cross-entropy" else f"the {self.loss}"
        what = f"Kept the head refitted to {loss}" if self.kept else "Left the head as it was"
        return (
            f"{what}: {self.before:.4f} before, {self.after:.4f} after, a gain of {self.gain:+.4f} "
            f"(standard error {self.standard_error:.4f}) on {self.rows[1]} rows held out."
        )


def refit_head(
    model: nn.Module,
    loader: Iterable[Any],
    measure: str | Measure,
    *,
    head: nn.Linear | None = None,
    validation: Iterable[Any] | None = None,
    held_out: float = 0.25,
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
) -> HeadRefit:
    """Fit the last linear layer of a network to a measure, in place, where rows held out say that it pays.

    Args:
        model: A trained network; it runs in evaluation mode, on the device of its parameters, and is left in the mode
            it was in. For two classes its head has one output, or two whose difference is the score.
        loader: Batches of (inputs, targets); targets are 0 and 1, or class indices for measures of several classes.
            Rows that the network was not trained on are best; its training rows do, if it does not fit them perfectly.
        measure: A name, as :func:`setwise.parse` takes it, or a measure.
        head: The layer; None for the linear layer that runs last.
        validation: Batches of rows that decide; None to hold out a share of the rows of ``loader``.
        held_out: This share, in (0, 1), of each class.
        strengths: Penalties on the distance from the start that are tried in fits to the measure; an empty one leaves
            the refits with cross-entropy.
        seed: Of the held-out part and the bootstrap.

    Returns:
        Whether the head was replaced, and the gain.

    Raises:
        InputError: The network has no linear layer at its end, a batch is no pair, or a class is missing.
    """
    chosen = parse(measure) if isinstance(measure, str) else measure
    _checks.in_range("held_out", held_out, 0, 1, open_low=True, open_high=True)
    for strength in strengths:
        _checks.in_range("strengths", strength, 0, open_high=True)
    features, targets, layer = _cache(model, loader, head)
    old = _Scorer.of(layer, chosen)
    rng = np.random.default_rng(seed)
    if validation is None:
        held = _held_out(targets, held_out, rng)
        fitted, test = (features[~held], targets[~held]), (features[held], targets[held])
    else:
        fitted, test = (features, targets), _cache(model, validation, layer)[:2]
    for name, labels in (("loader", fitted[1]), ("validation" if validation is not None else "loader", test[1])):
        if labels.min() == labels.max():
            raise InputError(f"Expected `{name}` to hold rows of two classes or more, but they are all {labels[0]}.")
    before = old(test[0])
    base = hard_value(chosen, before, test[1])

    def value_of(found: _Candidate) -> float:
        return hard_value(chosen, found.scorer(test[0]), test[1])

    rows = Labelled(Features.of(fitted[0]), fitted[1], None)
    refits = [_Candidate("cross-entropy", l2, old, old.refitted(rows, chosen, l2)) for l2 in _PENALTIES]
    start = max([_Candidate("old", 0.0, old, old), *refits], key=value_of).scorer
    moved = [_Candidate("measure", float(s), start, start.moved(rows, chosen, s)) for s in strengths]
    best = max([*moved, *refits], key=value_of)
    gain = value_of(best) - base
    error = _bootstrap_error(chosen, before, best.scorer(test[0]), test[1], rng)
    kept = bool(gain > error)
    if kept:
        whole = best.scorer
        if validation is None:  # the rows held out have decided, and now they count
            whole = best.again(Labelled(Features.of(features), targets, None), chosen)
        whole.write(layer)
    sign = -1.0 if chosen.minimize else 1.0
    counts = (len(fitted[1]), len(test[1]))
    return HeadRefit(kept, gain, error, sign * base, sign * (base + gain), best.loss, best.strength, counts)


@dataclass(frozen=True)
class _Scorer:
    """A head as a scorer: one score for two classes, else one for each.

    Attributes:
        coef: Coefficients of the features.  # shape: (d,) or (C, d)
        intercept: Of the scores.  # shape: () or (C,)
        outputs: Of the layer.
    """

    coef: Floats
    intercept: Any
    outputs: int

    @classmethod
    def of(cls, layer: nn.Linear, measure: Measure) -> _Scorer:
        weight = layer.weight.detach().cpu().double().numpy()
        bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
        if measure.layout == "classes":
            if len(weight) < 2:
                raise InputError(f"Expected `measure` to be one for two classes, but got {measure.name!r}.")
            return cls(weight, bias, len(weight))
        if len(weight) > 2:
            raise InputError(
                f"Expected `measure` to be one for several classes, such as 'f1[macro]', since the head has "
                f"{len(weight)} outputs, but got {measure.name!r}."
            )
        if len(weight) == 2:
            return cls(weight[1] - weight[0], float(bias[1] - bias[0]), 2)
        return cls(weight[0], float(bias[0]), 1)

    def __call__(self, features: Floats) -> Floats:
        found: Floats = features @ self.coef.T + self.intercept
        return found

    def refitted(self, rows: Labelled, measure: Measure, l2: float) -> _Scorer:
        """Fitted with cross-entropy; decisions of two classes at the threshold that is best for the measure."""
        weight = np.ones(len(rows.y))
        level: Any
        if self.coef.ndim == 2:
            u, level = fit_softmax(rows.features, rows.y, weight, l2=l2, classes=len(self.coef))
        else:
            u, level = fit_logistic(rows.features, rows.y, weight, l2=l2)
            if measure.at_threshold:
                scores = rows.features.scores(u)
                level = -metrics.choose_threshold(scores, rows.y, maximize=measure.maximize_threshold).threshold
        coef = rows.features.coefficients(u)
        return _Scorer(coef, level - rows.features.offset(coef), self.outputs)

    def moved(self, rows: Labelled, measure: Measure, strength: float) -> _Scorer:
        """Fitted to the measure from here, in scores of standard deviation 1; then in the old units again."""
        features = rows.features
        scores = features.scores(features.scale * self.coef)
        spread = float(scores.std()) or 1.0
        u, level = features.scale * self.coef / spread, (self.intercept + features.offset(self.coef)) / spread
        path = follow(rows, measure, (u, level), Penalty(l2=strength / max(float((u**2).sum()), 1e-300), center=u))
        new, new_level = path.points[path.chosen]
        if not measure.at_threshold:
            new_level = level  # ranks say nothing about it
        coef = features.coefficients(new) * spread
        return _Scorer(coef, new_level * spread - features.offset(coef), self.outputs)

    @torch.no_grad()
    def write(self, layer: nn.Linear) -> None:
        """Give the layer these weights; of two outputs the difference changes and the sum does not."""
        weight = torch.as_tensor(self.coef).to(layer.weight)
        bias = torch.as_tensor(self.intercept).to(layer.weight)
        if self.outputs == 2 and weight.ndim == 1:
            half = torch.tensor([-0.5, 0.5]).to(layer.weight)
            weight = layer.weight.mean(0) + half[:, None] * weight
            bias = (0.0 if layer.bias is None else layer.bias.mean()) + half * bias
        layer.weight.copy_(weight.reshape(layer.weight.shape))
        if getattr(layer, "bias", None) is None:
            layer.bias = nn.Parameter(torch.empty(self.outputs).to(layer.weight))
        layer.bias.copy_(bias.reshape(layer.bias.shape))


@dataclass(frozen=True)
class _Candidate:
    """A new head, and how it was found."""

    loss: str
    strength: float
    start: _Scorer
    scorer: _Scorer

    def again(self, rows: Labelled, measure: Measure) -> _Scorer:
        """The same fit to other rows."""
        if self.loss == "measure":
            return self.start.moved(rows, measure, self.strength)
        return self.start.refitted(rows, measure, self.strength)


def _cache(
    model: nn.Module, loader: Iterable[Any], head: nn.Linear | None
) -> tuple[Floats, NDArray[np.int64], nn.Linear]:
    """Inputs of the head and targets of all rows, and the head."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    seen: dict[str, Any] = {}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen["layer"], seen["features"] = layer, inputs[0]

    layers = [m for m in model.modules() if isinstance(m, nn.Linear)] if head is None else [head]
    hooks = [layer.register_forward_pre_hook(remember) for layer in layers]
    training = model.training
    features, targets = [], []
    try:
        model.eval()
        with torch.no_grad():
            for batch in loader:
                if not isinstance(batch, list | tuple) or len(batch) < 2:
                    raise InputError("Expected `loader` to give batches of (inputs, targets).")
                seen.clear()
                scores = model(batch[0].to(device))
                if not seen or seen["layer"].out_features * len(seen["features"]) != scores.numel():
                    raise InputError(
                        "Expected `model` to end in a linear layer on features of shape (batch, d), one row for each "
                        "sample, but its scores come from elsewhere. Give the layer as `head`."
                    )
                features.append(seen["features"].double().cpu().numpy())
                targets.append(batch[1].reshape(-1).cpu().numpy())
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    if not features:
        raise InputError("Expected `loader` to give batches, but it is empty.")
    labels = np.concatenate(targets)
    found = np.concatenate(features)
    if len(labels) != len(found) or not np.array_equal(labels, labels.astype(np.int64)) or labels.min() < 0:
        raise InputError("Expected `loader` to give one target for each row: 0 or 1, or a class index.")
    return found, labels.astype(np.int64), seen["layer"]


def _held_out(y: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A share of each class."""
    held = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        held[members[: max(round(share * len(members)), 1)]] = True
    return held


def _bootstrap_error(
    measure: Measure, before: Floats, after: Floats, y: NDArray[np.int64], rng: np.random.Generator
) -> float:
    """Standard error of the difference over resamples of the rows, both scorers on the same ones."""
    found = []
    for _ in range(_RESAMPLES):
        drawn = rng.integers(len(y), size=len(y))
        if y[drawn].min() < y[drawn].max():
            found.append(hard_value(measure, after[drawn], y[drawn]) - hard_value(measure, before[drawn], y[drawn]))
    return float(np.std(found, ddof=1)) if len(found) > 1 else float("inf")
