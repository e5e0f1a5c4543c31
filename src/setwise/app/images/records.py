"""Checks of the stored record and scores of a training, which may have been damaged or made up since."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from setwise._checks import InputError, all_binary, all_finite, all_non_negative
from setwise.app.images.evaluation import AT_THRESHOLD, RANKING, Arrays, methods, row_of
from setwise.app.images.settings import ComparisonSettings
from setwise.app.run_folder import PARTS


def check_record(record: Mapping[str, Any], settings: ComparisonSettings) -> None:
    """Refuse a record with missing keys, wrong types, or numbers that a training cannot give.

    Raises:
        InputError: When something is wrong with it; a missing key is a KeyError.
    """
    measure = settings.parsed_measure()
    _check("seed", record["seed"], isinstance(record["seed"], int) and record["seed"] in range(settings.seeds))
    _check("method", record["method"], record["method"] in [method.key for method in methods(measure)])
    _check("feasible", record["feasible"], isinstance(record["feasible"], bool))
    _check("threshold", record["threshold"], _is_number(record["threshold"]))
    _check("seconds", record["seconds"], _is_number(record["seconds"], none=False) and record["seconds"] >= 0)
    for name in (row_of(measure), *RANKING, *AT_THRESHOLD, "precision", "recall"):
        _check(f"metrics.{name}", record["metrics"][name], _is_number(record["metrics"][name]))
    for name in PARTS:
        digest = record["files"][name]
        _check(f"files.{name}", digest, isinstance(digest, str) and len(digest) == 64)
    epochs, best = record["epochs"], record["best_epoch"]
    _check("epochs", epochs, _is_count(epochs, settings.epochs))
    _check("best_epoch", best, _is_count(best, epochs))
    _check("history", "no values of the measure", "measure" in record["history"])
    for name, values in record["history"].items():
        sized = isinstance(values, list) and len(values) == epochs
        _check(f"history.{name}", values, sized and all(map(_is_number, values)))


def check_scores(arrays: Arrays) -> None:
    """Refuse arrays that are not the scores, labels, weights and groups of a validation and a test set."""
    for part in ("validation", "test"):
        own = {name: array for name, array in arrays.items() if name.startswith(f"{part}_")}
        scores, labels = own.get(f"{part}_scores"), own.get(f"{part}_labels")
        if scores is None or labels is None or scores.dtype.kind != "f":
            raise InputError(f"it has no scores and labels of the {part} set")
        for name, array in own.items():
            if array.ndim != 1 or array.dtype.kind not in "biuf":
                raise InputError(f"{name} is an array of shape {array.shape} and type {array.dtype}")
        sizes = {len(array) for array in own.values()}
        if len(sizes) != 1 or 0 in sizes:
            raise InputError(f"its arrays of the {part} set are not equally long")
        all_finite(f"{part}_scores", scores)
        all_binary(f"{part}_labels", labels)
        if (weights := own.get(f"{part}_weights")) is not None:
            all_non_negative(f"{part}_weights", weights)


def _is_number(value: object, *, none: bool = True) -> bool:
    """Whether it is a finite number, or null, which stands for one that is not finite."""
    if value is None:
        return none
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _check(name: str, value: object, holds: bool) -> None:  # noqa: FBT001 (what is checked)
    if not holds:
        raise InputError(f"`{name}` cannot be {value!r:.80}")
