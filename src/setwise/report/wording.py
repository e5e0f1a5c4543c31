"""An evaluation in words: the sentences that answer what was asked, and the table for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np

from setwise.metrics import Interval
from setwise.report.deciding import percent
from setwise.report.evaluation import ConstraintCheck, Evaluation, PairedRow, ScoreColumn
from setwise.report.measuring import title_of
from setwise.report.text import capital, text_table

_HOW = {"given": "given", "certified": "certified", "not certified": "chosen", "chosen": "chosen"}


def headline(evaluation: Evaluation) -> list[str]:
    """What was asked, answered in sentences; of the first column of scores."""
    column = evaluation.columns[0]
    sentences = [_decision(evaluation, column), _cases(evaluation, column), *_doubts(column)]
    sentences += [_ranking(column), _probabilities(column)]
    return sentences + [_comparison(list(rows)) for _, rows in groupby(evaluation.comparisons, attrgetter("second"))]


def _decision(evaluation: Evaluation, column: ScoreColumn) -> str:
    decision = column.decision
    overall = [check for check in decision.checks if check.column is None]
    asked = [f"{_name(check)} {number(check.estimate)} ({answer(check, evaluation.confidence)})" for check in overall]
    said = {_name(check) for check in overall}
    plain = [
        f"{title_of(key)} {number(decision.rate(key).estimate)}" for key in ("recall", "precision") if key not in said
    ]
    where = f"At the {_HOW[decision.how]} threshold {threshold_text(column)}"
    return f"{where}: {', '.join([*asked, *plain])}."


def _name(check: ConstraintCheck) -> str:
    return check.constraint.replace("<=", ">=").partition(">=")[0]


def answer(check: ConstraintCheck, confidence: float) -> str:
    """``asked at least 0.9: holds with 95 % confidence, lower bound 0.905``."""
    floor = ">=" in check.constraint
    level = check.constraint.partition(">=" if floor else "<=")[2]
    asked = f"asked at {'least' if floor else 'most'} {level}"
    side = f"{'lower' if floor else 'upper'} bound {number(check.bound)}"
    if check.holds:
        return f"{asked}: holds with {percent(confidence)} confidence, {side}"
    if check.holds is False:
        return f"{asked}: does not hold"
    return f"{asked}: not certain" + ("" if math.isnan(check.bound) else f", {side}")


def _cases(evaluation: Evaluation, column: ScoreColumn) -> str:
    """Say what happens to a thousand cases, or to more of them where positives are rare."""
    counts = column.decision.counts
    total, positives = sum(counts), counts.tp + counts.fn
    base = 1000.0
    # At least ten positives among the cases, so that the numbers can be pictured as whole ones.
    while base < 1e6 and base * positives / total < 10:
        base *= 10
    # Few rows are told as they are, unless weights make them stand for others.
    if evaluation.weight is None and total <= base:
        base = total
    flagged, right, missed = (base * part / total for part in (counts.tp + counts.fp, counts.tp, counts.fn))
    of = f"Of {base:,.0f} cases {flagged:,.0f} {_are(flagged)} flagged"
    return f"{of}, {right:,.0f} of them rightly; {missed:,.0f} {_are(missed)} missed."


def _are(count: float) -> str:
    return "is" if round(count) == 1 else "are"


def _doubts(column: ScoreColumn) -> list[str]:
    decision = column.decision
    found = []
    if decision.how == "not certified":
        # Of the rows that the threshold was chosen on: on others the checks are about the verification.
        bounds = decision.checks if decision.same_rows or decision.choice is None else decision.choice.bounds
        shown = "; ".join(dict.fromkeys(each.reason for each in bounds if each.reason))
        found.append(f"The threshold is not certified: {shown or 'its bounds do not hold'}.")
    elif not decision.same_rows:
        if decision.how == "certified":
            verified = all(check.holds for check in decision.checks)
            found.append(f"It is certified on the calibration rows{', and verified on these' if verified else ''}.")
        doubtful = [check for check in decision.checks if not check.holds and check.column is None and check.reason]
        found += [f"{capital(check.reason)}." for check in doubtful]
    groups = [check for check in decision.checks if check.column is not None]
    if groups:
        found.append(_groups(groups))
    if decision.same_rows:
        kept = "; the bounds allow for that, the other rates are optimistic" if decision.how == "certified" else ""
        found.append(
            "The threshold was chosen on the rows that it is evaluated on"
            f"{kept or ', so its rates are optimistic'}. Calibration rows of their own avoid it."
        )
    return found


def _groups(checks: Sequence[ConstraintCheck]) -> str:
    open_ = [check for check in checks if not check.holds]
    columns = ", ".join(dict.fromkeys(str(check.column) for check in checks))
    if not open_:
        texts = " and ".join(dict.fromkeys(check.constraint for check in checks))
        return f"{texts} holds in every group of {columns}."
    # Three are read, thirty are not; the page has them all.
    shown = [f"{check.constraint} in {check.column} = {check.group} ({number(check.estimate)})" for check in open_[:3]]
    more = f" and {len(open_) - 3} more" if len(open_) > 3 else ""
    return f"Not certain by group: {', '.join(shown)}{more}."


def _ranking(column: ScoreColumn) -> str:
    shown = [row for row in column.measures if row.key in ("auroc", "average_precision") or "@" in row.key]
    return capital(", ".join(f"{row.title} {spread(row.interval)}" for row in shown)) + "."


def _probabilities(column: ScoreColumn) -> str:
    found = column.calibration
    if found is None:
        low, high = column.scores.min(), column.scores.max()
        return f"The scores are no probabilities (they run from {low:.4g} to {high:.4g}), so calibration is left out."
    return (
        f"As probabilities: Brier score {spread(found.brier)}; the base rate alone has {number(found.base_rate_brier)}."
    )


def _comparison(rows: Sequence[PairedRow]) -> str:
    shown = [row for row in rows if row.key in ("auroc", "average_precision")]
    parts = []
    for row in shown:
        found = row.comparison
        ends = f"{found.difference:+.4f}, {percent(found.level)} interval {found.low:+.4f} to {found.high:+.4f}"
        clear = found.low > 0 or found.high < 0
        verdict = ("higher" if found.difference > 0 else "lower") if clear else "no significant difference"
        parts.append(f"{row.title} {verdict} ({ends})")
    return f"{rows[0].first} beside {rows[0].second}: {', '.join(parts)}."


def spread(value: Interval) -> str:
    """``0.912 (95 % interval 0.897 to 0.926)``."""
    if math.isnan(value.low):
        return number(value.estimate)
    return f"{number(value.estimate)} ({percent(value.level)} interval {number(value.low)} to {number(value.high)})"


def number(value: float) -> str:
    """Three decimals, or four digits where these say too little; ``undefined`` for NaN."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:.4g}"


