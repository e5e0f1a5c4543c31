"""The grammar of measures' names: ``"fbeta(2)"``, ``"iou[macro]"``, ``"auc_mu"``, ``"precision@recall>=0.9"``.

A name is a word, numbers in parentheses, options in brackets, and for an operating point a level after ``@``. The
metrics (:mod:`setwise.metrics.names`) and the losses (:mod:`setwise.measures.registry`) read the same parts from here
and look them up in tables of their own. Scikit-learn's and other common names are rewritten into short forms first:
``roc_auc_score`` is ``auc``, ``f1_macro`` is ``f1[macro]``, ``sensitivity@specificity>=0.9`` is ``tpr@fpr<=0.1``. A
misspelt name is answered with the nearest known one.

>>> parse_name("tversky(0.3,0.7)[macro]")
MeasureName(text='tversky(0.3,0.7)[macro]', kind='tversky', numbers=(0.3, 0.7), words=('macro',))
>>> parse_name("sensitivity@fpr<=0.1")
MeasureName(text='tpr@fpr<=0.1', kind='tpr@fpr', numbers=(0.1,), words=())
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from setwise._checks import InputError
from setwise.metrics.averaging import AVERAGES, COUNTINGS

T = TypeVar("T")

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
"""A plain decimal number, as a regular expression."""

COUNT_WORDS = {word: ("average", word) for word in AVERAGES} | {word: ("counting", word) for word in COUNTINGS}
"""Words in brackets after a measure of counts, and the option that each sets to what."""

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

# A measure, the rate that it is taken at, and on which side of the level that rate is held.
_POINTS = frozenset(
    {
        ("precision", "recall", ">="),
        ("recall", "precision", ">="),
        ("tpr", "fpr", "<="),
        ("fpr", "tpr", ">="),
        ("precision", "k", "="),
    }
)
_SYNONYMS = {"auroc": "auc", "average_precision": "ap", "iou": "jaccard", "partial_auroc": "pauc"}
_RATES = {"ppv": "precision", "sensitivity": "recall", "tpr": "recall", "tnr": "specificity"}
_AVERAGED = re.compile(r"(.+?)_(micro|macro|weighted)")  # scikit-learn's scorers: f1_macro
_NAMES = (
    *("auc", "auroc", "auc_ova", "auc_mu", "pauc@fpr<=0.1", "ap", "average_precision", "f1", "f2", "fbeta(2)", "dice"),
    *("jaccard", "iou", "tversky(0.3,0.7)", "accuracy", "precision", "recall", "specificity", "balanced_accuracy"),
    *("mcc", "g_mean", "kappa"),
    *ALIASES,
)
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


class MeasureName(NamedTuple):
    """A measure's name, parsed.

    Attributes:
        text: The name in its short form, ``"f1[macro]"`` for ``"f1_macro"``.
        kind: The measure: ``"auc"``, ``"auc_ova"``, ``"auc_mu"``, ``"pauc"``, ``"ap"``, ``"fbeta"``, ...,
            ``"precision@recall"``.
        numbers: Its parameters; the level of an operating point, an integer for a k that is a count; the highest FPR
            and the lowest TPR of a partial area.
        words: Options as they stand in brackets.
    """

    text: str
    kind: str
    numbers: tuple[float, ...]
    words: tuple[str, ...]


def find_by_name(argument: str, name: object, read: Callable[[MeasureName], T | None], expected: str) -> T:
    """What a table holds for a name; case and blanks do not matter.

    Args:
        argument: What the caller's argument is called, for the message about its type.
        name: The name as the user wrote it.
        read: Looks a parsed name up; None where it is not known.
        expected: How the message about an unknown name begins.

    Raises:
        InputError: For a name that is not known, with the nearest one that is.
    """

    def known(text: str) -> T | None:
        parsed = parse_name(text)
        return None if parsed is None else read(parsed)

    text = plain_text(argument, name)
    result = known(text)
    if result is None:
        raise InputError(f"{_did_you_mean(text, known)}{expected}, but got {name!r}.")
    return result


def plain_text(argument: str, value: object) -> str:
    """The text in lower case without blanks; refuses anything but a string."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `{argument}` to be a string, but got {type(value).__name__}.")
    return re.sub(r"\s+", "", value).lower()


def parse_name(text: str) -> MeasureName | None:
    """The parts of a name, or None where it has no form that is known.

    Args:
        text: Lower case without blanks.
    """
    text = short_form(text)
    if "@" in text:
        return _parse_point(text)
    form = read_form(text)
    if form is None:
        return None
    kind, words = _SYNONYMS.get(form.kind, form.kind), form.words
    if kind == "auc" and words:  # auc[mu] is auc_mu
        kind, words = f"auc_{words[0]}", words[1:]
    if kind == "pauc":
        return None if words or len(form.numbers) != 1 else MeasureName(text, kind, (*form.numbers, 0.0), ())
    return MeasureName(text, kind, form.numbers, words)


