"""LightGBM's text format for trees, checked and written anew before LightGBM reads it.

LightGBM trusts its files: an index beyond an array ends the process. So only what a prediction needs is taken from the
text, number by number: of each tree the split features, thresholds, children and leaf values. Numbers stay the texts
that they are, so predictions stay the same to the last bit. In a model the text is kept as a tensor of bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from setwise._checks import InputError, extra

BOOSTER = "booster"  # name of the tensor of bytes that is a boosting model's text
START = "start"  # name of the tensor that is added to its scores
MOST_LEAVES = 65_536
MOST_DIGITS = 40
_SPLITS = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_DECISIONS = frozenset({0, 2, 4, 6, 8, 10})  # default direction and kind of missing; an odd number is a category
_WHOLE = re.compile(r"-?[0-9]{1,9}\Z")
_REAL = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?\Z")


def checked_trees(text: str, columns: int) -> str:
    """The text with the trees alone, for a table of so many columns.

    Raises:
        InputError: When it is not the text of trees of one output.
    """
    head, *rest = re.split(r"^Tree=[0-9]+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    header = _fields(head)
    if not text.startswith("tree\n") or not rest:
        raise InputError("Expected the model's text to be LightGBM's, but it holds no trees.")
    for name, wanted in (("num_class", 1), ("num_tree_per_iteration", 1), ("max_feature_idx", columns - 1)):
        if header.get(name) != str(wanted):
            raise InputError(f"Expected `{name}` of the trees to be {wanted}, but got {header.get(name)!r:.40}.")
    # Written anew from what was checked: LightGBM reads its text without checks, and crashes on a wrong one.
    trees = [f"Tree={k}\n{_checked_tree(_fields(block), k, columns)}\n" for k, block in enumerate(rest)]
    written = {
        "version": "v4",
        "num_class": "1",
        "num_tree_per_iteration": "1",
        "label_index": "0",
        "max_feature_idx": str(columns - 1),
        "feature_names": " ".join(f"Column_{k}" for k in range(columns)),
        "feature_infos": " ".join(["none"] * columns),
        "tree_sizes": " ".join(str(len(tree) + 1) for tree in trees),
    }
    return "tree\n" + _text(written) + "\n" + "\n".join(trees) + "\nend of trees\n"


def _checked_tree(fields: Mapping[str, str], number: int, columns: int) -> str:
    """The fields of one tree that a prediction needs."""
    leaves = _whole(fields.get("num_leaves", ""), f"num_leaves of tree {number}", 1, MOST_LEAVES)
    for name in ("num_cat", "is_linear"):
        if fields.get(name, "0") != "0":
            raise InputError(f"Expected `{name}` of tree {number} to be 0, but got {fields[name]!r:.40}.")
    values = _list(fields, "leaf_value", leaves, number)
    for value in values:
        _check_real(value, f"leaf_value of tree {number}")
    # Only what scores need; everything else in a stranger's text is dropped.
    kept = {"num_leaves": str(leaves), "num_cat": "0"}
    if leaves > 1:
        lists = {name: _list(fields, name, leaves - 1, number) for name in _SPLITS}
        for value in lists["threshold"]:
            _check_real(value, f"threshold of tree {number}")
        limits = {"split_feature": (0, columns - 1), "decision_type": (0, 15)}
        limits |= dict.fromkeys(("left_child", "right_child"), (-leaves, leaves - 2))
        whole = {
            name: [_whole(value, f"{name} of tree {number}", *limit) for value in lists[name]]
            for name, limit in limits.items()
        }
        for kind in set(whole["decision_type"]) - _DECISIONS:
            raise InputError(f"Expected `decision_type` of tree {number} to be one of numbers, but got {kind}.")
        _check_children(whole["left_child"], whole["right_child"], number)
        kept |= {name: " ".join(found) for name, found in lists.items()}
    return _text(kept | {"leaf_value": " ".join(values), "is_linear": "0", "shrinkage": "1"})


def _check_children(left: Sequence[int], right: Sequence[int], number: int) -> None:
    """Each node but the root, and each leaf, is the child of one node before it."""
    # Every node but the root and every leaf is the child of one node, which comes before it: so there is no cycle.
    children = sorted((*left, *right))
    nodes = len(left)
    whole = children == [*range(-nodes - 1, 0), *range(1, nodes)]
    if not whole or any(0 <= child <= node for pair in (left, right) for node, child in enumerate(pair)):
        raise InputError(f"Expected the children of tree {number} to make a tree, but they do not.")


def _fields(block: str) -> dict[str, str]:
    found = {}
    for line in block.split("\n"):
        name, sign, value = line.partition("=")
        if sign:
            found[name] = value
    return found


def _text(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in fields.items())


def _list(fields: Mapping[str, str], name: str, size: int, number: int) -> list[str]:
    values = fields.get(name, "").split(" ")
    if len(values) != size:
        raise InputError(f"Expected `{name}` of tree {number} to hold {size} numbers, but got {len(values)}.")
    return values


def _whole(text: str, name: str, low: int, high: int) -> int:
    if not _WHOLE.match(text) or not low <= int(text) <= high:
        raise InputError(f"Expected `{name}` to be an integer in [{low}, {high}], but got {text!r:.40}.")
    return int(text)


def _check_real(text: str, name: str) -> None:
    if len(text) > MOST_DIGITS or not _REAL.match(text) or not math.isfinite(float(text)):
        raise InputError(f"Expected `{name}` to be a finite number, but got {text!r:.40}.")


def text_of(booster: Tensor) -> str:
    """The text that :func:`booster_bytes` has made a tensor."""
    return bytes(booster.numpy()).decode()


def booster_of(text: str) -> Any:
    """The LightGBM model of a text that :func:`checked_trees` gave."""
    lightgbm = extra("lightgbm", "boosting")
    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        raise InputError(f"Expected the model's text to be LightGBM's, but it cannot be read: {error}.") from error


def booster_bytes(text: str) -> Tensor:
    """A boosting model's text as a tensor of bytes."""
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).clone()
