"""Parts of an evaluation's page: the answer to what was asked, constraints, measures, and comparisons in pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from setwise.metrics import Interval
from setwise.report.text import NAME_LENGTH, capital, escaped, folded, interval_cell, shown_name, table, text_cell

if TYPE_CHECKING:
    from setwise.report.evaluation import ConstraintCheck, Evaluation, PairedRow

HOLDS = {True: "holds", False: "violated", None: "not certain"}


def headline(evaluation: Evaluation, said: Sequence[str] = ()) -> str:
    """What was asked, answered; the colour says whether all that was asked for holds.

    Args:
        evaluation: The evaluation.
        said: Sentences in place of its own.
    """
    checks = [*evaluation.columns[0].decision.checks, *evaluation.requirements]
    kind = "same"
    if checks:
        holds = [check.holds for check in checks]
        # One constraint that fails decides; one that is not certain leaves the answer open.
        kind = "better" if all(holds) else "worse" if any(each is False for each in holds) else "unknown"
    text = "\n".join(said or evaluation.headline)
    # All names from outside that sentences may hold.
    names = [column.name for column in evaluation.columns]
    for name in names + [each for group in evaluation.groups for each in (group.name, *group.values)]:
        # In the sentence a name stands in full; the page shows names of any length cut alike.
        if len(name) > NAME_LENGTH:
            text = text.replace(name, shown_name(name))
    sentences = "".join(f"<p>{escaped(sentence)}</p>" for sentence in text.splitlines())
    return f'<div class="verdict {kind}">{sentences}</div>'


def constraints(evaluation: Evaluation) -> str:
    """Each constraint with its bound, by score column; those of groups are folded where all of them hold."""
    several = len(evaluation.columns) > 1
    checks = [
        (check, shown_name(column.name) if several else "")
        for column in evaluation.columns
        for check in column.decision.checks
    ] + [(check, "required") for check in evaluation.requirements]
    # Many groups would bury the constraints that were asked for.
    overall, grouped = ([each for each in checks if (each[0].group is not None) == where] for where in (False, True))
    if not checks:
        return ""
    bound = f"{100 * evaluation.confidence:g} % bound"
    heads = [("Constraint", True), ("Rate", False), (bound, False), ("Verdict", True)]
    found = "<h2>Constraints</h2>\n" + table(
        heads,
        [_check(*each) for each in overall],
        caption="At the chosen threshold. The bound is one-sided: a lower one for a floor, an upper one for a ceiling. "
        "A constraint holds where the bound meets it.",
        name="constraints",
    )
    if grouped:
        found += "\n" + folded(
            f"In each group ({len(grouped)})",
            table(heads, [_check(*each) for each in grouped], name="group-constraints"),
            opened=not all(check.holds for check, _ in grouped),
        )
    return found


def threshold_text(evaluation: Evaluation) -> str:
    """What a threshold is here, and which one is shown first."""
    decision = evaluation.columns[0].decision
    how = {
        "certified": "the certified one",
        "not certified": "the chosen one, which is not certified",
        "chosen": f"the one that maximizes {decision.maximize}",
        "given": "the one that was given",
    }[decision.how]
    return (
        f"A case is predicted positive ({shown_name(evaluation.positive)}) where its score reaches the threshold. "
        f"Move it and see what changes; at first it is {how}."
    )


def measures(evaluation: Evaluation) -> str:
    """All measures with intervals, by score column."""
    found = [{row.key: row for row in column.measures} for column in evaluation.columns]
    keys = {row.key: row.title for column in evaluation.columns for row in column.measures}
    rows = []
    for key, title in keys.items():
        cells = "".join(f"<td>{interval_cell(each[key].interval) if key in each else ''}</td>" for each in found)
        mark = ' class="trained"' if key == evaluation.measure else ""
        rows.append(f"<tr{mark}>{text_cell(capital(title))}{cells}</tr>")
    return "<h2>Measures</h2>\n" + table(
        [("Measure", True), *((shown_name(column.name), False) for column in evaluation.columns)],
        rows,
        caption=f"In brackets {100 * evaluation.confidence:g} % intervals over the sampling of rows. Measures at a "
        "threshold are taken at the chosen one. Bold: the measure asked for.",
        name="measures",
    )


def comparisons(evaluation: Evaluation) -> str:
    """Score columns on the same rows, in pairs."""
    if not evaluation.comparisons:
        return ""
    tables = []
    for (first, second), rows in groupby(evaluation.comparisons, attrgetter("first", "second")):
        heads = [("Measure", True), ("Difference", False), ("", True)]
        made = table(heads, map(_difference, rows), style="comparison")
        tables.append(f"<h3>{escaped(shown_name(first))} minus {escaped(shown_name(second))}</h3>\n{made}")
    return (
        "<h2>Score columns compared</h2>\n"
        f"<p>On the same rows, each with its own threshold. In brackets {100 * evaluation.confidence:g} % intervals of "
        "the paired difference, which cover the sampling of rows, each by itself.</p>\n" + "\n".join(tables)
    )


def _difference(row: PairedRow) -> str:
    found = row.comparison
    # A difference is shown like a value, with its sign.
    interval = Interval(found.difference, found.low, found.high, found.level)
    verdict = "higher" if found.low > 0 else "lower" if found.high < 0 else "not significant"
    return (
        f"<tr>{text_cell(capital(row.title))}<td>{interval_cell(interval, signed=True)}</td>{text_cell(verdict)}</tr>"
    )


def _check(check: ConstraintCheck, of: str) -> str:
    group = "" if check.group is None else f"{shown_name(check.column)} = {shown_name(check.group)}"
    where = ", ".join(filter(None, (of, group)))
    estimate, bound = (f"{value:.3f}" if math.isfinite(value) else "–" for value in (check.estimate, check.bound))
    kind = "holds" if check.holds else "open"
    reason = f"<small>{escaped(check.reason)}</small>" if check.reason else ""
    return (
        f'<tr><td class="text">{escaped(check.constraint)}<small>{escaped(where)}</small></td><td>{estimate}</td>'
        f'<td>{bound}</td><td class="text {kind}">{HOLDS[check.holds]}{reason}</td></tr>'
    )
