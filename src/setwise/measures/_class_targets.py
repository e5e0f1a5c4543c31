"""Reading and checking of options, scores and targets of the multi-class AUC."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.measures._base import check_surrogate, class_indices, positives, promote_dtype, read_weight
from setwise.measures.auc import SURROGATES

AVERAGES = {"ova": ("macro", "weighted", "sum"), "mu": ("pair", "sum")}
SCORES = ("softmax", "raw")


class Settings(NamedTuple):
    """The options, checked."""

    kind: str
    partition: Tensor | None
    scores: str
    average: str
    margin: float
    surrogate: str

    @classmethod
    def checked(
        cls, kind: str, partition: Tensor | None, scores: str, average: str | None, margin: float, surrogate: str
    ) -> Settings:
        _checks.one_of("kind", kind, AVERAGES)
        _checks.one_of("scores", scores, SCORES)
        average = AVERAGES[kind][0] if average is None else average
        _checks.one_of("average", average, AVERAGES[kind])
        check_surrogate(surrogate, margin, SURROGATES)
        if partition is not None:
            partition = _checked_partition(partition, kind)
        return cls(kind, partition, scores, average, margin, surrogate)


def _checked_partition(partition: Tensor, kind: str) -> Tensor:
    _checks.is_tensor("partition", partition)
    _checks.is_real("partition", partition)
    if kind != "mu":
        raise _checks.InputError(f"Expected `partition` to be None for `kind={kind!r}`, but got a matrix.")
    if partition.ndim != 2 or partition.shape[0] != partition.shape[1] or len(partition) < 2:
        raise _checks.InputError(f"Expected `partition` to be a square matrix, but got shape {tuple(partition.shape)}.")
    # A setting and no parameter: it gets no gradient.
    partition = promote_dtype(partition.detach())
    if _checks.values_are_readable():
        _checks.all_finite("partition", partition)
        # Where v_k = v_l the line between the two classes has no direction, and orders nothing.
        flat = (class_scale(partition) == 0).triu(1).nonzero()
        if len(flat):
            raise _checks.InputError(
                "Expected `partition` to tell every two classes apart, but P_kl + P_lk = P_kk + P_ll for (k, l) = "
                f"{tuple(flat[0].tolist())}."
            )
    return partition


def class_scale(partition: Tensor) -> Tensor:
    """v_k - v_l for v = P_k - P_l, symmetric.  # shape: (C, C)."""
    diagonal = partition.diagonal()
    return diagonal.unsqueeze(0) + diagonal.unsqueeze(1) - partition - partition.mT


def read_classes(
    input: Tensor, target: Tensor, weight: Tensor | None, settings: Settings, *, check_values: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores to compare, class indices (or booleans for every class), weights.

    shapes: (*batch, n, C), (*batch, n) or (*batch, n, C), (*batch, n)
    """
    _checks.is_floating("input", input)
    _checks.is_real("target", target)
    # Class indices have a dimension less, so the shape says which of the two it is.
    multilabel = target.shape == input.shape
    _check_shapes(input, target, settings, multilabel=multilabel)
    values = promote_dtype(input)
    weight = read_weight(weight, "input[..., 0]", input[..., 0])
    if check_values and _checks.values_are_readable():
        if weight is not None:
            _checks.all_non_negative("weight", weight)
        if not math.isfinite(values.detach().sum().item()):  # an overflow of the sum alone is no error
            _checks.all_finite("input", input)
    target = (
        positives(target, check_values=check_values)
        if multilabel
        else class_indices(target, input.shape[-1], check_values=check_values and _checks.values_are_readable())
    )
    if settings.scores == "softmax":
        values = _probabilities(values, by_column=settings.kind == "ova")
    return values, target, weight


def _probabilities(values: Tensor, *, by_column: bool) -> Tensor:
    """The softmax over the classes.  # shape: (*batch, n, C)."""
    if by_column and torch.compiler.is_compiling():
        # The columns are compared one by one. Inductor (torch 2.13, CPU) gets the gradient of `softmax(-1).mT` wrong.
        return values.mT.softmax(-2).mT
    return values.softmax(-1)


def _check_shapes(input: Tensor, target: Tensor, settings: Settings, *, multilabel: bool) -> None:
    """Refuse layouts that do not fit each other or the kind."""
    if input.ndim < 2 or (not multilabel and target.shape != input.shape[:-1]):
        expected = "class indices of shape (n,)" + (" or labels of shape (n, C)" if settings.kind == "ova" else "")
        raise _checks.InputError(
            f"Expected `input` of shape (n, C) and `target` with {expected}, but got {tuple(input.shape)} and "
            f"{tuple(target.shape)}."
        )
    if multilabel and settings.kind == "mu":
        raise _checks.InputError(
            f"Expected `target` to be class indices of shape {tuple(input.shape[:-1])} for `kind='mu'`, but got "
            f"{tuple(target.shape)}."
        )
    if multilabel and settings.scores == "softmax":
        raise _checks.InputError(
            "Expected `scores` to be 'raw' for a `target` with a label for every class: labels do not compete, so "
            f"softmax has no meaning, but got {settings.scores!r}."
        )
    if not multilabel and input.shape[-1] < 2:
        raise _checks.InputError(f"Expected `input` to have at least 2 columns, but got {tuple(input.shape)}.")
    if settings.partition is not None and len(settings.partition) != input.shape[-1]:
        raise _checks.InputError(
            f"Expected `partition` to have a row for each of the {input.shape[-1]} columns of `input`, but got shape "
            f"{tuple(settings.partition.shape)}."
        )
