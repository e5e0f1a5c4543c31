"""``setwise evaluate`` of a table or a run: its options, what it prints, and its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from setwise._checks import InputError
from setwise.app.evaluate import SUFFIXES, Columns, check_output, evaluate_table, requirement_lines, write_json
from setwise.cli.display import console, note, print_table

MET, NOT_MET = 0, 1
AGREES, DIFFERS = 0, 1
TOLERANCE = 1e-6  # that counts as agreement, unless told otherwise
MOST_SHOWN = 20  # values that differ

_OF_TABLES = (
    *("score", "target", "positive", "group", "weight", "max_weight", "measure", "threshold", "calibration", "require"),
    *("out", "json"),
)
_OF_RUNS = ("data", "tolerance")


def is_table(source: Path, given: Mapping[str, Any]) -> bool:
    """Whether a table of scores is meant and not the folder of a run; refuses options of the other kind."""
    tables = [name for name in _OF_TABLES if name in given]
    if source.is_dir():
        if tables:
            raise InputError(
                f"Expected a table beside {_flag(tables[0])}, but {source} is a folder; name the file of scores, or "
                f"leave {_flag(tables[0])} out to evaluate a run."
            )
        return False
    table = bool(tables) or source.is_file() or source.suffix.lower() in SUFFIXES
    runs = [name for name in _OF_RUNS if name in given]
    if table and runs:
        raise InputError(
            f"Expected {_flag(runs[0])} beside the folder of a run, but {source} is a table; leave it out."
        )
    return table


def run_table(source: Path, options: Mapping[str, Any]) -> int:
    """Evaluate a table, print and write the result.

    Args:
        source: The table.
        options: Those that were given.

    Returns:
        1 where a requirement is not met, else 0.
    """
    given = dict(options)
    if "target" not in given:
        raise InputError("Expected --target to name the column of labels, but there is none; add --target COLUMN.")
    columns = Columns(given.pop("score", []), given.pop("target"), given.pop("group", []), given.pop("weight", None))
    out, json_path = given.pop("out", None), given.pop("json", None)
    check_output("--out", out)
    check_output("--json", json_path)
    evaluation = evaluate_table(source, columns, notes=note, **given)
    shown = console()
    shown.print(str(evaluation), markup=False, soft_wrap=True)
    if out is not None:
        shown.print(f"Wrote {evaluation.write(out)}", markup=False)
    if json_path is not None:
        write_json(evaluation, json_path)
        shown.print(f"Wrote {json_path}", markup=False)
    lines = requirement_lines(evaluation)
    for _, line in lines:
        shown.print(line, markup=False, soft_wrap=True)
    return MET if all(met for met, _ in lines) else NOT_MET


def run_folder(folder: Path, options: Mapping[str, Any]) -> int:
    """Evaluate a run again from what it has stored, and say whether that agrees with its results.

    Args:
        folder: The run.
        options: Those that were given: ``data`` where it is now, ``tolerance``, and the rule of another threshold.

    Returns:
        1 where the results differ, else 0.
    """
    from setwise.app.run_folder import TABLE, RunFolder

    rule = dict(options)
    data, tolerance = rule.pop("data", None), rule.pop("tolerance", TOLERANCE)
    if RunFolder(folder).job == TABLE:
        return _run_of_table(folder, data, rule, tolerance)
    return _run_of_images(folder, data, rule, tolerance)


def _run_of_table(folder: Path, data: str | None, rule: Mapping[str, Any], tolerance: float) -> int:
    from setwise.app.progress import FitBars
    from setwise.app.reevaluation import reevaluate, rethreshold

    say = console().print
    if rule:
        with FitBars() as bars:
            lines = rethreshold(folder, data=data, progress=bars.show, **rule)
        say("\n".join(lines), markup=False, soft_wrap=True)
        return AGREES
    with FitBars() as bars:
        found = reevaluate(folder, data=data, tolerance=tolerance, progress=bars.show)
    say(f"{found.report}\n", markup=False, soft_wrap=True)
    return _agreement(found.differences, tolerance)


def _run_of_images(folder: Path, data: str | None, rule: Mapping[str, Any], tolerance: float) -> int:
    from setwise.app.images.evaluation import methods
    from setwise.app.images.reevaluation import reevaluate

    found = reevaluate(folder, data=data, tolerance=tolerance, **rule)
    say, measure = console().print, found.settings.parsed_measure()
    print_table(found.rows, methods(measure), seeds=found.settings.seeds, title=f"{folder}, evaluated again")
    for run in found.runs:
        name = f"seed {run['seed']}, {run['method']}"
        if not run["feasible"]:
            say(f"No threshold meets the condition on the validation set of {name}.", markup=False)
        for line in run.get("certificate", {}).get("said", ()):
            say(f"{name}: {line}", markup=False)
    return _agreement(found.differences, tolerance)


def _agreement(differences: Sequence[str], tolerance: float) -> int:
    """Say whether the results are those that were stored."""
    say = console().print
    if not differences:
        say(f"Agrees with results.json within {tolerance:g}.", markup=False)
        return AGREES
    say(f"Differs from results.json in {len(differences)} value{'s' * (len(differences) != 1)}:", markup=False)
    for text in differences[:MOST_SHOWN]:
        say(f"  {text}", markup=False, soft_wrap=True)
    if len(differences) > MOST_SHOWN:
        say(f"  ... and {len(differences) - MOST_SHOWN} more", markup=False)
    return DIFFERS


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
