from __future__ import annotations

import html.parser
import math
import re
from pathlib import Path

import numpy as np
import pytest

from setwise.metrics import Interval, precision, recall
from setwise.report import Method, Report, Row, Training, interval_text, render, verdict, write_report
from setwise.report import page as page_module
from setwise.report.figures import VARIABLES
from setwise.report.plots import counts_at

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
    return Training(method, seed, scores, labels, threshold, history)


def report(**changes: object) -> Report:
    values: dict[str, object] = {
        "title": "A title",
        "measure": "auroc",
        "methods": METHODS,
        "rows": [row(0.01, 0.05), row(-0.1, 0.2, "f1", "F1")],
        "trainings": [training(m.key, s, epochs=3 + s) for m in METHODS for s in (0, 1)],
        "settings": {"epochs": 3, "learning_rate": 0.003, "target": None, "loss_options": {"margin": 1.0}},
        "judged": ["On the same sets."],
        "facts": {"torch": "2.x"},
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
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are nested"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
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


def test_page_is_well_formed_and_holds_every_part(page: str) -> None:
    structure = parse(page)
    assert structure.tags.count("svg") == 7
    text = " ".join(structure.text)
    for part in ("A title", "0.850", "[0.800, 0.900]", "+0.030", "F1", "On the same sets.", "learning rate", "torch"):
        assert part in text
    assert "margin = 1" in text
    for label in ("False positive rate", "Precision", "Epoch", "Surrogate loss", "Score (logit)", "Share of the class"):
        assert label in text


def test_page_needs_nothing_from_outside(page: str) -> None:
    structure = parse(page)
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(structure.tags)
    for name, value in structure.attributes:
        if name in ("href", "src", "xlink:href", "style", "clip-path"):
            assert "//" not in value
    assert not re.search(r"@import|url\((?!#)", page)


def test_identifiers_are_unique_and_references_resolve(page: str) -> None:
    attributes = parse(page).attributes
    identifiers = [value for name, value in attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    wanted = {value.removeprefix("#") for name, value in attributes if name == "xlink:href"}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", page))
    assert wanted <= set(identifiers)


def test_figures_follow_the_colours_of_the_page(page: str) -> None:
    for stand_in, variable in VARIABLES.items():
        assert stand_in not in page
        assert f"{variable}:" in page
        assert f"var({variable})" in page
    assert "prefers-color-scheme: dark" in page


def test_everything_given_is_escaped() -> None:
    evil = "<script>alert('x')</script>&\"$x^2"
    methods = Method("cross_entropy", evil), Method("auc", evil)
    made = report(
        title=evil,
        methods=methods,
        settings={evil: {evil: evil}},
        judged=[evil],
        facts={evil: evil},
        rows=[row(0.1, 0.2, title=evil)],
    )
    structure = parse(render(made))
    assert "script" not in structure.tags
    assert evil in structure.text  # and reads as it was given


def test_write_report_replaces_the_file(tmp_path: Path, page: str) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    assert write_report(report(), path) == path
    assert path.read_text(encoding="utf-8") == page  # rendering is repeatable, too
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_one_seed_one_epoch_and_no_finite_threshold_still_make_a_page() -> None:
    single = Row("auroc", "AUROC", *(interval(0.8, -math.inf, math.inf) for _ in range(3)))
    trainings = [training(m.key, 0, epochs=1, threshold=math.inf) for m in METHODS]
    text = " ".join(parse(render(report(rows=[single], trainings=trainings))).text)
    assert "one seed, so no intervals" in text
    assert "too few for a verdict" in text
    assert "inf" not in text


def test_surrogates_that_span_decades_get_a_logarithmic_axis_without_raw_markup() -> None:
    wide = [
        Training(t.method, t.seed, t.scores, t.labels, t.threshold, {**t.history, "surrogate": [500.0, 20.0, 0.1]})
        for t in report().trainings
    ]
    page = render(report(trainings=wide))
    assert "mathdefault" not in page
    figure = page[page.index("history-surrogate") :]
    assert ">100<" in figure


@pytest.mark.parametrize(
    ("low", "high", "kind", "word"),
    [(0.01, 0.05, "better", "better"), (-0.05, -0.01, "worse", "worse"), (-0.01, 0.05, "same", "includes zero")],
)
def test_verdict_needs_the_whole_interval_on_one_side(low: float, high: float, kind: str, word: str) -> None:
    found, sentence = verdict(row(low, high), METHODS, 3)
    assert found == kind
    assert word in sentence
    assert "cross-entropy" in sentence
    assert "AUROC loss" in sentence
    assert "3 seeds" in sentence
    assert f'class="verdict {kind}"' in page_module._verdict(report(rows=[row(low, high)]))


def test_the_trained_measure_is_the_one_marked_and_judged() -> None:
    made = report(measure="f1", rows=[row(0.01, 0.05), row(-0.2, -0.1, "f1", "F1")])
    assert 'class="verdict worse"' in page_module._verdict(made)
    table = page_module._table(made)
    assert '<tr class="trained"><td>F1</td>' in table
    assert "<tr><td>AUROC</td>" in table


def test_interval_text() -> None:
    assert interval_text(interval(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert interval_text(interval(0.5, -0.25, 0.75), signed=True, digits=2) == "+0.50 [-0.25, +0.75]"
    assert interval_text(interval(-0.0001, -0.0002, 0.0), signed=True) == "+0.000 [+0.000, +0.000]"
    assert interval_text(interval(0.5, -math.inf, math.inf)) == "0.500"
    assert interval_text(interval(math.nan, math.nan, math.nan)) == "n/a"


def test_operating_point_is_that_of_the_judge() -> None:
    one = training("auc", 3)
    false_rate, hit_rate, right = counts_at(one)
    assert hit_rate == recall(one.scores, one.labels, threshold=one.threshold)
    assert right == precision(one.scores, one.labels, threshold=one.threshold)
    assert false_rate == float(np.mean(one.scores[one.labels == 0] >= one.threshold))
    assert counts_at(training("auc", 3, threshold=math.inf)) == (0, 0, 0)
