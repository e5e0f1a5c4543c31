"""The page of a training: the answer, the candidates, the columns that matter, and the shipped model evaluated.

With several classes it has tables alone: which threshold to take is no question there.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.app.run_folder import MODEL
from setwise.report import PlainTable, write_evaluation, write_tables

if TYPE_CHECKING:
    from setwise.app.settings import TrainSettings
    from setwise.app.train_report import TrainReport
    from setwise.data import TableEncoding


def write_page(report: TrainReport, path: Path) -> Path:
    """Write the page.

    Args:
        report: What the training found.
        path: The HTML file; an existing one is replaced as a whole.
    """
    parts: dict[str, Any] = {
        "columns": report.fates,
        "usage": usage_notes(),
        "said": [*report.headline, *(f"Note: {remark}" for remark in report.remarks)],
        "tables": _tables(report),
    }
    if report.evaluation is None:
        return write_tables(report.title, path, **parts)
    return write_evaluation(report.evaluation, path, **parts)


def _tables(report: TrainReport) -> list[PlainTable]:
    heads, rows = report.candidate_table()
    found = [
        PlainTable(
            "Candidates",
            heads,
            rows,
            "Each row of the table is scored by models that have not seen it. These are estimates for new rows: what "
            "few rows add is taken off, and from what is shipped what the choice adds. Differences are paired.",
            "candidates",
            (0, 4),
        )
    ]
    if report.classes:
        heads, rows = report.class_table()
        said = (
            "Each class against the others, out of fold, of what is shipped. Nothing is taken off for the choice, as "
            "it was made on the macro average. Recall and precision are those of the most probable class."
        )
        found.append(PlainTable("Classes", heads, rows, said, "classes"))
    if report.columns:
        heads, rows = report.column_table()
        said = (
            "How much of the measure is lost when the column's values are permuted, out of fold, with its standard "
            "error. Columns that say the same share their importance."
        )
        found.append(PlainTable("Columns that matter", heads, rows, said, "importance"))
    return found


def column_fates(encoding: TableEncoding, settings: TrainSettings) -> dict[str, str]:
    """What became of every column, by name: inputs first, then those with another part.

    Args:
        encoding: Of the model.
        settings: Which column plays which part.
    """
    notes = {code.name: code.note() for code in encoding.features}
    notes |= {name: f"left out: {why}" for name, why in encoding.left_out.items() if why != "dropped"}
    several = f"target; classes: {', '.join(encoding.classes)}"
    notes[encoding.target] = several if encoding.further else f"target; positive: {encoding.positive}"
    for name, part in settings.parts.items():
        notes[name] = f"{notes[name]}; {part}" if name in settings.use else f"{part}, no input"
    for name in settings.drop:
        notes.setdefault(name, "dropped")
    for name in settings.group:
        notes[name] = f"{notes[name]}; results by group" if name in notes else "results by group, no input"
    return notes


def usage_notes() -> dict[str, str]:
    """Texts to copy, by title; paths are relative to the folder of the page."""
    return {
        "On the command line, in the folder of this page": f"setwise predict {MODEL} new.csv --out predictions.csv",
        "In Python": (
            "import pandas\nfrom setwise.app import load_model\n\n"
            f'model = load_model("{MODEL}")\n'
            'new = pandas.read_csv("new.csv")\n'
            "model.predict(new), model.predict_proba(new)"
        ),
    }