def threshold_text(column: ScoreColumn) -> str:
    """The threshold with as many digits as it takes to decide alike on the column's scores, three decimals at least."""
    value = column.decision.threshold
    if not math.isfinite(value):
        return number(value)
    scores = column.scores.astype(np.float64)
    lowest = float(scores.min(initial=math.inf, where=scores >= value))
    below = float(scores.max(initial=-math.inf, where=scores < value))
    # A threshold that was rounded may pass another score; 17 digits tell any two floats apart.
    for digits in range(3, 18):
        text = number(value) if digits == 3 else f"{value:.{digits}g}"
        if below < float(text) <= lowest:
            return text
    return repr(value)


def table(evaluation: Evaluation) -> str:
    """The evaluation as text: headline, measures by column, comparisons, groups."""
    level = percent(evaluation.confidence)
    lines = [evaluation.title, "", *evaluation.headline, ""]
    columns = evaluation.columns
    # Columns of scores may differ in their measures: only probabilities have a Brier score.
    keys = dict.fromkeys(row.key for column in columns for row in column.measures)
    body = [[title_of(key), *(_cell(column, key) for column in columns)] for key in keys]
    body.insert(0, ["threshold", *map(threshold_text, columns)])
    lines += text_table([f"measure [{level} interval]", *(column.name for column in columns)], body)
    if evaluation.comparisons:
        pairs = [
            [row.title, f"{row.first} - {row.second}", _difference(row), f"{row.comparison.p_value:.3g}"]
            for row in evaluation.comparisons
        ]
        lines += ["", *text_table(["difference", "columns", f"[{level} interval]", "p"], pairs)]
    groups = [
        [
            f"{row.column} = {row.value}",
            *([column.name] if len(columns) > 1 else []),
            f"{row.rows:,}",
            f"{row.positives:,}",
            *(_ends(rate.interval) for rate in row.rates if rate.key in ("recall", "precision", "fpr")),
        ]
        for column in columns
        for row in column.groups
    ]
    if groups:
        heads = ["group", *(["scores"] if len(columns) > 1 else []), "rows", "positives", "recall", "precision", "fpr"]
        lines += ["", *text_table(heads, groups)]
    return "\n".join(lines)


def _cell(column: ScoreColumn, key: str) -> str:
    return next((_ends(row.interval) for row in column.measures if row.key == key), "-")


def _ends(value: Interval) -> str:
    if math.isnan(value.low):
        return number(value.estimate)
    return f"{number(value.estimate)} [{number(value.low)}, {number(value.high)}]"


def _difference(row: PairedRow) -> str:
    found = row.comparison
    return f"{found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
