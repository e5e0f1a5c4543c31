from __future__ import annotations

import html.parser
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise.metrics import Interval, confusion_counts, roc_curve
from setwise.report import ConstraintRow, Method, Report, Row, Training, interval_text, render, verdict, write_report
from setwise.report import page as page_module
from setwise.report.data import comparison_data
from setwise.report.stops import PROBABILITIES, probability_thresholds, share_positions

METHODS = Method("cross_entropy", "Cross-entropy"), Method("auc", "AUROC loss")


def interval(mean: float, low: float, high: float) -> Interval:
    return Interval(mean, low, high, 0.95)


def row(low: float, high: float, key: str = "auroc", title: str = "AUROC") -> Row:
    return Row(key, title, interval(0.8, 0.7, 0.9), interval(0.85, 0.8, 0.9), interval((low + high) / 2, low, high))


def training(method: str, seed: int, *, epochs: int = 3, threshold: float = 0.5) -> Training:
    generator = np.random.default_rng(seed)
    labels = (np.arange(60) % 6 == 0).astype(np.int8)
    scores = (generator.normal(size=60) + 2 * labels).astype(np.float32)
    curve = np.linspace(0.6, 0.9, epochs).tolist()
    history = {"measure": curve, "surrogate": [1 - v + 0.2 for v in curve], "gap": [0.2] * epochs}
    return Training(method, seed, scores, labels, threshold, history, groups={"sex": np.arange(60) % 2})


def report(**changes: object) -> Report:
    values: dict[str, object] = {
        "title": "A title",
        "measure": "auroc",
        "methods": METHODS,
        "rows": [row(0.01, 0.05), row(-0.1, 0.2, "f1", "F1")],
        "trainings": [training(m.key, s, epochs=3 + s) for m in METHODS for s in (0, 1)],
        "settings": {"epochs": 3, "learning_rate": 0.003, "target": None, "loss_options": {"margin": 1.0}},
        "procedure": ["On the same sets."],
        "facts": {"torch": "2.x"},
        "groups": {"sex": ("Female", "Male")},
    }
    return Report(**(values | changes))  # type: ignore[arg-type]


