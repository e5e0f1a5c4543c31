"""The commands and their options; :mod:`setwise.cli.running` says what happens to errors.

Commands import what they need when they run, so that ``setwise-research --help`` does not wait for Lightning.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from setwise._checks import InputError
from setwise.cli.running import INTERRUPTED, run_app, say

PROGRAM = "setwise-research"

app = typer.Typer(
    help="The papers' tables, and the recipe beside tuned baselines.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: Those after the program's name; by default the process's own.
    """
    return run_app(app, PROGRAM, arguments)


def _version(wanted: bool) -> None:  # noqa: FBT001 (Typer's signature)
    if wanted:
        typer.echo(f"{PROGRAM} {importlib.metadata.version('setwise-research')}")
        raise typer.Exit


@app.callback()
def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The papers' tables, and the recipe beside tuned baselines."""


@app.command("benchmark-suite")
def benchmark_suite(
    *,
    data: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated. [default: all]")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A method; may be repeated. [default: all]")] = None,
    runs: Annotated[Path, typer.Option(help="Finished runs, one line each.")] = Path("runs/benchmark_suite.csv"),
    page: Annotated[Path | None, typer.Option(help="Write the page here. [default: none]")] = None,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = 1,
    dry: Annotated[bool, typer.Option("--dry", help="Run nothing, only write the page.")] = False,
) -> None:
    """Run what is missing of the benchmark suite: our recipe beside tuned baselines, on images and tables."""
    from setwise_research.cli.benchmark_suite import run_suite

    run_suite(runs, page, data=data or (), methods=method or (), threads=threads, dry=dry)


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Table or figure to run; --list shows them.")
    ] = None,
    *,
    preset: Annotated[str, typer.Option(help="quick: minutes on a CPU; paper: the papers' own protocol.")] = "quick",
    out: Annotated[Path, typer.Option(help="Folder of all results.")] = Path("runs/reproduce"),
    data: Annotated[list[str] | None, typer.Option(help="Data set instead of the preset's; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Repetitions instead of the preset's.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Part of the cells, such as method=ours or level=91,83; may be repeated.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "cpu",
    list_: Annotated[bool, typer.Option("--list", help="Show every entry: state, cost and last result.")] = False,
) -> None:
    """Run a table or figure of the papers, going on with what is done already; write Markdown, CSV and plots."""
    from setwise_research.cli import reproducing

    if list_:
        reproducing.show_list(out)
        return
    if name is None:
        raise InputError("Expected the NAME of a table, but got none; `setwise-research reproduce --list` shows them.")
    try:
        wanted = reproducing.wanted_job(name, preset, data or [], seeds, only or [])
        reproducing.run_job(wanted, reproducing.folder(out, name, preset), threads=threads, device=device)
    except KeyboardInterrupt:
        raise typer.Exit(say(PROGRAM, "stopped. The same command goes on with it.", INTERRUPTED)) from None
