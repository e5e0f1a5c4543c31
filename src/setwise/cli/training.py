"""``setwise train``: from the options that were given to settings, a run, and what is said about it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError
from setwise.cli.display import Bars, console, print_table

if TYPE_CHECKING:
    from setwise.experiments.comparison import Results
    from setwise.experiments.settings import ComparisonSettings


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


def settings_of(given: dict[str, Any], out: Path | None, *, resume: bool) -> tuple[ComparisonSettings, Path]:
    """Settings and folder. On resume the stored settings count, and given ones must agree with them."""
    from setwise.app.run_folder import RunFolder
    from setwise.experiments.problem import is_table
    from setwise.experiments.settings import ComparisonSettings, read_settings

    ComparisonSettings.check_names(given)
    measure = given.get("measure", ComparisonSettings.measure)
    source = str(given.get("data", ComparisonSettings.data))
    table = is_table(source)
    if table or Path(source).expanduser().is_dir():
        given["data"] = source = str(Path(source).expanduser().resolve())  # so that the run knows it from anywhere
    if given.get("minority") == 0:
        given["minority"] = None
    if out is None:
        stem = re.sub(r"\W+", "-", Path(source).name.split(".")[0]) if table else Path(source).name
        short = re.sub(r"\W+", "-", measure).strip("-")
        out = Path("runs") / f"{short}-{stem}"
    if resume:
        return replace(read_settings(RunFolder(out))[0], **given), out
    if given.get("subject_to") and given.get("members", 1) != 1:
        raise InputError(
            f"Expected `members` to be 1 with constraints, which are for the scores of one network, but got "
            f"{given['members']!r}."
        )
    if table:
        given.setdefault("minority", None)
        given.setdefault("members", 1)  # on tables several are hardly better: docs/recipes.md
    return ComparisonSettings.for_measure(**({"measure": measure} | given)), out


def train(given: dict[str, Any], out: Path | None, *, resume: bool, overwrite: bool) -> str | None:
    """Run the comparison and print its table; after Ctrl-C, the message that says how to go on."""
    try:
        by_size = not resume and not {"epochs", "patience"} & given.keys()
        settings, out = settings_of(given, out, resume=resume)
        from setwise.experiments.comparison import compare  # takes seconds, so after the options are known to be good
        from setwise.experiments.problem import is_table

        sized = by_size and settings.model == "network" and is_table(settings.data)
        with Bars(settings.parsed_measure().title) as bars:
            results = compare(
                settings, out, resume=resume, overwrite=overwrite, sized=sized, progress=bars, notes=bars.note
            )
    except KeyboardInterrupt:
        return f"stopped.{f' Continue with: setwise train --out {shlex.quote(str(out))} --resume' if out else ''}"
    show(results, out)
    return None


def show(results: Results, out: Path) -> None:
    """The table, the verdict, the constraints, what is certified, and where the report and the model are."""
    title = f"{results.data['name']}: {results.data['positive']} or not"
    print_table(results.rows, results.methods, seeds=results.settings.seeds, title=title)
    say = console().print
    say(results.verdict, markup=False)
    for line in results.constraint_lines():
        say(line, markup=False)
    for line in results.certificate_lines():
        say(line, markup=False)
    say(f"Report: {out / 'report.html'}", markup=False)
    if results.model is not None:
        kept = f"{results.methods[1].title}, seed {results.model['seed']}, the best on its validation set"
        say(f"Model:  {out / results.model['file']} ({kept})", markup=False)
