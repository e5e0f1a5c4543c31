"""What a report says about a stored model: what became of every column of the table, and how to use the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setwise.app.run_folder import MODEL

if TYPE_CHECKING:
    from setwise.data import TableEncoding
    from setwise.experiments.settings import ComparisonSettings


def column_notes(encoding: TableEncoding, settings: ComparisonSettings) -> dict[str, str]:
    """What became of every column, by name: inputs first, then those with another part.

    Args:
        encoding: Of the stored model.
        settings: Of the comparison.
    """
    notes = {code.name: code.note() for code in encoding.features}
    notes |= {name: f"left out: {why}" for name, why in encoding.left_out.items() if why != "dropped"}
    notes[encoding.target] = f"target; positive: {encoding.positive}"
    if settings.weight is not None:
        notes[settings.weight] = "sample weight, no input"
    if settings.split is not None:
        notes[settings.split] = "says which rows train, validate and test; no input"
    for name in settings.drop:
        notes.setdefault(name, "dropped")
    for name in settings.group:
        notes[name] = f"{notes[name]}; results by group" if name in notes else "results by group, no input"
    return notes


def usage_notes() -> dict[str, str]:
    """Texts to copy, by title; paths are relative to the folder of the report."""
    return {
        "On the command line, in the folder of this report": f"setwise predict {MODEL} new.csv --out predictions.csv",
        "In Python": (
            "from setwise.app.model_file import TableModel\n\n"
            f'model = TableModel.load("{MODEL}")\n'
            'found = model.predict(pandas.read_csv("new.csv"))\n'
            "found.classes, found.probabilities"
        ),
    }
