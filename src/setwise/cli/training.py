"""``setwise train``: its options for tables and images, and what it prints."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError
from setwise.cli.display import Bars, console, print_table

if TYPE_CHECKING:
    from setwise.app.images.comparison import Results
    from setwise.app.run_folder import RunFolder

_OF_TABLES = (
    *("target", "subject_to", "group", "time_column", "group_folds", "models", "time_limit", "weight", "max_weight"),
    *("split", "drop", "use", "folds", "seed", "workers"),
)
_OF_IMAGES = ("minority", "epochs", "seeds", "batch_size", "patience", "threads")
_WORK = ("workers", "time_limit")
IMAGES = "fashion"  # what is taken without DATA


def train(
    given: dict[str, Any], assignments: Sequence[str], out: Path | None, *, resume: bool, overwrite: bool
) -> str | None:
    """Train on a table or on images and print what was found; after Ctrl-C, the message that says how to go on.

    Args:
        given: Options by name, without those that were not given.
        assignments: Settings of the recipe as ``name=value``.
        out: The folder to write to.
        resume: Go on with the run there.
        overwrite: Replace the run there.
    """
    from setwise.app.run_request import wants_table

    if wants_table(given, out, resume=resume):
        _refuse(given, _OF_IMAGES, "images, but the data is a table")
        if assignments:
            raise InputError("Expected --set only with images, but the data is a table; leave it out.")
        return _train_table(given, out, resume=resume, overwrite=overwrite)
    assigned = read_assignments(assignments)
    _refuse(given | assigned, _OF_TABLES, f"a table, but {given.get('data', IMAGES)!r} is a set of images")
    twice = sorted(given.keys() & assigned.keys())
    if twice:
        raise InputError(f"Expected `{twice[0]}` once, but it is given by --set too.")
    return _train_images(given | assigned, out, resume=resume, overwrite=overwrite)


def _refuse(given: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for name in names:
        if name in given:
            raise InputError(f"Expected --{name.replace('_', '-')} only with {where}; leave it out.")


def read_assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Settings from ``name=value``; a value is read as JSON where it is some, else as text.

    >>> read_assignments(["blend=1", "surrogate=hinge", "average=null"])
    {'blend': 1, 'surrogate': 'hinge', 'average': None}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"Expected --set name=value, such as --set blend=1, but got {text!r}.")
        try:
            found[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            found[name.strip()] = value.strip()
    return found


def _train_table(given: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool) -> str | None:
    from setwise.app.progress import FitBars
    from setwise.app.run_request import table_run

    folder: RunFolder | None = None
    try:
        work = {name: given.pop(name) for name in _WORK if name in given}
        settings, folder = table_run(given, out, resume=resume)
        from setwise.app.training import Work, train_table  # takes seconds, so after the options are known to be good

        with FitBars() as bars:
            plan = Work(folder, resume, overwrite, progress=bars.show, notes=bars.note, **work)
            model = train_table(settings.data, settings, plan)
    except KeyboardInterrupt:
        return _stopped(folder)
    say = console().print
    say(str(model.report()), markup=False, soft_wrap=True)
    say(f"\nReport: {folder.path / 'report.html'}\nModel:  {folder.path / 'model.safetensors'}", markup=False)
    return None


def _train_images(given: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool) -> str | None:
    from setwise.app.run_request import image_run

    folder: RunFolder | None = None
    try:
        settings, folder = image_run(given, out, resume=resume)
        from setwise.app.images.comparison import compare  # takes seconds, so after the options are known to be good

        with Bars(settings.parsed_measure().title) as bars:
            results = compare(settings, folder.path, resume=resume, overwrite=overwrite, progress=bars, notes=bars.note)
    except KeyboardInterrupt:
        return _stopped(folder)
    _show(results, folder.path)
    return None


def _stopped(folder: RunFolder | None) -> str:
    """What is said after Ctrl-C."""
    if folder is None:
        return "stopped."
    return f"stopped. Continue with: setwise train --out {shlex.quote(str(folder.path))} --resume"


def _show(results: Results, out: Path) -> None:
    """The table of a comparison, the verdict, what is certified, and where the report is."""
    title = f"{results.data['name']}: {results.data['positive']} or not"
    print_table(results.rows, results.methods, seeds=results.settings.seeds, title=title)
    say = console().print
    for line in (results.verdict, *results.certificate_lines()):
        say(line, markup=False)
    say(f"Report: {out / 'report.html'}", markup=False)
