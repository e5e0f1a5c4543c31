"""The report as one HTML file: a small script of ours, no network, light and dark, everything from outside escaped."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._files import seal_page, write_bytes
from setwise.report import evaluation_parts, parts
from setwise.report.content import PlainTable, Report, Row, verdict
from setwise.report.data import comparison_data, evaluation_data
from setwise.report.text import escaped, interval_cell, shown_name, table, text_cell

if TYPE_CHECKING:
    from setwise.report.evaluation import Evaluation

SCRIPTS = "numbers.js", "drawing.js", "page.js"
# What a training records after each epoch, and what the page says about it.
HISTORIES = {
    "measure": "",
    "surrogate": "the surrogate loss",
    "gap": "the gap between the surrogate and one minus the measure",
    "violation": "by how much the best threshold misses the constraints",
}


def write_report(report: Report, path: str | Path) -> Path:
    """Write the page of a comparison and return its path.

    Args:
        report: What to show.
        path: The HTML file; an existing one is replaced as a whole.
    """
    return _write(render(report), path)


def write_evaluation(
    evaluation: Evaluation,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    usage: Mapping[str, str] | None = None,
    said: Sequence[str] = (),
    tables: Sequence[PlainTable] = (),
) -> Path:
    """Write the page of an evaluation and return its path.

    Args:
        evaluation: What to show.
        path: The HTML file; an existing one is replaced as a whole.
        columns: What became of every column of the table, by name.
        usage: How to use the model: texts to copy, by title.
        said: Sentences that come first, in place of the evaluation's own.
        tables: Further tables, behind the constraints.
    """
    return _write(render_evaluation(evaluation, columns=columns, usage=usage, said=said, tables=tables), path)


def write_tables(
    title: str,
    path: str | Path,
    *,
    said: Sequence[str] = (),
    tables: Sequence[PlainTable] = (),
    columns: Mapping[str, str] | None = None,
    usage: Mapping[str, str] | None = None,
) -> Path:
    """Write a page of sentences and tables, without a script, and return its path.

    Args:
        title: Of the page.
        path: The HTML file; an existing one is replaced as a whole.
        said: Sentences that come first.
        tables: What is shown.
        columns: What became of every column of the table, by name.
        usage: How to use the model: texts to copy, by title.
    """
    sentences = "".join(f"<p>{escaped(sentence)}</p>" for sentence in said)
    body = (
        f'<div class="verdict">{sentences}</div>' if said else "",
        *map(parts.plain, tables),
        parts.usage(usage or {}),
        parts.fate(columns or {}),
    )
    return _write(_page(title, body, None), path)


def render(report: Report) -> str:
    """The page of a comparison as a string."""
    titles = [method.title for method in report.methods]
    weighted = any(each.weights is not None for each in report.trainings)
    shares = [np.average(each.labels == 1, weights=each.weights) for each in report.trainings]
    said = (
        "A test example is predicted positive where its probability, the sigmoid of its score, reaches the threshold. "
        "Move it and see what changes; at first each method has the threshold that was chosen on its validation set."
    )
    body = (
        _verdict(report),
        _table(report),
        _constraints(report),
        parts.threshold(titles, said, scales=("probability", "share"), seeds=True),
        parts.costs(titles, float(np.mean(shares))),
        parts.curves(titles, reliability=False),
        parts.groups(report.groups, report.rows[0].difference.level, weighted=weighted),
        _training(report),
        _judged(report),
        parts.usage(report.usage),
        parts.downloads(),
        parts.fate(report.columns),
        parts.settings(report.settings, report.facts),
    )
    return _page(report.title, body, comparison_data(report))


def render_evaluation(
    evaluation: Evaluation,
    *,
    columns: Mapping[str, str] | None = None,
    usage: Mapping[str, str] | None = None,
    said: Sequence[str] = (),
    tables: Sequence[PlainTable] = (),
) -> str:
    """The page of an evaluation as a string.

    Args:
        evaluation: What to show.
        columns: What became of every column of the table, by name.
        usage: How to use the model: texts to copy, by title.
        said: Sentences that come first, in place of the evaluation's own.
        tables: Further tables, behind the constraints.
    """
    titles = [column.name for column in evaluation.columns]
    probabilities = all(column.calibration is not None for column in evaluation.columns)
    body = (
        evaluation_parts.headline(evaluation, said),
        evaluation_parts.constraints(evaluation),
        *map(parts.plain, tables),
        parts.threshold(
            titles,
            evaluation_parts.threshold_text(evaluation),
            scales=("probability", "share") if probabilities else ("share",),
            seeds=False,
        ),
        parts.costs(titles, evaluation.positive_weight / evaluation.total_weight),
        parts.curves(titles, reliability=probabilities),
        evaluation_parts.measures(evaluation),
        evaluation_parts.comparisons(evaluation),
        parts.groups(
            {column.name: column.values for column in evaluation.groups},
            evaluation.confidence,
            weighted=evaluation.weight is not None,
        ),
        parts.usage(usage or {}),
        parts.downloads(),
        parts.fate(columns or {}),
        parts.settings(evaluation.settings, evaluation.facts),
    )
    return _page(evaluation.title, body, evaluation_data(evaluation))


def _write(page: str, path: str | Path) -> Path:
    # Written as a whole or not at all, as `_files` does.
    path = Path(path)
    write_bytes(path, page.encode())
    return path


def _page(title: str, body: Iterable[str], data: Mapping[str, Any] | None) -> str:
    """Head and body, and where there is data the script that draws it."""
    style = resources.files("setwise.report").joinpath("style.css").read_text(encoding="utf-8")
    # A page without data runs no script at all.
    button, scripts, allowed = "", "", "script-src 'none'"
    if data is not None:
        button = '<button id="theme" type="button">Dark</button>\n'
        scripts, digest = _scripts(data)
        allowed = f"script-src 'sha256-{digest}'"
    shown, shown_parts = escaped(shown_name(title)), "\n".join(filter(None, body))
    return seal_page(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The browser itself sees to it that the page loads nothing from anywhere and runs this script alone.
        '<meta http-equiv="Content-Security-Policy" content="'
        f"default-src 'none'; style-src 'unsafe-inline'; {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'\">\n"
        f'<link rel="icon" href="data:,">\n<title>{shown}</title>\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n<main>\n{button}<h1>{shown}</h1>\n{shown_parts}\n</main>\n{scripts}</body>\n</html>\n"
    )


def _scripts(data: Mapping[str, Any]) -> tuple[str, str]:
    """Data and script as elements, and the script's digest; no text in the data can end its element."""
    files = resources.files("setwise.report")
    script = "\n".join(files.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    # In a function of its own, so that none of its names is global.
    script = f'\n"use strict";\n(() => {{\n{script}}})();\n'
    # The policy of the page allows this script by its hash, and none that a name might bring in.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    # JSON leaves these as they are, and </script> in a name would end the element.
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    elements = f'<script type="application/json" id="data">{safe}</script>\n<script>{script}</script>\n'
    return elements, digest


def _seeds(report: Report) -> int:
    return len({training.seed for training in report.trainings})


def _verdict(report: Report) -> str:
    kind, sentence = verdict(report.trained_row(), report.methods, _seeds(report))
    certified = "".join(f"\n<p>{escaped(line)}</p>" for line in report.certificate)
    return f'<p class="verdict {kind}">{escaped(sentence)}</p>{certified}'


def _table(report: Report) -> str:
    seeds = _seeds(report)
    level = f"{100 * report.rows[0].difference.level:g} %"
    ends = f"{level} intervals over {seeds} seeds, which cover {report.rows[0].covers}"
    ends = ends if seeds > 1 else "one seed, so no intervals"
    return table(
        [("Measure", True), *((method.title, False) for method in report.methods), ("Difference", False)],
        [_row(row, trained=row.key == report.measure) for row in report.rows],
        caption=f"Test set: mean, in brackets {ends}. The difference is taken within each seed. Bold: the measure "
        "trained for.",
    )


def _row(row: Row, *, trained: bool) -> str:
    # A difference has its sign shown.
    cells = interval_cell(row.baseline), interval_cell(row.measure), interval_cell(row.difference, signed=True)
    mark = ' class="trained"' if trained else ""
    return f"<tr{mark}>{text_cell(row.title)}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _constraints(report: Report) -> str:
    if not report.constraints:
        return ""
    heads = [(title, False) for method in report.methods for title in (method.title, "met in")]
    rows = []
    for row in report.constraints:
        said = [row.said(method).removeprefix("met in ") for method in (0, 1)]
        cells = "".join(f"<td>{interval_cell(a)}</td><td>{b}</td>" for a, b in zip(row.values, said, strict=True))
        rows.append(f"<tr>{text_cell(row.constraint)}{cells}</tr>")
    return "<h2>Constraints</h2>\n" + table(
        [("Constraint", True), *heads],
        rows,
        caption="On the test sets, at the threshold chosen on the validation set: mean over the seeds, and in how many "
        "test sets the estimate meets the bound; certain: in how many its 95 % confidence bound does.",
        name="constraints",
    )


def _training(report: Report) -> str:
    """Figures for what the trainings have recorded: trees have no surrogate, and few runs have constraints."""
    names = [name for name in HISTORIES if any(each.history.get(name) for each in report.trainings)]
    if not names:
        return ""
    said = HISTORIES | {"measure": html.escape(report.trained_row().title)}
    listed = "; ".join(said[name] for name in names)
    figures = "".join(f'<figure id="history-{name}"></figure>' for name in names)
    return f"""<h2>Training</h2>
<p>On the whole validation set after each epoch: {listed}. Thick: the seed that is shown. Thin: the others.</p>
{parts.legend([method.title for method in report.methods])}
<div class="figures">{figures}</div>"""


def _judged(report: Report) -> str:
    items = "\n".join(f"<li>{escaped(sentence)}</li>" for sentence in report.procedure)
    return f'<h2>How it was evaluated</h2>\n<ul class="judged">\n{items}\n</ul>' if items else ""
