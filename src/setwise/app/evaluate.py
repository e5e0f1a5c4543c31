"""Evaluation of a table of scores: reading its columns, and handing them to :func:`setwise.report.evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise._files import write_bytes
from setwise.data.tables.reading import read_frame
from setwise.data.tables.values import near_column, to_number
from setwise.report import ConstraintCheck, Evaluation, evaluate
from setwise.report.deciding import percent
from setwise.report.wording import number

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt", ".gz", ".xz", ".bz2", ".zip", ".parquet", ".pq")
"""Names of tables end so."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table: scores, the target, and maybe groups and weights."""

    scores: Sequence[str]
    target: str
    groups: Sequence[str] = ()
    weight: str | None = None

    @property
    def roles(self) -> list[tuple[str, str]]:
        """Every column that is read, with the option that names it."""
        scores, groups = [(name, "--score") for name in self.scores], [(name, "--group") for name in self.groups]
        return [
            *scores,
            (self.target, "--target"),
            *groups,
            *([] if self.weight is None else [(self.weight, "--weight")]),
        ]

    def check(self) -> None:
        """Refuse a column that is named in two roles."""
        if not self.scores:
            raise InputError("Expected --score to name the column of scores, but there is none; add --score COLUMN.")
        seen: dict[str, str] = {}
        for name, role in self.roles:
            if name in seen:
                before = "twice" if seen[name] == role else f"as {seen[name]} and as {role}"
                raise InputError(f"Expected different columns, but {name!r} is given {before}; name another one.")
            seen[name] = role


def evaluate_table(
    path: Path,
    columns: Columns,
    *,
    calibration: Path | None = None,
    positive: str | None = None,
    notes: Callable[[str], object] | None = None,
    **options: Any,
) -> Evaluation:
    """Evaluate the columns of scores of a table.

    Args:
        path: The table: CSV (also packed, or with tabs or semicolons) or Parquet.
        columns: What stands where in it.
        calibration: A second table with the same columns, to choose the threshold on.
        positive: Value of the target that is positive.
        notes: Told, a sentence each, what was not as it should be in the files.
        **options: Those of :func:`setwise.report.evaluate`, by name.
    """
    columns.check()
    if calibration is not None and calibration.resolve() == path.resolve():
        raise InputError(
            f"Expected --calibration to hold other rows than {path.name}, but it is the same file; leave it out to "
            "certify on the rows themselves."
        )
    parts = _read(path, columns, notes)
    others = None if calibration is None else _read(calibration, columns, notes)
    return evaluate(
        parts["scores"],
        parts["labels"],
        weight=parts.get("weight"),
        group=parts.get("group"),
        calibration=others,
        positive=positive,
        title=f"{path.name}: {', '.join(columns.scores)}",
        **options,
    )


def write_json(evaluation: Evaluation, path: Path) -> None:
    """All figures of an evaluation as JSON; the file is replaced as a whole."""
    text = json.dumps(evaluation.to_dict(), indent=1, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode())


def check_output(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"Expected {option} to be a file, but {path} is a folder; add a file name to it.")
    if not path.parent.is_dir():
        raise InputError(f"Expected the folder of {option} to exist, but {path.parent} does not; make it first.")


def requirement_lines(evaluation: Evaluation) -> list[tuple[bool, str]]:
    """One line per requirement: whether it is met, and why."""
    found: dict[str, list[ConstraintCheck]] = {}
    for check in evaluation.requirements:
        found.setdefault(check.constraint, []).append(check)
    lines = []
    for text, checks in found.items():
        open_ = [check for check in checks if not check.holds]
        shown = (open_ or checks)[0]
        where = "" if shown.column is None else f" in {shown.column} = {shown.group}"
        side = "lower" if ">=" in text else "upper"
        bound = "" if np.isnan(shown.bound) else f", {side} bound {number(shown.bound)}"
        value = f"{number(shown.estimate)}{where}{bound} at {percent(evaluation.confidence)} confidence"
        at = f"threshold {number(evaluation.columns[0].decision.threshold)}"
        if not open_:
            lines.append((True, f"required {text}: met at {at}: {value}"))
        else:
            because = f" ({shown.reason})" if shown.reason else ""
            lines.append((False, f"required {text}: not met at {at}: {value}{because}"))
    return lines


def _read(path: Path, columns: Columns, notes: Callable[[str], object] | None) -> dict[str, Any]:
    """Columns of a table by their roles, as :func:`setwise.report.evaluate` takes them."""
    frame, info = read_frame(path, columns=[name for name, _ in columns.roles], texts=[columns.target, *columns.groups])
    _find(columns, info.names, path)
    if notes is not None:
        for note in info.notes:
            notes(f"{path.name}: {note}")
    parts: dict[str, Any] = {
        "scores": {name: _numbers(frame[name], path, "--score") for name in columns.scores},
        "labels": _labels(frame[columns.target], path),
    }
    if columns.weight is not None:
        parts["weight"] = _weights(_numbers(frame[columns.weight], path, "--weight"), columns.weight, path)
    if columns.groups:
        parts["group"] = {
            name: frame[name].cat.add_categories("(missing)").fillna("(missing)") for name in columns.groups
        }
    return parts


def _find(columns: Columns, names: Sequence[str], path: Path) -> None:
    """Refuse columns that the table lacks."""
    for name, role in columns.roles:
        if name in names:
            continue
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        hint = near_column(name, names).strip(" ()") or f"it has {shown}."
        raise InputError(f"Expected {role} to be a column of {path.name}, but there is no {name!r}; {hint}")


def _numbers(column: pd.Series[Any], path: Path, option: str) -> NDArray[np.float64]:
    if column.dtype != np.float64:
        texts = column.astype(object)
        row = next(k for k, text in enumerate(texts) if isinstance(text, str) and to_number(text) is None)
        raise InputError(
            f"Expected {option} column {column.name!r} of {path.name} to hold numbers, but row {row + 1} holds "
            f"{texts.iloc[row]!r}; name a column of numbers."
        )
    array: NDArray[np.float64] = column.to_numpy()
    wanted = f"{option} column {column.name!r} of {path.name} to have a finite number in every row"
    _refuse_rows(~np.isfinite(array), wanted, "missing or infinite", "fill them in or leave these rows out")
    return array


def _labels(column: pd.Series[Any], path: Path) -> pd.Series[Any]:
    wanted = f"--target column {column.name!r} of {path.name} to have a value in every row"
    _refuse_rows(column.isna().to_numpy(), wanted, "missing", "leave these rows out")
    return column


def _weights(weight: NDArray[np.float64], name: str, path: Path) -> NDArray[np.float64]:
    wanted = f"--weight column {name!r} of {path.name} to be non-negative"
    _refuse_rows(weight < 0, wanted, "negative", "leave such rows out or set them to 0")
    return weight


def _refuse_rows(bad: NDArray[np.bool_], wanted: str, what: str, advice: str) -> None:
    """Refuse a column with rows that are not as wanted: how many there are, and which is the first."""
    if bad.any():
        raise InputError(
            f"Expected {wanted}, but {int(bad.sum())} of {len(bad)} are {what}, the first in row "
            f"{int(np.argmax(bad)) + 1}; {advice}."
        )
