"""The page of a comparison in a real browser: the slider, the groups, both colour schemes, and no network.

Run by ``make test-browser``; skipped where there is no Chromium, which fails in continuous integration. Screenshots go
to ``runs/browser``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from setwise.metrics import Interval, confusion_counts, rate_bound
from setwise.report import ConstraintRow, Method, Report, Row, Training, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

METHODS = Method("cross_entropy", "Cross-entropy"), Method("auc", "AUROC loss")
SHOTS = Path(__file__).resolve().parents[2] / "runs" / "browser"


def training(method: str, seed: int) -> Training:
    generator = np.random.default_rng(seed)  # both methods have the same test set
    labels = (generator.random(1500) < 0.15).astype(np.int8)
    groups = {"sex": generator.integers(0, 2, 1500), "region": generator.integers(0, 4, 1500)}
    own = np.random.default_rng([seed, len(method)])
    scores = (own.normal(size=1500) - 1 + 2 * labels).astype(np.float32)
    rising = (0.9 - 0.3 * np.exp(-np.arange(20) / 5) + 0.01 * own.normal(size=20)).tolist()
    history = {"measure": rising, "surrogate": [1.2 - v for v in rising], "gap": [0.2 - 0.1 * v for v in rising]}
    return Training(method, seed, scores, labels, 0.25 + 0.1 * seed, history, None, groups)


TRAININGS = {(method.key, seed): training(method.key, seed) for method in METHODS for seed in (0, 1, 2)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def interval(mean: float, low: float, high: float) -> Interval:
        return Interval(mean, low, high, 0.95)

    rows = [
        Row("auroc", "AUROC", interval(0.88, 0.86, 0.9), interval(0.91, 0.9, 0.92), interval(0.03, 0.01, 0.05)),
        Row("f1", "F1", interval(0.61, 0.58, 0.64), interval(0.6, 0.56, 0.64), interval(-0.01, -0.03, 0.01)),
    ]
    values = interval(0.71, 0.66, 0.76), interval(0.82, 0.79, 0.85)
    report = Report(
        title="AUROC against cross-entropy on bank.csv: fraud <or> not",
        measure="auroc",
        methods=METHODS,
        rows=rows,
        trainings=list(TRAININGS.values()),
        settings={"epochs": 25, "learning_rate": 0.003, "loss_options": {}},
        procedure=["For each seed both methods have the same training, validation and test sets."],
        facts={"test set, first seed": "1500 examples, 225 positive"},
        groups={"sex": ("Female", "Male"), "region": ("North", "East", "South", "West")},
        constraints=[ConstraintRow("recall[sex=Female]>=0.8", values, (1, 3), 3)],
        shown_seed=1,
    )
    return write_report(report, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def page(visit: Callable[..., Page], path: Path, scheme: str) -> Page:
    """The page in one colour scheme."""
    return visit(path, scheme=scheme)


def move(page: Page, value: float) -> None:
    page.locator("#threshold").fill(str(value))


def shown_counts(page: Page, method: int) -> tuple[int, ...]:
    texts = [page.inner_text(f"#{cell}-{method}") for cell in ("tp", "fp", "fn", "tn")]
    return tuple(int(text.replace(",", "")) for text in texts)


def counts(key: str, seed: int, threshold: float) -> tuple[float, ...]:
    one = TRAININGS[key, seed]
    return tuple(confusion_counts(one.scores, one.labels, threshold=threshold))


def logit(probability: float) -> float:
    return {0.0: -math.inf, 1.0: math.inf}.get(probability) or math.log(probability / (1 - probability))


def test_the_slider_shows_the_counts_that_the_metrics_compute(page: Page) -> None:
    for probability in (0.0, 0.5, 1.0, 0.125, 0.87):
        move(page, probability)
        assert page.inner_text("#value") == f"{probability:.3f}"
        for k, method in enumerate(METHODS):
            tp, fp, fn, tn = counts(method.key, 1, logit(probability))
            assert shown_counts(page, k) == (tp, fp, fn, tn)
            precision = tp / (tp + fp) if tp + fp else 0.0
            assert place(page, f"#roc-point-{k}") == pytest.approx((fp / (fp + tn), tp / (tp + fn)))
            assert place(page, f"#pr-point-{k}") == pytest.approx((tp / (tp + fn), precision))


def place(page: Page, point: str) -> tuple[float, ...]:
    """The values that a marker stands at."""
    return tuple(float(page.get_attribute(point, f"data-{axis}") or "nan") for axis in "xy")


def test_the_point_lies_on_its_curve(page: Page) -> None:
    """The marker's place in the picture is that of its rates, with ROC's corners at the ends of the slider."""
    box = page.locator("#roc svg .axis").bounding_box()
    assert box
    for probability, corner in (
        (0.0, (box["x"] + box["width"], box["y"])),
        (1.0, (box["x"], box["y"] + box["height"])),
    ):
        move(page, probability)
        for method in (0, 1):
            mark = page.locator(f"#roc-point-{method}").bounding_box()
            assert mark
            middle = mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2
            assert middle == pytest.approx(corner, abs=4.0)  # the boxes have the width of their strokes


def test_at_first_each_method_has_its_own_threshold_and_the_button_goes_back(page: Page) -> None:
    chosen = [counts(method.key, 1, TRAININGS[method.key, 1].threshold) for method in METHODS]
    assert [shown_counts(page, k) for k in (0, 1)] == chosen
    assert page.inner_text("#value") == "as chosen"
    move(page, 0.9)
    assert [shown_counts(page, k) for k in (0, 1)] != chosen
    assert page.get_attribute("#chosen", "aria-pressed") == "false"
    page.click("#chosen")
    assert [shown_counts(page, k) for k in (0, 1)] == chosen
    assert page.get_attribute("#chosen", "aria-pressed") == "true"


def test_the_scale_by_share_reaches_few_cases(page: Page) -> None:
    page.select_option("#scale", "share")
    move(page, 130)
    tp, fp, _, _ = shown_counts(page, 1)
    assert 0 < tp + fp < 0.05 * 1500
    threshold = np.sort(TRAININGS["auc", 1].scores)[-int(tp + fp)]
    assert shown_counts(page, 1) == counts("auc", 1, float(threshold))
    assert "predicted positive" in page.inner_text("#value")
    move(page, 160)
    assert shown_counts(page, 1)[:2] == (0, 0)


def test_another_seed_has_other_counts(page: Page) -> None:
    page.select_option("#seed", "2")
    move(page, 0.5)
    assert shown_counts(page, 1) == counts("auc", 2, 0.0)


def test_the_group_table_follows_slider_and_column(page: Page) -> None:
    move(page, 0.5)
    one = TRAININGS["auc", 1]
    for column, names in (("region", ("North", "East", "South", "West")), ("sex", ("Female", "Male"))):
        page.select_option("#column", column)
        cells = [row.locator("td").all_inner_texts() for row in page.locator("#groups tbody tr").all()]
        assert [cell[0] for cell in cells[::2]] == list(names)
        for k in range(len(names)):
            of = one.groups[column] == k
            tp, fp, fn, _ = (int(count) for count in confusion_counts(one.scores[of], one.labels[of]))
            assert cells[2 * k][2] == str(int(of.sum()))
            assert cells[2 * k + 1][1] == "AUROC loss"
            for cell, (successes, trials) in zip(cells[2 * k + 1][3:5], ((tp, tp + fn), (tp, tp + fp)), strict=True):
                value, low, high = (float(part) for part in re.findall(r"[\d.]+", cell))
                assert value == pytest.approx(successes / trials, abs=5e-4)
                # Exact intervals at 95 % are both one-sided bounds at 97.5 %.
                assert low == pytest.approx(rate_bound(successes, trials, confidence=0.975), abs=6e-4)
                assert high == pytest.approx(rate_bound(successes, trials, confidence=0.975, side="upper"), abs=6e-4)


def test_rates_stand_below_the_counts(page: Page) -> None:
    move(page, 0.5)
    tp, fp, fn, tn = counts("auc", 1, 0.0)
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#rates tbody tr").all()]
    values = {name: float(second) for name, _, second in rows}
    assert values == pytest.approx(
        {
            "Precision": tp / (tp + fp),
            "Recall": tp / (tp + fn),
            "F1": 2 * tp / (2 * tp + fp + fn),
            "False positive rate": fp / (fp + tn),
            "Predicted positive": (tp + fp) / 1500,
            "Accuracy": (tp + tn) / 1500,
        },
        abs=5e-4,
    )
    move(page, 1.0)
    assert page.locator("#rates tbody tr").nth(0).locator("td").nth(1).inner_text() == "–"  # 0/0


def ground(page: Page) -> tuple[int, ...]:
    """Colour behind the page, as red, green, blue."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return tuple(int(part) for part in re.findall(r"\d+", colour)[:3])


def test_both_colour_schemes_and_the_button(page: Page, scheme: str) -> None:
    dark = scheme == "dark"
    assert (sum(ground(page)) < 150) == dark
    assert page.inner_text("#theme") == ("Light" if dark else "Dark")
    page.click("#theme")
    assert (sum(ground(page)) < 150) != dark
    page.click("#theme")
    assert (sum(ground(page)) < 150) == dark


def test_everything_is_drawn_and_fits(page: Page, scheme: str) -> None:
    assert page.locator("figure svg").count() == 9
    for figure in page.locator("figure svg").all():
        assert (figure.bounding_box() or {"height": 0})["height"] > 100
    assert "fraud <or> not" in page.inner_text("h1")
    assert page.locator("#constraints tbody tr").count() == 1
    for width in (1200, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out at the side"
    page.set_viewport_size({"width": 1200, "height": 900})
    move(page, 0.6)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"report-{scheme}.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 900})
    page.screenshot(path=SHOTS / f"report-{scheme}-narrow.png", full_page=True)
