"""The report as one HTML file: no script, no network, legible in light and dark, everything from outside escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.report import plots
from setwise.report.content import Report, Row, interval_text, known, verdict

if TYPE_CHECKING:
    from setwise.metrics import Interval


def write_report(report: Report, path: str | Path) -> Path:
    """Write the page and return its path.

    Args:
        report: What to show.
        path: The HTML file; an existing one is replaced as a whole.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(render(report), encoding="utf-8")
    return partial.replace(path)


def render(report: Report) -> str:
    """The whole page as a string."""
    style = resources.files("setwise.report").joinpath("style.css").read_text(encoding="utf-8")
    title = html.escape(report.title)
    body = "\n".join((_verdict(report), _table(report), _figures(report), _judged(report), _settings(report)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _seeds(report: Report) -> int:
    return len({training.seed for training in report.trainings})


def _verdict(report: Report) -> str:
    kind, sentence = verdict(report.trained_row(), report.methods, _seeds(report))
    return f'<p class="verdict {kind}">{html.escape(sentence)}</p>'


def _table(report: Report) -> str:
    baseline, trained = (html.escape(method.title) for method in report.methods)
    rows = "\n".join(_row(row, trained=row.key == report.measure) for row in report.rows)
    seeds = _seeds(report)
    level = f"{100 * report.rows[0].difference.level:g} %"
    ends = f"{level} intervals over {seeds} seeds" if seeds > 1 else "one seed, so no intervals"
    caption = (
        f"Test set: mean, in brackets {ends}. The difference is taken within each seed. Bold: the measure trained for."
    )
    return (
        f'<div class="scroll"><table>\n<caption>{caption}</caption>\n'
        f"<thead><tr><th>Measure</th><th>{baseline}</th><th>{trained}</th><th>Difference</th></tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _row(row: Row, *, trained: bool) -> str:
    cells = _cell(row.baseline), _cell(row.measure), _cell(row.difference, signed=True)
    mark = ' class="trained"' if trained else ""
    return f"<tr{mark}><td>{html.escape(row.title)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _cell(interval: Interval, *, signed: bool = False) -> str:
    text = interval_text(interval, signed=signed)
    if not known(interval):
        return html.escape(text)
    mean, _, ends = text.partition(" ")
    return f"{html.escape(mean)} <small>{html.escape(ends)}</small>"


def _figures(report: Report) -> str:
    methods = "".join(
        f'<li><b style="color: var({variable})">{mark}</b>{html.escape(method.title)}</li>'
        for method, variable, mark in zip(report.methods, ("--baseline", "--measure"), ("●", "◆"), strict=True)
    )
    legend = f'<ul class="legend">{methods}</ul>'
    title = report.trained_row().title
    classes = (
        '<ul class="legend"><li><span class="box" style="background: var(--positive)"></span>Positive class</li>'
        '<li><span class="box" style="background: var(--negative)"></span>Negative class</li>'
        '<li><span style="background: var(--ink)"></span>Threshold</li></ul>'
    )
    training = (
        plots.history(report, "measure", "Measure", title),
        plots.history(report, "surrogate", "Surrogate", "Surrogate loss"),
        plots.history(report, "gap", "Gap", "Surrogate - (1 - measure)"),
    )
    return f"""<h2>Curves and operating points</h2>
<p>Thin: single seeds. Thick: their mean. Markers: where the threshold chosen on the validation set puts the test set.
Dashed: a model without skill.</p>
{legend}
{_grid(plots.roc(report), plots.precision_recall(report), two=True)}
<h2>Training</h2>
<p>On the whole validation set after each epoch: {html.escape(title)}, the surrogate loss, and the gap between the
surrogate and one minus the measure. Thin: single seeds. Thick: their mean, with a band from lowest to highest, up to
the epoch at which the first of them stopped.</p>
{legend}
{_grid(*training)}
<h2>Scores by class</h2>
<p>Test scores of the first seed, each class as shares of its own.</p>
{classes}
{_grid(plots.histogram(report, 0), plots.histogram(report, 1), two=True)}"""


def _grid(*figures: str, two: bool = False) -> str:
    inner = "\n".join(f"<figure>{figure}</figure>" for figure in figures)
    return f'<div class="figures{" two" if two else ""}">\n{inner}\n</div>'


def _judged(report: Report) -> str:
    items = "\n".join(f"<li>{html.escape(sentence)}</li>" for sentence in report.judged)
    return f'<h2>How it was judged</h2>\n<ul class="judged">\n{items}\n</ul>' if items else ""


def _settings(report: Report) -> str:
    parts = []
    if report.settings:
        parts.append(f"<h2>Settings</h2>\n{_pairs(report.settings)}")
    if report.facts:
        parts.append(f"<h2>Facts</h2>\n{_pairs(report.facts)}")
    return "\n".join(parts)


def _pairs(values: Mapping[str, object]) -> str:
    items = "\n".join(
        f"<div><dt>{html.escape(str(name).replace('_', ' '))}</dt><dd>{html.escape(_shown(value))}</dd></div>"
        for name, value in values.items()
    )
    return f'<dl class="settings">\n{items}\n</dl>'


def _shown(value: object) -> str:
    if value is None:
        return "default"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_shown(item)}" for key, item in value.items()) or "default"
    return f"{value:g}" if isinstance(value, float) else str(value)