def _parse_point(text: str) -> MeasureName | None:
    """An operating point such as ``"precision@recall>=0.9"``, or a partial area such as ``"pauc@fpr<=0.1"``."""
    measure, conditions = _split_point(text)
    levels = {(rate, sign): number for rate, sign, number in conditions}
    if len(levels) < max(len(conditions), 1):  # a rate held twice
        return None
    if _SYNONYMS.get(measure, measure) == "pauc" and levels.keys() <= {("fpr", "<="), ("tpr", ">=")}:
        bounds = read_number(levels.get(("fpr", "<="), "1")), read_number(levels.get(("tpr", ">="), "0"))
        return MeasureName(text, "pauc", bounds, ())
    if len(levels) != 1:
        return None
    ((rate, sign), number) = levels.popitem()
    if (measure, rate, sign) not in _POINTS:
        return None
    count = rate == "k" and re.fullmatch(r"\+?\d+", number)  # 100 is a count, 0.1 a share
    return MeasureName(text, f"{measure}@{rate}", (int(number) if count else read_number(number),), ())


def _split_point(text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The measure before ``@`` and (rate, sign, number) of every condition after it; no conditions if one is none."""
    measure, _, conditions = text.partition("@")
    parts = [re.fullmatch(rf"(\w+)(>=|<=|=)({NUMBER})", part) for part in conditions.split(",")]
    return measure, [(part[1], part[2], part[3]) for part in parts if part] if all(parts) else []


def read_form(text: str) -> MeasureName | None:
    """A name with numbers and words as they stand; ``"f2"`` is read as ``"fbeta(2)"``. None if it is no such form."""
    match = re.fullmatch(r"([a-z_][\w.]*)(?:\(([^()]+)\))?(?:\[([^\[\]]+)\])?", text)
    if match is None:
        return None
    name, inside, words = match[1], match[2], tuple(match[3].split(",")) if match[3] else ()
    numbers = inside.split(",") if inside else []
    if not all(re.fullmatch(NUMBER, number) for number in numbers):
        return None
    if not numbers and (short := re.fullmatch(r"f(\d+\.?\d*|\.\d+)", name)) and name != "f1":
        name, numbers = "fbeta", [short[1]]
    return MeasureName(text, name, tuple(map(read_number, numbers)), words)


def read_number(text: str) -> float:
    """The number that a text of the form :data:`NUMBER` stands for; refuses what is beyond the largest float."""
    number = float(text)
    if not math.isfinite(number):
        raise InputError(f"Expected numbers in a name to be finite, but {text} is not.")
    return number


def read_words(words: Sequence[str], known: Mapping[str, tuple[str, str]]) -> dict[str, str] | None:
    """The options that words in brackets set; None if a word is unknown, or two set the same option."""
    options = dict(known[word] for word in words if word in known)
    return options if len(options) == len(words) else None


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
    measure, conditions = _split_point(text)
    if not conditions:
        return text
    levels = [_as_fpr(_RATES.get(rate, rate), sign, number) for rate, sign, number in conditions]
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


def _did_you_mean(text: str, known: Callable[[str], object]) -> str:
    """``"Did you mean 'precision'? "``, to begin a message with; empty where no known name is near.

    Args:
        text: Lower case without blanks.
        known: Reads a name; None or an :class:`InputError` where it cannot be read.
    """
    point = "@" in text or "_at_" in text
    for guess in _points_near(text.replace("_at_", "@")) if point else _plain_near(text):
        try:
            if known(guess) is not None:
                return f"Did you mean {guess!r}? "
        except InputError:  # a level out of range
            continue
    return ""


def _plain_near(text: str) -> Iterator[str]:
    """Guesses for a name without ``@``, best first: the nearest word with the numbers and the words in brackets."""
    match = re.fullmatch(r"([^(\[]*)(\([^()]*\)?)?(\[[^\[\]]*\]?)?", text)
    word, numbers, brackets = (match[1], match[2] or "", match[3] or "") if match else (text, "", "")
    if word in _MEANT:
        yield _MEANT[word]
    base, _, last = word.rpartition("_")
    if base and not brackets and (average := next(_near(last, ("micro", "macro", "weighted")), None)):
        yield from (f"{near}[{average}]" for near in _near(base, _NAMES))  # f1_maco
    near_words = [next(_near(given, _WORDS), given) for given in brackets.strip("[]").split(",")] if brackets else []
    brackets = f"[{','.join(near_words)}]" if near_words else ""
    for given in (word, re.sub(r"[_-]?(loss|score|metric)$", "", word)):
        for candidate in _near(given, _NAMES):
            near = re.split(r"[(\[@]", candidate)[0]
            yield from (f"{near}{numbers}{brackets}", f"{near}{numbers}", f"{near}{brackets}", candidate, near)


def _points_near(text: str) -> Iterator[str]:
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
    yield from _near(given, _NAMES)


def _near(word: str, names: Iterable[str]) -> Iterator[str]:
    """Names within two fifths of their letters, nearest first; an abbreviation counts as near."""
    scored = {(_difference(_plain(word), _plain(name)), name) for name in names}
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
