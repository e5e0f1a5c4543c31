"""Parts of the page that a comparison and an evaluation share; the script fills in what moves with the sliders."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from setwise.report.content import PlainTable
from setwise.report.data import MOST_GROUPS
from setwise.report.text import escaped, folded, pairs, shown_name, table, text_cell

SHAPES = ("●", "◆", "■", "▲")  # as the script draws the markers
COLOURS = 6


def legend(titles: Sequence[str]) -> str:
    """Which marker and colour belongs to which score column; nothing where there is only one."""
    if len(titles) == 1:
        return ""
    items = "".join(
        f'<li><b class="text-{k % COLOURS}">{SHAPES[k % len(SHAPES)]}</b>{escaped(shown_name(title))}</li>'
        for k, title in enumerate(titles)
    )
    return f'<ul class="legend">{items}</ul>'


def threshold(titles: Sequence[str], said: str, *, scales: Sequence[str], seeds: bool) -> str:
    """The slider, the confusion matrix of each score column and the rates.

    Args:
        titles: Of the score columns.
        said: What a threshold is here, and which one is shown first.
        scales: Scales of the slider: ``"probability"``, ``"share"``.
        seeds: Whether there is a choice of seeds.
    """
    names = {"probability": "score", "share": "share predicted positive"}
    options = "".join(f'<option value="{scale}">{names[scale]}</option>' for scale in scales)
    scale = f'<label>Scale <select id="scale">{options}</select></label>' if len(scales) > 1 else ""
    seed = '<label>Seed <select id="seed"></select></label>' if seeds else ""
    matrices = "\n".join(_matrix(k, title) for k, title in enumerate(titles))
    return f"""<h2>Threshold</h2>
<p>{html.escape(said)}</p>
<div class="panel">
<label for="threshold">Threshold</label>
<input id="threshold" type="range" min="0" max="1" step="0.005" value="0.5">
<output id="value" for="threshold"></output>
<button id="chosen" type="button" aria-pressed="true">As chosen</button>
{scale}
{seed}
</div>
<div class="figures matrices">{matrices}</div>
<div class="scroll" tabindex="0"><table id="rates"></table></div>
<noscript><p class="verdict">This part is drawn by the script inside the page, which your browser does not run.</p>
</noscript>"""


def _matrix(column: int, title: str) -> str:
    def cell(name: str) -> str:
        return f'<td><span id="{name}-{column}"></span> <small id="{name}-share-{column}"></small></td>'

    rows = "".join(
        f'<tr><th scope="row">actual {truth}</th>{cell(first)}{cell(second)}</tr>'
        for truth, first, second in (("positive", "tp", "fn"), ("negative", "fp", "tn"))
    )
    return (
        f'<div><table class="matrix"><caption><b>{escaped(shown_name(title))}</b>: <span id="at-{column}"></span>'
        '</caption><thead><tr><td></td><th scope="col">predicted positive</th>'
        f'<th scope="col">predicted negative</th></tr></thead><tbody>{rows}</tbody></table>'
        f'<p class="soft" id="said-{column}" aria-live="polite"></p></div>'
    )


def costs(titles: Sequence[str], share: float) -> str:
    """Costs of a miss and a false alarm, and the threshold at which they are lowest."""
    fields = "\n".join(
        f'<div class="cost"><label for="{name}">{text}</label>'
        f'<input id="{name}-slider" type="range" min="0" max="{most}" step="1" aria-label="{text}, slider">'
        f'<input id="{name}" type="number" min="0" step="any" inputmode="decimal"></div>'
        for name, text, most in (
            ("miss", "Cost of a miss", 15),
            ("alarm", "Cost of a false alarm", 15),
            ("cases", "Cases per month", 24),
        )
    )
    return f"""<h2>Costs</h2>
