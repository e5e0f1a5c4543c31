"""Folds of cross-validation: stratified, by groups, or in order of time.

A fold names the rows that it holds out and those that its model learns from. Stratified folds and folds by group hold
every row out once, and the model learns from all others. Folds in order of time cut the rows into one block more than
there are folds: the model of a fold learns from all blocks before the one that it holds out, so the first block is
never held out.

>>> import numpy as np
>>> folds = make_folds(np.array([0, 0, 0, 0, 1, 1]), folds=2, seed=0)
>>> folds.held.sum(axis=1), folds.train.sum(axis=1)
(array([3, 3]), array([3, 3]))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, is_count

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Folds:
    """Which rows are held out and learned from.

    Attributes:
        held: Rows that each fold holds out.  # shape: (folds, n)
        train: Rows that its model learns from.  # shape: (folds, n)
        kind: ``"stratified"``, ``"groups"`` or ``"time"``.
    """

    held: NDArray[np.bool_]
    train: NDArray[np.bool_]
    kind: str

    def __len__(self) -> int:
        return len(self.held)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Rows that some fold holds out.  # shape: (n,)."""
        return np.asarray(self.held.any(axis=0))


def make_folds(
    labels: NDArray[np.int64],
    *,
    folds: int = FOLDS,
    seed: int = 0,
    groups: ArrayLike | None = None,
    time: ArrayLike | None = None,
    names: Sequence[str] = ("0", "1"),
) -> Folds:
    """Folds for rows with these labels, spread by all classes.

    Args:
        labels: 0 or 1, or class numbers.  # shape: (n,)
        folds: How many; fewer where the rarer of two classes, or the groups that hold it, are fewer. Of several
            classes the most frequent one counts, as a rare one should not take training rows from all others.
        seed: Of the draw; folds in order of time are not drawn.
        groups: A group of each row, such as its patient; a group is in one fold.  # shape: (n,)
        time: When each row was, anything that sorts.  # shape: (n,)
        names: What the classes are called, for messages.

    Raises:
        InputError: When a class has fewer than two rows, or groups; or when both ``groups`` and ``time`` are given.
    """
    is_count("folds", folds, 2)
    if groups is not None and time is not None:
        raise InputError("Expected `groups` or `time`, but got both; order by time, or keep groups together.")
    if time is not None:
        return _in_time(labels, folds, _one_each("time", time, len(labels)), names)
    random = np.random.default_rng(seed)
    if groups is None:
        count = _possible(folds, np.bincount(labels, minlength=len(names)), "rows", names)
        fold = stratified(labels, count, random)
    else:
        number = np.unique(_one_each("groups", groups, len(labels)), return_inverse=True)[1]
        each = [np.bincount(number, labels == label) for label in range(len(names))]
        table = np.stack(each, axis=1)  # shape: (groups, classes)
        count = _possible(folds, (table > 0).sum(axis=0), "groups", names)
        fold = _spread(table, count, random)[number]
    held = fold == np.arange(count)[:, None]
    return Folds(held, ~held, "stratified" if groups is None else "groups")


def stratified(y: NDArray[np.int64], folds: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A fold for each row, each class spread evenly.  # shape: (n,)."""
    fold, start = np.empty(len(y), np.int64), 0
    for label in np.unique(y):
        own = random.permutation(np.flatnonzero(y == label))
        fold[own] = (np.arange(len(own)) + start) % folds
        start += len(own)  # so that small classes do not all begin with the first fold
    return fold


def _possible(folds: int, each: NDArray[Any], what: str, names: Sequence[str]) -> int:
    """As many folds as both classes can be spread over, or the most frequent of several."""
    if each.min() < 2:
        raise InputError(
            f"Expected at least 2 {what} of each class for cross-validation, but class {names[int(each.argmin())]} has "
            f"{int(each.min())}; collect more rows, or choose another target."
        )
    # Of two classes each fold must have both; of several a rare one may be in some folds only.
    return min(folds, int(each.min() if len(each) == 2 else each.max()))


def _spread(table: NDArray[Any], folds: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A fold for each group, greedily: the largest first, each where the classes are then spread most evenly.

    Args:
        table: Rows of each group and class.  # shape: (groups, classes)
        folds: How many.
        random: Order of equally large groups.
    """
    share = table / table.sum(axis=0)
    order = random.permutation(len(share))
    # The largest groups first, while every fold has room for them; shuffled before, so that equals are in random order.
    order = order[np.argsort(-share.max(axis=1)[order], kind="stable")]
    load, fold = np.zeros((folds, table.shape[1])), np.empty(len(share), np.int64)
    for group in order:
        worst = (load + share[group]).max(axis=1)
        # To the fold where the class that is fullest is least full, then to the emptiest.
        fold[group] = np.lexsort((load.sum(axis=1), worst))[0]
        load[fold[group]] += share[group]
    return fold


def _in_time(labels: NDArray[np.int64], folds: int, time: NDArray[Any], names: Sequence[str]) -> Folds:
    """Blocks of about equally many rows; rows of one moment are in one block."""
    moment = np.unique(time, return_inverse=True)[1]
    # Rows of the same moment stay in one block: one must not be learned from for the other.
    before = np.cumsum(np.bincount(moment))  # rows up to each moment
    block = np.minimum((before - 1) * (folds + 1) // len(labels), folds)[moment]
    blocks = np.unique(block)
    held = [block == each for each in blocks[1:]]
    train = [block < each for each in blocks[1:]]
    kept = [k for k in range(len(held)) if len(np.unique(labels[train[k]])) == len(names)]
    if len(names) > 2:
        _check_each_class(labels, names, block < blocks[-1], "before the last")
        _check_each_class(labels, names, np.any([held[k] for k in kept], axis=0), "after the first")
    if not kept:
        raise InputError(
            "Expected `time` to order the rows so that both classes occur before the last block, but they do not; "
            "leave it out, or choose another column."
        )
    return Folds(np.stack([held[k] for k in kept]), np.stack([train[k] for k in kept]), "time")


def _check_each_class(labels: NDArray[np.int64], names: Sequence[str], rows: NDArray[np.bool_], where: str) -> None:
    """Refuse an order in which one of several classes has no rows to learn from, or none to be scored on."""
    for label, name in enumerate(names):
        if not (labels[rows] == label).any():
            raise InputError(
                f"Expected `time` to order the rows so that every class occurs {where} block, but {name} does not; "
                "leave its rows out, or choose another column."
            )


def _one_each(name: str, values: ArrayLike, rows: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (rows,):
        raise InputError(
            f"Expected `{name}` to hold one value for each of {rows} rows, but its shape is {array.shape}."
        )
    return array
