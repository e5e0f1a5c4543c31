"""Commands of the command line and their options; :mod:`setwise.cli.running` says what happens to errors.

Commands import what they need when they run, so that ``setwise --help`` does not wait for Lightning.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from setwise._checks import InputError, extra

extra("typer", "cli")
extra("rich", "cli")
import typer  # noqa: E402

from setwise.cli.running import INTERRUPTED, run_app, say  # noqa: E402

PROGRAM = "setwise"

Drop = Annotated[list[str] | None, typer.Option(help="Column that is no input; may be repeated.")]
Use = Annotated[
    list[str] | None,
    typer.Option(help="Column that is an input even if it looks like an identifier; may be repeated."),
]

app = typer.Typer(
    help="Train models on the measure you report, and evaluate them honestly.",
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
        typer.echo(f"setwise {importlib.metadata.version('setwise')}")
        raise typer.Exit


def _given(options: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """The options of a command that were given, by name, without some others."""
    return {name: value for name, value in options.items() if name not in others and value is not None and value != []}


@app.callback()
def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train models on the measure you report, and evaluate them honestly."""


@app.command()
def train(
    source: Annotated[str | None, typer.Argument(metavar="DATA", help="Your table; the same as --data.")] = None,
    *,
    measure: Annotated[
        str | None,
        typer.Option(help='What to be good at: auc, ap, f1, "precision@recall>=0.9", ... [default: auc]'),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="A table (.csv, .csv.gz, .parquet), credit-default, or images: fashion or a folder. [default: fashion]"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Target column of a table. [default: the last]")] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            help="Positive class; without it a target of 3 values or more has several. [default: shirt for fashion]"
        ),
    ] = None,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(help='What has to hold, such as "recall>=0.8" or "recall[group=sex]>=0.8"; may be repeated.'),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Confidence with which that holds on new data; 0 turns it off. [default: 0.95]"),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column to break results down by; it stays an input. May be repeated.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column that orders the rows: folds are learned from earlier ones.")
    ] = None,
    group_folds: Annotated[
        str | None, typer.Option(help="Column of patients, sites, ...: their rows stay in one fold.")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Candidates, such as logistic,lightgbm. [default: all]")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no further fit begins. [default: none]")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    max_weight: Annotated[
        float | None, typer.Option(help="Bound on the weights of all rows, seen and unseen, to certify with weights.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Column that says train or test; test rows are only evaluated.")
    ] = None,
    drop: Drop = None,
    use: Use = None,
    folds: Annotated[int | None, typer.Option(help="Folds of a table. [default: 5]")] = None,
    seed: Annotated[int | None, typer.Option(help="Of folds, fits and draws of a table. [default: 0]")] = None,
    workers: Annotated[int | None, typer.Option(help="Fits of a table side by side. [default: cores]")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write to. [default: runs/<measure>-<data>]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    minority: Annotated[
        float | None,
        typer.Option(help="Images: share of positives to thin the data to; 0 leaves it as it is. [default: 0.05]"),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Images: most epochs. [default: 25]")] = None,
    seeds: Annotated[int | None, typer.Option(help="Images: repetitions. [default: 5]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images: examples in a batch.")] = None,
    patience: Annotated[int | None, typer.Option(help="Images: epochs without improvement before stopping.")] = None,
    threads: Annotated[int | None, typer.Option(help="Images: threads of torch. [default: 1]")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Images: any setting of the recipe, such as blend=1; may be repeated."),
    ] = None,
) -> None:
    """From a table to the best model for a measure, with what of it holds on new data; or from images."""
    given = _given(locals(), "source", "out", "resume", "overwrite", "set_")
    if source is not None and data is not None:
        raise InputError(f"Expected the data once, but got {source!r} and --data {data!r}.")
    if source is not None:
        given["data"] = source
    if resume and overwrite:
        raise InputError("Expected --resume or --overwrite, but got both.")
    from setwise.cli import training

    stopped = training.train(given, set_ or [], out, resume=resume, overwrite=overwrite)
    if stopped is not None:
        raise typer.Exit(say(PROGRAM, stopped, INTERRUPTED))


@app.command()
def inspect(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table (.csv, .csv.gz, .parquet).")],
    *,
    target: Annotated[str | None, typer.Option(help="Target column. [default: the last]")] = None,
    positive: Annotated[str | None, typer.Option(help="Positive value of the target.")] = None,
    measure: Annotated[str | None, typer.Option(help='Measure to train for, such as "precision@recall>=0.9".')] = None,
    subject_to: Annotated[
        list[str] | None, typer.Option(help='What is to hold on new data, such as "recall>=0.8"; may be repeated.')
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence with which it is to hold.")] = 0.95,
    group: Annotated[list[str] | None, typer.Option(help="Column to break results down by; may be repeated.")] = None,
    drop: Drop = None,
    use: Use = None,
) -> None:
    """Look at a table before training: its columns, what will become of them, and what may go wrong."""
    options = _given(locals(), "data")
    from setwise.cli import inspecting

    inspecting.inspect(data, options)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="model.safetensors, or the folder of a run.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A table with the columns the model knows.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="CSV or .parquet file to write. [default: CSV on standard output]")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to write beside the predictions, all or none; may be repeated. [default: identifiers]"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Calibrated probability from which on a row is positive; two classes. [default: the model's]"
        ),
    ] = None,
) -> None:
    """Apply a model that `setwise train` wrote to the rows of a table."""
    from setwise.cli import predicting

    for line in predicting.predict(model, data, out, threshold, keep or None):
        say(PROGRAM, line, 0)


@app.command()
def evaluate(
    source: Annotated[
        Path, typer.Argument(metavar="RUN|TABLE", help="Folder that `setwise train` wrote, or a table of scores.")
    ],
    *,
    score: Annotated[list[str] | None, typer.Option(help="Column of scores of a table; may be repeated.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of labels of a table.")] = None,
    positive: Annotated[
        str | None, typer.Option(help="Label that is positive. [default: yes, true, 1, or the rarer]")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Column of groups; conditions must hold in each. May be repeated.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of sample weights.")] = None,
    max_weight: Annotated[
        float | None, typer.Option(help="Bound on the weights of all cases, to certify with weights.")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help='Measure to report, such as "tpr@fpr<=0.01"; may be repeated.')
    ] = None,
    maximize: Annotated[
        str | None,
        typer.Option(help="Choose thresholds that maximize this, such as f1."),
    ] = None,
    subject_to: Annotated[
        list[str] | None, typer.Option(help='Condition on the thresholds, such as "recall>=0.9"; may be repeated.')
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="Confidence with which conditions hold on new data; 0 turns it off. [default: 0.95]"),
    ] = None,
    threshold: Annotated[
        list[float] | None, typer.Option(help="Threshold in use, to be evaluated; one, or one per --score.")
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Table of other rows with the same columns, to choose the threshold on.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option(help='End with exit code 1 unless this holds, such as "recall>=0.9".')
    ] = None,
    out: Annotated[Path | None, typer.Option(help="HTML page to write. [default: none]")] = None,
    json: Annotated[Path | None, typer.Option(help="JSON file to write. [default: none]")] = None,
    data: Annotated[str | None, typer.Option(help="Where the data of a run is now, if it has moved.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference from a run's results that counts as agreement. [default: 1e-6]"),
    ] = None,
) -> None:
    """Evaluate any model's scores in a table, or a run again from what it has stored."""
    options = _given(locals(), "source")
    from setwise.cli import evaluating

    if evaluating.is_table(source, options):
        raise typer.Exit(evaluating.run_table(source, options))
    raise typer.Exit(evaluating.run_folder(source, options))