class Structure(html.parser.HTMLParser):
    """Collects what a browser would see: tags, attributes, text outside of style."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are nested"

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)


def parse(page: str) -> Structure:
    structure = Structure()
    structure.feed(page)
    structure.close()
    assert structure.open == []
    return structure


@pytest.fixture(scope="module")
def page() -> str:
    return render(report())


def embedded(page: str) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_page_is_well_formed_and_holds_every_part(page: str) -> None:
    structure = parse(page)
    text = " ".join(structure.text)
    for part in ("A title", "0.850", "[0.800, 0.900]", "+0.030", "F1", "On the same sets.", "learning rate", "torch"):
        assert part in text
    assert "margin = 1" in text
    identifiers = [value for name, value in structure.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    script = page[page.index("<script>") :]
    asked = set(re.findall(r'(?:byId|listen)\("([a-z-]+)"', script))
    absent = {"reliability"}  # these scores are no probabilities
    assert asked - absent <= set(identifiers)
    assert {"roc", "pr", "lift", "cost", "history-gap", "scores-1", "tp-0", "tn-1"} <= set(identifiers)


def test_page_needs_nothing_from_outside(page: str) -> None:
    structure = parse(page)
    assert {"img", "iframe", "object"}.isdisjoint(structure.tags)
    for name, value in structure.attributes:
        if name in ("href", "src", "xlink:href", "style"):
            assert "//" not in value
    assert not re.search(r"@import|url\(", page)
    assert re.findall(r"https?://[^\"' ]+", page) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert "default-src 'none'" in page
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket|innerHTML", page)


def test_both_colour_schemes_define_the_same_colours(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    style = page[page.index("<style>") : page.index("</style>")]
    for variable in set(re.findall(r"var\((--[a-z-]+)\)", style)):
        assert style.count(f"{variable}:") == 3, "light, dark by the system, dark by the button"


def running(rows: dict[str, Any]) -> tuple[list[float], list[float]]:
    """True and false positives at each stop, from the increments."""
    return np.cumsum(rows["tp"]).tolist(), np.cumsum(rows["fp"]).tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_the_metrics_at_every_stop(weighted: bool) -> None:
    one = training("auc", 3, threshold=0.7)
    weights = np.random.default_rng(0).integers(0, 4, 60) / 4 if weighted else None
    one = replace(one, weights=weights, scores=np.round(one.scores, 1))  # ties, some of them at a position
    made = comparison_data(report(trainings=[replace(one, method=m.key) for m in METHODS]))["sets"][1]
    tp, fp = running(made["all"])
    grouped = [running(rows) for rows in made["groups"][0]]
    for stop, text in enumerate(made["thresholds"]):
        threshold = float(text)
        counts = confusion_counts(one.scores, one.labels, threshold=threshold, weight=weights)
        assert (tp[stop], fp[stop]) == pytest.approx((counts.tp, counts.fp), abs=1e-6)
        assert made["all"]["positives"] == pytest.approx(counts.tp + counts.fn)
        assert made["all"]["negatives"] == pytest.approx(counts.fp + counts.tn)
        for group, (own_tp, own_fp) in enumerate(grouped):
            of = one.groups["sex"] == group
            own = confusion_counts(
                one.scores[of], one.labels[of], threshold=threshold, weight=None if weights is None else weights[of]
            )
            assert (own_tp[stop], own_fp[stop]) == pytest.approx((own.tp, own.fp), abs=1e-6)
    assert made["thresholds"][made["chosen"]] == 0.7


def test_the_sliders_reach_from_all_to_nothing() -> None:
    thresholds = probability_thresholds("logit")
    assert (thresholds[0], thresholds[100], thresholds[-1]) == (-math.inf, 0.0, math.inf)
    made = comparison_data(report())["sets"][0]
    tp, fp = running(made["all"])
    for positions in (made["grid"], made["shares"]):
        first, last = positions[0], positions[-1]
        assert (tp[first], fp[first], tp[last], fp[last]) == (10, 50, 0, 0)
    assert [float(made["thresholds"][stop]) for stop in made["grid"]] == thresholds.tolist()
    assert len(made["grid"]) == PROBABILITIES
    assert len(made["shares"]) == len(share_positions(60))


def test_curves_through_the_stops_keep_their_ends_and_area() -> None:
    generator = np.random.default_rng(0)
    labels = (np.arange(5000) % 9 == 0).astype(np.int8)
    scores = (generator.normal(size=5000) + labels).astype(np.float32)
    long = [Training(m.key, 0, scores, labels, 0.0, {}, groups={"sex": labels * 0}) for m in METHODS]
    made = comparison_data(report(trainings=long))["sets"][0]
    tp, fp = running(made["all"])
    assert len(tp) < 1000
    y, x = np.array(tp) / tp[-1], np.array(fp) / fp[-1]
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    full = roc_curve(scores, labels)
    assert np.trapezoid(y, x) == pytest.approx(float(np.trapezoid(full.tpr, full.fpr)), abs=2e-3)
    assert made["groups"][0][1]["positives"] == 0  # a group of the validation set that the test set lacks


def test_constraints_have_a_table() -> None:
    made = ConstraintRow("recall[sex=<F>]>=0.8", (interval(0.7, 0.6, 0.8), interval(0.8, 0.7, 0.9)), (1, 2), 2, (0, 1))
    assert made.said(0) == "met in 1 of 2 test sets (certain in 0)"
    text = " ".join(parse(render(report(constraints=[made]))).text)
    assert "recall[sex=<F>]>=0.8" in text
    assert "1 of 2" in text
    assert "2 of 2" in text
    assert "Constraints" not in " ".join(parse(render(report())).text)


def test_everything_given_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\"$x^2"
    methods = Method("cross_entropy", evil), Method("auc", evil)
    made = report(
        title=evil,
        methods=methods,
        settings={evil: {evil: evil}},
        procedure=[evil],
        facts={evil: evil},
        rows=[row(0.1, 0.2, title=evil)],
    )
    page = render(made)
    structure = parse(page)
    assert structure.tags.count("script") == 2
    assert evil in structure.text  # and reads as it was given
    assert embedded(page)["columns"] == [evil, evil]


def test_write_report_replaces_the_file(tmp_path: Path, page: str) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    assert write_report(report(), path) == path
    assert path.read_text(encoding="utf-8") == page  # rendering is repeatable, too
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_one_seed_one_epoch_and_no_finite_threshold_still_make_a_page() -> None:
    unknown = interval(0.8, -math.inf, math.inf)
    single = Row("auroc", "AUROC", unknown, unknown, unknown)
    trainings = [training(m.key, 0, epochs=1, threshold=math.inf) for m in METHODS]
    text = " ".join(parse(render(report(rows=[single], trainings=trainings))).text)
    assert "one seed, so no intervals" in text
    assert "too few for a verdict" in text
    assert "inf" not in text


def test_figures_of_the_training_are_those_of_what_was_recorded() -> None:
    def figures(history: dict[str, list[float]]) -> list[str]:
        trainings = [replace(each, history=history) for each in report().trainings]
        return re.findall(r'<figure id="history-(\w+)">', render(report(trainings=trainings)))

    assert figures({"measure": [0.5], "surrogate": [1.0], "gap": [0.5]}) == ["measure", "surrogate", "gap"]
    assert figures({"measure": [0.5], "violation": [0.1]}) == ["measure", "violation"]
    assert figures({}) == []


def test_the_seed_of_the_stored_model_is_shown_first() -> None:
    assert comparison_data(report())["shown"] == 0
    assert comparison_data(report(shown_seed=1))["shown"] == 1


@pytest.mark.parametrize(
    ("low", "high", "kind", "word"),
    [
        (0.01, 0.05, "better", "significantly better"),
        (-0.05, -0.01, "worse", "significantly worse"),
        (-0.01, 0.05, "same", "no significant difference"),
    ],
)
def test_verdict_needs_the_whole_interval_on_one_side(low: float, high: float, kind: str, word: str) -> None:
    found, sentence = verdict(row(low, high), METHODS, 3)
    assert found == kind
    assert word in sentence
    assert "cross-entropy" in sentence
    assert "AUROC loss" in sentence
    assert f"95 % interval {low:+.3f} to {high:+.3f}; it covers seeds)." in sentence
    assert f'class="verdict {kind}"' in page_module._verdict(report(rows=[row(low, high)]))


def test_the_certificate_stands_under_the_verdict() -> None:
    line = "recall[sex=<F>] >= 0.9 holds with 95 % confidence."
    text = page_module._verdict(report(certificate=[line]))
    assert text.endswith("<p>recall[sex=&lt;F&gt;] &gt;= 0.9 holds with 95 % confidence.</p>")
    assert page_module._verdict(report()).count("<p") == 1


def test_the_trained_measure_is_the_one_marked_and_compared() -> None:
    made = report(measure="f1", rows=[row(0.01, 0.05), row(-0.2, -0.1, "f1", "F1")])
    assert 'class="verdict worse"' in page_module._verdict(made)
    table = page_module._table(made)
    assert re.search('<tr class="trained"><td[^>]*><span[^>]*>F1<', table)
    assert re.search("<tr><td[^>]*><span[^>]*>AUROC<", table)


def test_interval_text() -> None:
    assert interval_text(interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert interval_text(interval(0.5, -0.25, 0.75), signed=True, digits=2) == "+0.50 [-0.25, +0.75]"
    assert interval_text(interval(-0.0001, -0.0002, 0.0), signed=True) == "+0.000 [+0.000, +0.000]"
    assert interval_text(interval(0.5, -math.inf, math.inf)) == "0.500"
    assert interval_text(interval(math.nan, math.nan, math.nan)) == "n/a"
