"""The page of an evaluation in a real browser: threshold, costs, groups, downloads, a phone, hostile names."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from setwise.metrics import confusion_counts, rate_bound
from setwise.report import Evaluation, evaluate, write_evaluation

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOTS = Path(__file__).resolve().parents[2] / "runs" / "browser"
ROWS = 3000
PHONE = 390
EVIL = "</script><script>alert(1)</script>"
NAMES = EVIL, "<img src=x onerror=alert(2)>\"'\u202eabc" + "x" * 3000


def draw() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    labels = generator.random(ROWS) < 0.1
    margin = generator.normal(size=ROWS) + 2 * labels
    return {
        "labels": labels,
        "p": 1 / (1 + np.exp(2.7 - margin)),
        "q": 50 * (generator.normal(size=ROWS) + 1.5 * labels),
        "sex": generator.choice(["Female", "Male"], ROWS),
        "region": generator.choice(["North", "East", "South", "West"], ROWS),
    }


DATA = draw()


def made(**changes: Any) -> Evaluation:
    values: dict[str, Any] = {
        "scores": {"p": DATA["p"]},
        "subject_to": "recall>=0.9",
        "group": {"sex": DATA["sex"], "region": DATA["region"]},
        "title": "Evaluation of scores.csv",
        "resamples": 60,
    } | changes
    return evaluate(values.pop("scores"), DATA["labels"], **values)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return made()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def page(visit: Callable[..., Page], evaluation: Evaluation, folder: Path) -> Page:
    return visit(write_evaluation(evaluation, folder / "one.html"))


@pytest.fixture(scope="module")
def two(folder: Path) -> Path:
    """Two score columns of which one is no probability, so that the slider goes by the share predicted positive."""
    ways = {"Command": "setwise predict run new.csv", "Python": "model.predict_proba(table)  # <b> & more"}
    fates = {"age": "number", "<i>id</i>": "left out: another value in every row"}
    found = made(scores={"p": DATA["p"], "q": DATA["q"]}, require="precision>=0.9")
    return write_evaluation(found, folder / "two.html", columns=fates, usage=ways)


def matrix(page: Page, column: int = 0) -> tuple[float, ...]:
    texts = [page.inner_text(f"#{cell}-{column}") for cell in ("tp", "fp", "fn", "tn")]
    return tuple(float(text.replace(",", "")) for text in texts)


def counts(threshold: float, name: str = "p", where: Any = slice(None)) -> tuple[float, ...]:
    return tuple(confusion_counts(DATA[name][where], DATA["labels"][where].astype(int), threshold=threshold))


def move(page: Page, value: float) -> None:
    page.locator("#threshold").fill(str(value))


def table(page: Page, name: str) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in page.locator(f"#{name} tbody tr").all()]


def download(page: Page, button: str) -> list[dict[str, str]]:
    with page.expect_download() as found:
        page.click(button)
    assert found.value.suggested_filename.endswith(".csv")
    text = Path(found.value.path()).read_text(encoding="utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_the_page_begins_with_the_answer(page: Page, evaluation: Evaluation) -> None:
    answer = page.inner_text(".verdict")
    assert evaluation.headline[0] in answer
    assert evaluation.headline[1] in answer
    assert matrix(page) == counts(evaluation.columns[0].decision.threshold)
    assert page.locator("#constraints td.holds").count() == 1


def test_the_slider_shows_the_confusion_matrix_of_the_metrics(page: Page) -> None:
    for threshold in (0.0, 0.5, 0.125, 0.03, 0.87, 1.0):
        move(page, threshold)
        tp, fp, fn, tn = counts(threshold)
        assert matrix(page) == (tp, fp, fn, tn)
        values = dict(table(page, "rates"))
        assert values["Recall"] == f"{tp / (tp + fn):.3f}"
        assert values["False positive rate"] == f"{fp / (fp + tn):.3f}"
        said = page.inner_text("#said-0")
        flagged, right, missed = (float(part) for part in re.findall(r"[\d.]+", said.replace("1,0", "10"))[1:4])
        assert (flagged, right, missed) == pytest.approx(
            tuple(1000 * part / ROWS for part in (tp + fp, tp, fn)), rel=0.06, abs=0.5
        )
    page.click("#chosen")
    assert page.get_attribute("#chosen", "aria-pressed") == "true"


@pytest.mark.parametrize(("miss", "alarm", "cases"), [(10, 1, 10000), (500, 20, 300), (1, 7, 1000000), (0, 1, 10)])
def test_the_cheapest_threshold_is_that_of_all_thresholds(page: Page, miss: int, alarm: int, cases: int) -> None:
    for name, value in (("miss", miss), ("alarm", alarm), ("cases", cases)):
        page.fill(f"#{name}", str(value))
    page.click("#cheapest")
    tp, fp, fn, tn = matrix(page)
    thresholds = np.append(np.unique(DATA["p"]), np.inf)
    costs = []
    for threshold in thresholds.tolist():
        found = counts(threshold)
        costs.append((miss * found[2] + alarm * found[1]) * cases / ROWS)
    assert (miss * fn + alarm * fp) * cases / ROWS == pytest.approx(min(costs))
    rows = dict(table(page, "costs"))
    shown = float(rows["Cost per month there"].replace(",", ""))
    assert shown == pytest.approx(min(costs), abs=0.51)
    assert float(rows["Saved per month by moving"]) == 0
    if min(costs) > 0:  # the threshold shown in full gives the same matrix
        threshold = float(page.get_attribute("#at-0", "title") or "nan")
        assert counts(threshold) == (tp, fp, fn, tn)


def test_the_cost_sliders_move_the_cheapest_threshold(page: Page) -> None:
    page.click("#cheapest")
    thresholds, numbers = [], []
    for position in range(10):
        page.locator("#miss-slider").fill(str(position))
        numbers.append(float(page.input_value("#miss")))
        thresholds.append(float((page.get_attribute("#at-0", "title") or "").replace("Infinity", "inf")))
    assert numbers == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert thresholds == sorted(thresholds, reverse=True), "dearer misses, lower threshold"
    assert thresholds[0] > thresholds[-1]
    move(page, 0.5)
    assert page.get_attribute("#cheapest", "aria-pressed") == "false"
    assert matrix(page) == counts(0.5)


def test_groups_have_exact_intervals_at_any_threshold(page: Page) -> None:
    move(page, 0.2)
    page.select_option("#column", label="region")
    rows = table(page, "groups")
    assert [row[0] for row in rows] == sorted(["North", "East", "South", "West"])
    for name, cases, *rates in rows:
        tp, fp, fn, tn = counts(0.2, where=DATA["region"] == name)
        assert int(cases) == tp + fp + fn + tn
        for cell, (successes, trials) in zip(
            rates, ((tp, tp + fn), (tp, tp + fp), (fp, fp + tn), (tp + fp, int(cases))), strict=True
        ):
            value, low, high = (float(part) for part in re.findall(r"[\d.]+", cell))
            assert value == pytest.approx(successes / trials, abs=6e-4)
            assert low == pytest.approx(rate_bound(int(successes), int(trials), confidence=0.975), abs=6e-4)
            assert high == pytest.approx(
                rate_bound(int(successes), int(trials), confidence=0.975, side="upper"), abs=6e-4
            )


def test_the_highest_scores_find_the_positives(page: Page) -> None:
    order = np.argsort(-DATA["p"], kind="stable")
    for name, cell in table(page, "top"):
        share = float(re.findall(r"[\d.]+", name)[0]) / 100
        found = DATA["labels"][order[: round(share * ROWS)]].sum() / DATA["labels"].sum()
        percent, lift = (float(part) for part in re.findall(r"[\d.]+", cell))
        assert percent == pytest.approx(100 * found, abs=0.51)
        assert lift == pytest.approx(found / share, abs=0.06)


def test_scores_of_any_range_go_by_the_share_predicted_positive(visit: Callable[..., Page], two: Path) -> None:
    page = visit(two)
    assert page.locator("#scale").count() == 0
    assert page.locator("#reliability").count() == 0
    for position in (0, 40, 80, 130, 160):
        move(page, position)
        for column, name in enumerate(("p", "q")):
            threshold = float((page.get_attribute(f"#at-{column}", "title") or "").replace("Infinity", "inf"))
            assert matrix(page, column) == counts(threshold, name)
        flagged = [sum(matrix(page, column)[:2]) for column in (0, 1)]
        assert flagged[0] == flagged[1]
    assert page.locator("#constraints tbody tr").count() == 3  # two columns, one requirement
    assert page.locator(".comparison tbody tr").count() > 3
    assert "# <b> & more" in page.inner_text("pre >> nth=1")
    page.click("text=What became of every column")
    assert page.inner_text("#columns tbody tr:nth-child(2)").startswith("<i>id</i>")


def test_numbers_can_be_taken_along(page: Page, evaluation: Evaluation) -> None:
    move(page, 0.3)
    rows = download(page, "#save-here")
    assert len(rows) == 1 + 2 + 4
    for row in rows:
        where = slice(None) if not row["group"] else DATA[row["group_column"]] == row["group"]
        tp, fp, fn, tn = counts(0.3, where=where)
        assert [float(row[name]) for name in ("tp", "fp", "fn", "tn")] == [tp, fp, fn, tn]
        assert float(row["recall"]) == pytest.approx(tp / (tp + fn))
    rows = download(page, "#save-thresholds")
    assert 300 < len(rows) < 1000
    for row in rows[::25]:
        threshold = float(row["threshold"].replace("Infinity", "inf"))
        assert [float(row[name]) for name in ("tp", "fp", "fn", "tn")] == list(counts(threshold))
    rows = download(page, "#save-measures")
    interval = evaluation.columns[0].measures[0].interval
    assert float(rows[0]["estimate"]) == interval.estimate
    assert float(rows[0]["low"]) == interval.low


def hostile() -> Evaluation:
    long = np.where(DATA["sex"] == "Male", "a" * 500, "=HYPERLINK(0)")
    return made(
        scores={NAMES[0]: DATA["p"], NAMES[1]: DATA["q"]},
        group={EVIL + "g": DATA["sex"], "y" * 400: long, "@z": DATA["region"]},
        title=EVIL + "\u202e" + "t" * 900,
    )


def fits(page: Page) -> None:
    """The page does not scroll sideways, and no table is cut: it fits or scrolls in a box of its own."""
    width = page.evaluate("window.innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        """width => [...document.querySelectorAll("table, figure, button, input, select, pre")].filter((element) => {
            const box = element.closest(".scroll") || element;
            const { left, right } = box.getBoundingClientRect();
            const scrolls = box === element || ["auto", "scroll"].includes(getComputedStyle(box).overflowX);
            return left < 0 || right > width + 0.5 || !scrolls;
        }).map((element) => element.tagName + "#" + element.id)""",
        width,
    )
    assert cut == []


def test_a_phone_shows_all_of_it(visit: Callable[..., Page], page: Page, two: Path, scheme: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.close()
    for width in (PHONE, 320, 1280):
        opened = visit(two, width=width, scheme=scheme)
        opened.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        fits(opened)
        opened.screenshot(path=SHOTS / f"evaluation-{scheme}-{width}.png", full_page=True)


def test_on_a_phone_the_tables_of_one_score_column_need_no_scrolling(
    visit: Callable[..., Page], evaluation: Evaluation, folder: Path
) -> None:
    opened = visit(write_evaluation(evaluation, folder / "phone.html"), width=PHONE)
    fits(opened)
    for name in ("constraints", "rates", "costs", "top", "measures"):
        wide = opened.evaluate("name => document.getElementById(name).scrollWidth", name)
        assert wide <= PHONE, name


def test_hostile_names_are_harmless(visit: Callable[..., Page], folder: Path) -> None:
    path = write_evaluation(hostile(), folder / "hostile.html", columns={EVIL: EVIL}, usage={EVIL: EVIL})
    for width in (1280, PHONE):
        page = visit(path, width=width)
        move(page, 60)
        page.select_option("#column", index=1)
        page.click("#cheapest")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        fits(page)
        assert page.locator("script").count() == 2
        assert page.locator("main img").count() == 0
        assert page.inner_text("#at-0 >> xpath=..").startswith(EVIL)
        assert "\u202e" not in page.content()
    rows = download(page, "#save-here")
    groups = {row["group"] for row in rows} | {row["group_column"] for row in rows}
    assert "'=HYPERLINK(0)" in groups, "spreadsheets take no text for a formula"
    assert "'@z" in groups
    assert rows[0]["score"] == EVIL


def test_every_control_has_a_name(page: Page) -> None:
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, svg")].filter((element) =>
            !(element.labels && element.labels.length) && !element.getAttribute("aria-label")
            && !element.textContent.trim()).map((element) => element.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
