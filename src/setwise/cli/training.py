"""``setwise train``: from the options that were given to settings, a run, and what is said about it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError
from setwise.cli.display import Bars, console, print_table

if TYPE_CHECKING:
    from setwise.app.run_folder import RunFolder
    from setwise.app.settings import TrainSettings
    from setwise.experiments.comparison import Results
    from setwise.experiments.settings import ComparisonSettings

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
    if _of_a_table(given, out, resume=resume):
        _refuse(given, _OF_IMAGES, "images, but the data is a table")
        if assignments:
            raise InputError("Expected --set only with images, but the data is a table; leave it out.")
        return _train_table(given, out, resume=resume, overwrite=overwrite)
    _refuse(given, _OF_TABLES, f"a table, but {given.get('data', IMAGES)!r} is a set of images")
    assigned = read_assignments(assignments)
    twice = sorted(given.keys() & assigned.keys())
    if twice:
        raise InputError(f"Expected `{twice[0]}` once, but it is given by --set too.")
    return _train_images(given | assigned, out, resume=resume, overwrite=overwrite)


def _of_a_table(given: Mapping[str, Any], out: Path | None, *, resume: bool) -> bool:
    """Whether a table is meant: by the data, or by the run that is gone on with."""
    from setwise.app.run_folder import TABLE, RunFolder
    from setwise.app.table_problem import is_table

    if "data" in given:
        return is_table(str(given["data"]))
    if resume and out is not None:
        return RunFolder(out).job == TABLE
    return False


def _refuse(given: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for name in names:
        if name in given:
            raise InputError(f"Expected --{name.replace('_', '-')} only with {where}; leave it out.")


def _default_folder(measure: str, stem: str) -> Path:
    short = re.sub(r"\W+", "-", measure).strip("-")
    return Path("runs") / f"{short}-{re.sub(r'[^A-Za-z0-9]+', '-', stem)}"


def _train_table(given: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool) -> str | None:
    from setwise.app.progress import FitBars

    folder: RunFolder | None = None
    try:
        work = {name: given.pop(name) for name in _WORK if name in given}
        settings, folder = _table_settings(given, out, resume=resume)
        from setwise.app.training import Work, train_table  # takes seconds, so after the options are known to be good

        with FitBars() as bars:
            plan = Work(folder, resume, overwrite, progress=bars.show, notes=bars.note, **work)
            model = train_table(settings.data, settings, plan)
    except KeyboardInterrupt:
        where = f" Continue with: setwise train --out {shlex.quote(str(folder.path))} --resume" if folder else ""
        return f"stopped.{where}"
    say = console().print
    say(str(model.report()), markup=False, soft_wrap=True)
    say(f"\nReport: {folder.path / 'report.html'}\nModel:  {folder.path / 'model.safetensors'}", markup=False)
    return None


def _table_settings(given: dict[str, Any], out: Path | None, *, resume: bool) -> tuple[TrainSettings, RunFolder]:
    """Settings and folder. On resume the stored settings count, and given ones must agree with them."""
    from setwise.app.run_folder import RunFolder
    from setwise.app.settings import TrainSettings, read_settings
    from setwise.app.table_problem import located

    if "data" in given:
        given["data"] = located(str(given["data"]))
    if "max_weight" in given and "weight" not in given and not resume:
        raise InputError("Expected --weight to name the column of weights beside --max-weight, but there is none.")
    if "models" in given:
        named = given["models"]
        given["models"] = [name.strip() for name in named.split(",") if name.strip()]
        if not given["models"]:
            raise InputError(f"Expected `models` to name candidates, such as logistic,lightgbm, but got {named!r}.")
    given |= {name: tuple(given[name]) for name in ("group", "drop", "use", "subject_to", "models") if name in given}
    if out is None:
        stem = Path(given["data"]).name.split(".")[0]
        out = _default_folder(given.get("measure", TrainSettings.measure), stem)
    folder = RunFolder(out)
    if resume:
        return replace(read_settings(folder)[0], **given), folder
    return TrainSettings(**given), folder


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


def _train_images(given: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool) -> str | None:
    try:
        settings, out = image_settings(given, out, resume=resume)
        from setwise.experiments.comparison import compare  # takes seconds, so after the options are known to be good

        with Bars(settings.parsed_measure().title) as bars:
            results = compare(settings, out, resume=resume, overwrite=overwrite, progress=bars, notes=bars.note)
    except KeyboardInterrupt:
        return f"stopped.{f' Continue with: setwise train --out {shlex.quote(str(out))} --resume' if out else ''}"
    show(results, out)
    return None


def image_settings(given: dict[str, Any], out: Path | None, *, resume: bool) -> tuple[ComparisonSettings, Path]:
    """Settings and folder. On resume the stored settings count, and given ones must agree with them."""
    from setwise.app.run_folder import RunFolder
    from setwise.experiments.settings import ComparisonSettings, read_settings

    ComparisonSettings.check_names(given)
    measure = given.get("measure", ComparisonSettings.measure)
    source = str(given.get("data", ComparisonSettings.data))
    if Path(source).expanduser().is_dir():
        given["data"] = source = str(Path(source).expanduser().resolve())  # so that the run knows it from anywhere
    if given.get("minority") == 0:
        given["minority"] = None
    out = _default_folder(measure, Path(source).name) if out is None else out
    if resume:
        return replace(read_settings(RunFolder(out))[0], **given), out
    return ComparisonSettings.for_measure(**({"measure": measure} | given)), out


def show(results: Results, out: Path) -> None:
    """The table of a comparison, the verdict, what is certified, and where the report is."""
    title = f"{results.data['name']}: {results.data['positive']} or not"
    print_table(results.rows, results.methods, seeds=results.settings.seeds, title=title)
    say = console().print
    for line in (results.verdict, *results.certificate_lines()):
        say(line, markup=False)
    say(f"Report: {out / 'report.html'}", markup=False)
