"""The report as one HTML file: a small script of ours, no network, light and dark, everything from outside escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.report.content import Report, Row, interval_text, known, verdict
from setwise.report.data import page_data

if TYPE_CHECKING:
    from setwise.metrics import Interval

# What a training records after each epoch, and what the page says about it.
HISTORIES = {
    "measure": "",
    "surrogate": "the surrogate loss",
    "gap": "the gap between the surrogate and one minus the measure",
    "violation": "by how much the best threshold misses the constraints",
}


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
    parts = (_verdict, _table, _constraints, _threshold, _training, _judged, _settings)
    body = "\n".join(filter(None, (part(report) for part in parts)))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The browser itself sees to it that the page loads nothing from anywhere.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n'
        f'<body>\n<main>\n<button id="theme" type="button">Dark</button>\n<h1>{title}</h1>\n{body}\n</main>\n'
        f"{_script(report)}\n</body>\n</html>\n"
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
    ends = f"{level} intervals over {seeds} seeds, which cover {report.rows[0].covers}"
    ends = ends if seeds > 1 else "one seed, so no intervals"
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


def _constraints(report: Report) -> str:
    if not report.constraints:
        return ""
    names = [html.escape(method.title) for method in report.methods]
    rows = "\n".join(
        f"<tr><td>{html.escape(row.constraint)}</td>"
        + "".join(
            f"<td>{_cell(value)}</td><td>{row.said(method).removeprefix('met in ')}</td>"
            for method, value in enumerate(row.values)
        )
        + "</tr>"
        for row in report.constraints
    )
    return (
        '<h2>Constraints</h2>\n<div class="scroll"><table id="constraints">\n'
        "<caption>On the test sets, at the threshold chosen on the validation set: mean over the seeds, and in how many "
        "test sets the estimate meets the bound; certain: in how many its 95 % confidence bound does.</caption>\n"
        f"<thead><tr><th>Constraint</th><th>{names[0]}</th><th>met in</th><th>{names[1]}</th><th>met in</th></tr></thead>"
        f"\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _legend(report: Report) -> str:
    methods = "".join(
        f'<li><b class="{name}">{mark}</b>{html.escape(method.title)}</li>'
        for method, name, mark in zip(report.methods, ("first", "second"), ("●", "◆"), strict=True)
    )
    return f'<ul class="legend">{methods}</ul>'


def _threshold(report: Report) -> str:
    """The slider with what it moves; the script fills in everything."""
    names = [html.escape(method.title) for method in report.methods]
    groups = ""
    if report.groups:
        groups = """<h3>By group</h3>
<p><label>Column <select id="column"></select></label></p>
<div class="scroll"><table id="groups"></table></div>"""
    matrices = "\n".join(_matrix(k, name) for k, name in enumerate(names))
    return f"""<h2>Threshold</h2>
<p>A test example is called positive where its probability, the sigmoid of its score, reaches the threshold. Move it and
see what changes; at first each method has the threshold that was chosen on its validation set.</p>
<div class="panel">
<label for="threshold">Threshold</label>
<input id="threshold" type="range" min="0" max="1" step="0.005" value="0.5">
<output id="value" for="threshold"></output>
<button id="chosen" type="button" aria-pressed="true">As chosen</button>
<label>Scale <select id="scale"><option>probability</option><option>log-odds</option></select></label>
<label>Seed <select id="seed"></select></label>
</div>
{_legend(report)}
<div class="figures two"><figure id="roc"></figure><figure id="pr"></figure></div>
<div class="figures two">{matrices}</div>
<div class="scroll"><table id="rates"></table></div>
{groups}
<h3>Scores by class</h3>
<p>Test scores, each class as shares of its own; the line is the threshold.</p>
<ul class="legend"><li><span class="box positive"></span>Positive class</li>
<li><span class="box negative"></span>Negative class</li></ul>
<div class="figures two"><figure id="scores-0"></figure><figure id="scores-1"></figure></div>
<noscript><p class="verdict">This part is drawn by the script inside the page, which your browser does not run.</p>
</noscript>"""


def _matrix(method: int, title: str) -> str:
    cells = "".join(
        f"<tr><th>{truth}</th>" + "".join(f'<td id="{cell}-{method}"></td>' for cell in pair) + "</tr>"
        for truth, pair in (("is positive", ("tp", "fn")), ("is negative", ("fp", "tn")))
    )
    return (
        f'<table class="matrix"><caption>{title}: <span id="at-{method}"></span></caption>'
        "<thead><tr><th></th><th>called positive</th><th>called negative</th></tr></thead>"
        f"<tbody>{cells}</tbody></table>"
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
{_legend(report)}
<div class="figures">{figures}</div>"""


def _script(report: Report) -> str:
    """Data and script; the data's "<" is written so that no text in it can end the element."""
    text = json.dumps(page_data(report), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    script = resources.files("setwise.report").joinpath("page.js").read_text(encoding="utf-8")
    return f'<script type="application/json" id="data">{safe}</script>\n<script>\n{script}</script>'


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
