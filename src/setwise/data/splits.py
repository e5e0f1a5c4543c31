"""Splits that keep every class in every part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, in_range, is_count
from setwise._types import Index
from setwise.data.imbalance import Labels, whole_labels


def stratified_split(
    labels: Labels, fractions: Sequence[float], *, seed: int = 0, groups: Labels | None = None
) -> tuple[Index, ...]:
    """Split at random into parts in which each class has about the share it has in the whole.

    Part sizes are exact (``fractions`` times n, rounded so that they add up to n). Within them every class (and every
    combination of class and group) gets its share to within a sample or two, and one that has as many samples as there
    are parts is in each part, as long as the parts are large enough.

    Args:
        labels: Shape (n,).
        fractions: The parts' shares; positive, summing to 1.
        seed: Seed of the draw.
        groups: A second attribute to keep balanced, such as a protected one, shape (n,). Samples of a group are spread
            over the parts, not kept together.

    Returns:
        Ascending positions, one array per part.

    Example:
        >>> train, test = stratified_split([0] * 16 + [1] * 4, [0.75, 0.25])
        >>> len(train), len(test), int((test >= 16).sum())
        (15, 5, 1)
    """
    is_count("seed", seed, 0)
    array = whole_labels("labels", labels)
    shares = _shares(fractions)
    sizes = _round_to_sum(array.size * shares, array.size)
    if sizes.min() == 0:
        raise InputError(f"Expected `fractions` to give each part a sample, but {array.size} samples give {sizes}.")
    stratum, class_of = _strata(array, groups)
    counts = np.bincount(stratum)
    table = _allot(counts, shares, sizes, class_of)
    rng = np.random.default_rng(seed)
    parts: list[list[Index]] = [[] for _ in sizes]
    for s in range(counts.size):
        members = rng.permutation(np.flatnonzero(stratum == s))
        for part, chunk in zip(parts, np.split(members, np.cumsum(table[s])[:-1]), strict=True):
            part.append(chunk)
    return tuple(np.sort(np.concatenate(part)) for part in parts)


def _shares(fractions: Sequence[float]) -> NDArray[np.float64]:
    for k, fraction in enumerate(fractions):
        in_range(f"fractions[{k}]", fraction, 0, 1, open_low=True)
    if not fractions or abs(sum(fractions) - 1) > 1e-6:
        raise InputError(f"Expected `fractions` to sum to 1, but {list(fractions)} sums to {sum(fractions):.6g}.")
    return np.asarray(fractions, dtype=np.float64) / sum(fractions)


def _strata(labels: NDArray[np.int64], groups: Labels | None) -> tuple[Index, Index]:
    """The stratum of each sample, and the class of each stratum."""
    keys = [labels]
    if groups is not None:
        second = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
        if second.shape != labels.shape:
            raise InputError(
                f"Expected `groups` to have the shape of `labels`, {labels.shape}, but got {second.shape}."
            )
        keys.append(np.unique(second, return_inverse=True)[1])
    pairs, stratum = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    return stratum.reshape(-1), pairs[:, 0]


def _round_to_sum(exact: NDArray[np.float64], total: int) -> Index:
    """Whole numbers next to the exact ones that sum to the total: largest remainders are rounded up."""
    floor = np.floor(exact + 1e-9).astype(np.int64)
    up = np.argsort(floor - exact, kind="stable")[: total - floor.sum()]
    floor[up] += 1
    return floor


def _allot(counts: Index, shares: NDArray[np.float64], sizes: Index, class_of: Index) -> Index:
    """How many samples of each stratum go to each part: rows sum to ``counts``, columns to ``sizes``."""
    exact = counts[:, None] * shares  # shape: (strata, parts)
    table = np.floor(exact + 1e-9).astype(np.int64)
    room = sizes - table.sum(axis=0)
    for s in np.argsort(counts, kind="stable"):  # the rarest choose first
        for _ in range(counts[s] - table[s].sum()):
            lacking = table[class_of == class_of[s]].sum(axis=0) == 0
            want = 2.0 * lacking + (table[s] == 0) + exact[s] - table[s]
            part = int(np.argmax(np.where(room > 0, want, -np.inf)))
            table[s, part] += 1
            room[part] -= 1
    _spread(table)
    return table


def _spread(table: Index) -> None:
    """Where a stratum with enough samples is absent from a part, exchange a sample with one that can spare some."""
    parts = table.shape[1]
    for s, p in np.argwhere((table == 0) & (table.sum(axis=1, keepdims=True) >= parts)):
        giver = int(np.argmax(table[s]))  # the part that has most of this stratum gives one,
        spare = int(np.argmax(table[:, p]))  # and gets one of the stratum this part has most of
        if table[s, giver] > 1 and table[spare, p] > 1:
            table[s, giver] -= 1
            table[s, p] += 1
            table[spare, p] -= 1
            table[spare, giver] += 1
