"""Extremely randomized trees as LightGBM's text: fast to score, and stored without pickle.

A tree of scikit-learn sends a row (in single precision) to the left where x <= t, with t in double precision; LightGBM
does the same. Since x is in single precision, t may be any number from the largest of single precision below it up to
the next one. So the middle of the two is written, with nine digits, which halves the text and changes no decision. The
value of a leaf is its share of positives over the number of trees, so that LightGBM's sum is the mean share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def forest_text(forest: Any, columns: int) -> str:
    """The text of a fitted forest of two classes.

    Args:
        forest: Such as ``sklearn.ensemble.ExtraTreesClassifier``, fitted to labels 0 and 1.
        columns: Of its inputs.
    """
    count = len(forest.estimators_)
    head = f"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx={columns - 1}\n"
    trees = [f"Tree={k}\n{_tree_text(each.tree_, count)}" for k, each in enumerate(forest.estimators_)]
    return head + "\n" + "\n".join(trees) + "\nend of trees\n"


def _tree_text(tree: Any, count: int) -> str:
    """Fields of one tree; scikit-learn's nodes stand in preorder, so every child comes after its parent."""
    left, right = tree.children_left, tree.children_right
    inner = left >= 0
    share = tree.value[:, 0, 1] / tree.value[:, 0].sum(axis=1).clip(min=1e-300)
    fields = {"num_leaves": str(int((~inner).sum())), "num_cat": "0"}
    if inner.any():
        # inner nodes are counted from 0 upwards, leaves from -1 downwards
        number = np.where(inner, np.cumsum(inner) - 1, -np.cumsum(~inner))
        fields |= {
            "split_feature": _whole(tree.feature[inner]),
            "threshold": _real(_between(tree.threshold[inner]), 9),
            "decision_type": _whole(np.full(int(inner.sum()), 2)),
            "left_child": _whole(number[left[inner]]),
            "right_child": _whole(number[right[inner]]),
        }
    fields |= {"leaf_value": _real(share[~inner] / count, 7), "is_linear": "0", "shrinkage": "1"}
    return "".join(f"{name}={value}\n" for name, value in fields.items())


def _between(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Middle of the largest number of single precision that is not above each value, and the next one."""
    limit = float(np.finfo(np.float32).max) / 2
    single = values.clip(-limit, limit).astype(np.float32)
    low = np.where(single.astype(np.float64) > values, np.nextafter(single, np.float32(-np.inf)), single)
    low = low.astype(np.float32)
    return (low.astype(np.float64) + np.nextafter(low, np.float32(np.inf)).astype(np.float64)) / 2


def _whole(values: NDArray[Any]) -> str:
    return " ".join(map(str, values.tolist()))


def _real(values: NDArray[np.float64], digits: int) -> str:
    return " ".join(f"{value:.{digits}g}" for value in values.tolist())
