"""Parts of an evaluation's page: the answer to what was asked, constraints, measures, and comparisons in pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from setwise.metrics import Interval
from setwise.report.text import escaped, interval_cell, shown_name, table, text_cell

if TYPE_CHECKING:
    from setwise.report.evaluation import ConstraintCheck, Evaluation

HOLDS = {True: "holds", False: "violated", None: "not certain"}


def headline(evaluation: Evaluation) -> str:
    """What was asked, answered; the colour says whether all that was asked for holds."""
    checks = _checks(evaluation)
    kind = "same"
    if checks:
        holds = [check.holds for check in checks]
        kind = "better" if all(holds) else "worse" if any(each is False for each in holds) else "unknown"
    sentences = "\n".join(f"<p>{escaped(sentence)}</p>" for sentence in evaluation.headline)
    return f'<div class="verdict {kind}">{sentences}</div>'


def constraints(evaluation: Evaluation) -> str:
    """Each constraint with its bound, by score column and group."""
    rows = []
    several = len(evaluation.columns) > 1
    for column in evaluation.columns:
        rows += [_check(check, shown_name(column.name) if several else "") for check in column.decision.checks]
    rows += [_check(check, "required") for check in evaluation.requirements]
    if not rows:
        return ""
    return "<h2>Constraints</h2>\n" + table(
        [
            ("Constraint", True),
            ("Rate", False),
            (f"{100 * evaluation.confidence:g} % bound", False),
            ("Verdict", True),
        ],
        rows,
        caption="At the chosen threshold. The bound is one-sided: a lower one for a floor, an upper one for a ceiling. "
        "A constraint holds where the bound meets it.",
        name="constraints",
    )


def threshold_text(evaluation: Evaluation) -> str:
    """What a threshold is here, and which one is shown first."""
    decision = evaluation.columns[0].decision
    how = {
        "certified": "the certified one",
        "not certified": "the chosen one, which is not certified",
        "chosen": f"the one that maximizes {decision.maximize}",
        "given": "the one that was given",
    }[decision.how]
    warning = " It was chosen on these very rows, so its rates are optimistic." if decision.same_rows else ""
    return (
        f"A case is predicted positive ({shown_name(evaluation.positive)}) where its score reaches the threshold. "
        f"Move it and see what changes; at first it is {how}.{warning}"
    )


def measures(evaluation: Evaluation) -> str:
    """All measures with intervals, by score column."""
    found = [{row.key: row for row in column.measures} for column in evaluation.columns]
    keys = {row.key: row.title for column in evaluation.columns for row in column.measures}
    rows = []
    for key, title in keys.items():
        cells = "".join(f"<td>{interval_cell(each[key].interval) if key in each else ''}</td>" for each in found)
        mark = ' class="trained"' if key == evaluation.measure else ""
        rows.append(f"<tr{mark}>{text_cell(title)}{cells}</tr>")
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
    rows = []
    for row in evaluation.comparisons:
        found = row.comparison
        interval = Interval(found.difference, found.low, found.high, found.level)
        verdict = "not significant"
        if math.isfinite(found.low) and (found.low > 0 or found.high < 0):
            verdict = "higher" if found.low > 0 else "lower"
        pair = f"{shown_name(row.first)} − {shown_name(row.second)}"
        rows.append(
            f"<tr>{text_cell(row.title)}{text_cell(pair)}<td>{interval_cell(interval, signed=True)}</td>"
            f"{text_cell(verdict)}</tr>"
        )
    return "<h2>Score columns compared</h2>\n" + table(
        [("Measure", True), ("Pair", True), ("Difference", False), ("The first is", True)],
        rows,
        caption=f"On the same rows; in brackets {100 * evaluation.confidence:g} % intervals of the paired difference, "
        "which cover the sampling of rows, each by itself.",
        name="comparisons",
    )


def _checks(evaluation: Evaluation) -> list[ConstraintCheck]:
    return [*evaluation.columns[0].decision.checks, *evaluation.requirements]


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
