"""Spellings of measures: scikit-learn's and other common names, and the nearest known name of a misspelt one.

Names are rewritten into the short forms of :mod:`setwise.metrics.names` before they are read: ``roc_auc_score`` is
``auc``, ``f1_macro`` is ``f1[macro]``, ``sensitivity@specificity>=0.9`` is ``tpr@fpr<=0.1``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from setwise._checks import InputError

ALIASES = {
    **dict.fromkeys(("roc_auc", "roc_auc_score", "auc_roc", "auroc_score"), "auc"),
    **dict.fromkeys(("roc_auc_ovr", "auc_ovr", "auroc_ovr", "ovr"), "auc_ova"),
    **dict.fromkeys(("average_precision_score", "auprc", "pr_auc", "auc_pr", "aucpr", "prauc"), "ap"),
    "partial_auc": "pauc",
    **dict.fromkeys(("f1_score", "f_score", "f_measure"), "f1"),
    "fbeta_score": "fbeta",
    **dict.fromkeys(("dice_score", "dice_coefficient"), "dice"),
    **dict.fromkeys(("jaccard_score", "jaccard_index", "iou_score"), "jaccard"),
    **dict.fromkeys(("miou", "mean_iou"), "jaccard[macro]"),
    **dict.fromkeys(("accuracy_score", "acc"), "accuracy"),
    **dict.fromkeys(("balanced_accuracy_score", "bal_acc", "bacc"), "balanced_accuracy"),
    **dict.fromkeys(("matthews_corrcoef", "matthews", "matthews_correlation"), "mcc"),
    **dict.fromkeys(("cohen_kappa", "cohen_kappa_score"), "kappa"),
    **dict.fromkeys(("gmean", "geometric_mean", "geometric_mean_score"), "g_mean"),
    **dict.fromkeys(("precision_score", "ppv", "positive_predictive_value"), "precision"),
    **dict.fromkeys(("recall_score", "sensitivity", "sensitivity_score", "tpr", "true_positive_rate"), "recall"),
    **dict.fromkeys(("specificity_score", "tnr", "true_negative_rate"), "specificity"),
}
"""Other names of a measure, and the one they are read as."""

_RATES = {"ppv": "precision", "sensitivity": "recall", "tpr": "recall", "tnr": "specificity"}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_AVERAGED = re.compile(r"(.+?)_(micro|macro|weighted)")  # scikit-learn's scorers: f1_macro
_USUAL = {
    "precision": "precision@recall>=0.9",
    "recall": "recall@precision>=0.8",
    "fpr": "fpr@tpr>=0.95",
    "pauc": "pauc@fpr<=0.1",
}
_MEANT = {  # what is near by meaning, not by letters
    "fpr": "fpr@tpr>=0.95",
    **dict.fromkeys(("auc_micro", "auc_macro", "roc_auc_macro", "roc_auc_micro"), "auc_ova"),
    **dict.fromkeys(("auc_ovo", "auroc_ovo", "roc_auc_ovo", "roc_auc_ovo_weighted"), "auc_mu"),
}
_LETTERS = {"p": "precision", "r": "recall"}
_WORDS = ("micro", "macro", "weighted", "none", "binary", "batch", "image", "ova", "ovr", "mu", "pair", "sum", "raw")
_SIGNS = {"precision": ">=", "recall": ">=", "tpr": ">=", "specificity": ">=", "sensitivity": ">=", "fpr": "<="}
_SIGNS |= {"ppv": ">=", "tnr": ">=", "k": "="}


def short_form(text: str) -> str:
    """The name in the form that the readers of names know; what is not known stays as it is.

    Args:
        text: Lower case without blanks.
    """
    if "@" in text:
        return _short_point(text)
    match = re.fullmatch(r"([a-z_]\w*)((?:\([^()]*\))?)((?:\[[^\[\]]*\])?)", text)
    if match is None:
        return text
    name, numbers, words = match[1], match[2], match[3]
    weighted = re.fullmatch(r"(?:roc_)?auc_ov[ra]_weighted", name)
    if weighted and not words:
        name, words = "auc_ova", "[weighted]"
    elif (averaged := _AVERAGED.fullmatch(name)) and not words:
        name, words = averaged[1], f"[{averaged[2]}]"
    words = re.sub(r"(?<=[\[,])ovr(?=[\],])", "ova", words)
    name = ALIASES.get(name, name)
    return text if "[" in name and words else f"{name}{numbers}{words}"


def _short_point(text: str) -> str:
    """``recall@fpr<=0.01`` as ``tpr@fpr<=0.01``: recall is called TPR beside the FPR, and recall beside precision."""
    measure, _, conditions = text.partition("@")
    parts = [re.fullmatch(rf"(\w+)(>=|<=|=)({_NUMBER})", part) for part in conditions.split(",")]
    found = [(part[1], part[2], part[3]) for part in parts if part]
    if len(found) < len(parts):
        return text
    levels = [_as_fpr(_RATES.get(rate, rate), sign, number) for rate, sign, number in found]
    measure = _RATES.get(measure, measure)
    rates = {rate for rate, _, _ in levels}
    if measure in ("pauc", "partial_auroc", "partial_auc") or "fpr" in rates or measure == "fpr":
        measure = {"recall": "tpr", "partial_auc": "pauc"}.get(measure, measure)
        levels = [("tpr" if rate == "recall" else rate, sign, number) for rate, sign, number in levels]
    return f"{measure}@{','.join(''.join(level) for level in levels)}"


def _as_fpr(rate: str, sign: str, number: str) -> tuple[str, str, str]:
    """Specificity at least s is an FPR of at most 1 - s."""
    if (rate, sign) != ("specificity", ">="):
        return rate, sign, number
    return "fpr", "<=", f"{1 - float(number):.12g}"


def did_you_mean(text: str, names: Iterable[str], known: Callable[[str], object]) -> str:
    """``"Did you mean 'precision'? "``, to begin a message with; empty where no known name is near.

    Args:
        text: Lower case without blanks.
        names: Names to look among.
        known: Reads a name; None or an :class:`InputError` where it cannot be read.
    """
    point = "@" in text or "_at_" in text
    guesses = _points_near(text.replace("_at_", "@"), names) if point else _plain_near(text, names)
    for guess in guesses:
        try:
            if known(short_form(guess)) is not None:
                return f"Did you mean {guess!r}? "
        except InputError:  # a level out of range
            continue
    return ""


def _plain_near(text: str, names: Iterable[str]) -> Iterator[str]:
    """Guesses for a name without ``@``, best first: the nearest word with the numbers and the words in brackets."""
    match = re.fullmatch(r"([^(\[]*)(\([^()]*\)?)?(\[[^\[\]]*\]?)?", text)
    word, numbers, brackets = (match[1], match[2] or "", match[3] or "") if match else (text, "", "")
    if word in _MEANT:
        yield _MEANT[word]
    base, _, last = word.rpartition("_")
    if base and not brackets and (average := next(_near(last, ("micro", "macro", "weighted")), None)):
        yield from (f"{near}[{average}]" for near in _near(base, {*names, *ALIASES}))  # f1_maco
    near_words = [next(_near(given, _WORDS), given) for given in brackets.strip("[]").split(",")] if brackets else []
    brackets = f"[{','.join(near_words)}]" if near_words else ""
    for given in (word, re.sub(r"[_-]?(loss|score|metric)$", "", word)):
        for candidate in _near(given, {*names, *ALIASES}):
            near = re.split(r"[(\[@]", candidate)[0]
            yield from (f"{near}{numbers}{brackets}", f"{near}{numbers}", f"{near}{brackets}", candidate, near)


def _points_near(text: str, names: Iterable[str]) -> Iterator[str]:
    """Guesses for a name with ``@``, best first: each part corrected by itself, then the usual point of the measure."""
    given, _, condition = text.partition("@")
    found = re.match(r"([a-z_]*)[^a-z_\d.]*(\d*\.?\d*)(%?)", condition)
    rate, number, percent = (found[1], found[2], found[3]) if found else ("", "", "")
    if not number.strip("."):
        number = ""
    elif percent:
        number = f"{float(number) / 100:g}"
    for measure in _near(_LETTERS.get(given, given), {*_SIGNS, "pauc"} - {"k"}):
        for near in _near(_LETTERS.get(rate, rate), _SIGNS):
            yield f"{measure}@{near}{_SIGNS[near]}{number or {'k': '100', 'fpr': '0.05'}.get(near, '0.9')}"
        if measure in ("precision", "ppv") and re.fullmatch(r"[1-9]\d*", number):
            yield f"{measure}@k={number}"
        usual = _USUAL.get(_RATES.get(measure, measure), "")
        if number and not rate:
            yield re.sub(r"(?<==).*", number, usual)
        yield usual
    yield from _near(given, {*names, *ALIASES})


def _near(word: str, names: Iterable[str]) -> Iterator[str]:
    """Names within two fifths of their letters, nearest first; an abbreviation counts as near."""
    scored = [(_difference(_plain(word), _plain(name)), name) for name in names]
    yield from (name for score, name in sorted(scored) if score <= 0.4)


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.split(r"[(\[@]", word)[0])


def _difference(word: str, name: str) -> float:
    """Edit distance by the longer length; swapped neighbours count little, and so do letters left out at the end."""
    if not word or not name or word == name:
        return float(word != name)
    if name.startswith(word) and len(word) >= 3:
        return 0.2 + 0.1 * (1 - len(word) / len(name))
    rows = [[0.0] * (len(name) + 1) for _ in range(len(word) + 1)]
    for i in range(len(word) + 1):
        for j in range(len(name) + 1):
            if i == 0 or j == 0:
                rows[i][j] = float(i + j)
                continue
            change = 0.0 if word[i - 1] == name[j - 1] else 1.0
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change)
            if i > 1 and j > 1 and word[i - 2 : i] == name[j - 2 : j][::-1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 0.8)
    return rows[-1][-1] / max(len(word), len(name))