<p>The cheapest threshold of all, if new cases are like these: {share:.2%} of them positive. Change the costs and
see where it moves. Hollow mark: the cheapest; filled mark: the threshold above.</p>
<div class="figures two"><div>
{fields}
<p><button id="cheapest" type="button" aria-pressed="false">Move the threshold to the cheapest</button></p>
<div class="scroll" tabindex="0"><table id="costs"></table></div>
</div><div>{legend(titles)}<figure id="cost"></figure></div></div>"""


def curves(titles: Sequence[str], *, reliability: bool) -> str:
    """ROC, precision-recall, lift, calibration where scores are probabilities, and scores by class."""
    calibration = '<figure id="reliability"></figure>' if reliability else ""
    said = (
        " Calibration: in bins of equally many cases, the share of positives with its interval; on the dashed line "
        "the scores are calibrated probabilities."
        if reliability
        else ""
    )
    histograms = "".join(f'<figure id="scores-{k}"></figure>' for k in range(len(titles)))
    return f"""<h2>Curves</h2>
<p>The marks are at the threshold above. Dashed: random scores.{said}</p>
{legend(titles)}
<div class="figures two"><figure id="roc"></figure><figure id="pr"></figure>
<figure id="lift"></figure>{calibration}</div>
<h3>Highest scores</h3>
<p>Share of all positives among the cases with the highest scores; lift: how many times more than in as many cases
picked at random.</p>
<div class="scroll" tabindex="0"><table id="top"></table></div>
<h3>Scores by class</h3>
<p>Each class as shares of its own; the line is the threshold.</p>
<ul class="legend"><li><span class="box positive"></span>Positive class</li>
<li><span class="box negative"></span>Negative class</li></ul>
<div class="figures two">{histograms}</div>"""


def groups(columns: Mapping[str, Sequence[str]], level: float, *, weighted: bool) -> str:
    """Rates by group at the threshold."""
    if not columns:
        return ""
    said = (
        "At the threshold above. With weights there are no exact intervals."
        if weighted
        else f"At the threshold above; in brackets exact {100 * level:g} % intervals (Clopper-Pearson), each by itself."
    )
    if sum(len(values) for values in columns.values()) > MOST_GROUPS:
        said += " Only the largest groups are shown."
    return f"""<h2>Groups</h2>
<p>{said}</p>
<p><label>Column <select id="column"></select></label></p>
<div class="scroll" tabindex="0"><table id="groups"></table></div>"""


def downloads() -> str:
    """Buttons that save numbers as CSV."""
    return """<h2>Numbers as CSV</h2>
<p class="buttons"><button id="save-thresholds" type="button">Counts by threshold</button>
<button id="save-here" type="button">This threshold, with groups</button>
<button id="save-measures" type="button">Measures</button></p>"""


def usage(ways: Mapping[str, str]) -> str:
    """How to use the model: a title and a text to copy for each way."""
    if not ways:
        return ""
    items = "\n".join(
        f'<h3>{escaped(title)}</h3>\n<pre tabindex="0">{escaped(text)}</pre>' for title, text in ways.items()
    )
    return f"<h2>How to use the model</h2>\n{items}"


def fate(columns: Mapping[str, str]) -> str:
    """What became of every column of the table, folded."""
    if not columns:
        return ""
    rows = [f"<tr>{text_cell(shown_name(name))}{text_cell(text)}</tr>" for name, text in columns.items()]
    made = table([("Column", True), ("What became of it", True)], rows, name="columns")
    return folded(f"What became of every column ({len(columns)})", made)


def plain(found: PlainTable) -> str:
    """A table of texts and numbers under its title."""
    heads = [(head, k in found.texts) for k, head in enumerate(found.heads)]
    rows = [
        "<tr>"
        + "".join(text_cell(cell) if k in found.texts else f"<td>{escaped(cell)}</td>" for k, cell in enumerate(row))
        + "</tr>"
        for row in found.rows
    ]
    made = table(heads, rows, caption=escaped(found.caption), name=found.name)
    return f"<h2>{escaped(found.title)}</h2>\n{made}"


def settings(values: Mapping[str, object], facts: Mapping[str, object]) -> str:
    """Settings and facts, folded."""
    named = (("Settings", "settings", values), ("Facts", "facts", facts))
    return "\n".join(folded(title, pairs(found), name=name) for title, name, found in named if found)
