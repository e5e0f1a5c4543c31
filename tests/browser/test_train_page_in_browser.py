"""The page of a training on a table in a real browser: answer, candidates, columns, threshold, hostile names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from setwise.app import TableModel, train
from setwise.app.conclusion import chosen
from setwise.app.reevaluation import read_run
from setwise.metrics import confusion_counts

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOTS = Path(__file__).resolve().parents[2] / "runs" / "browser"
ROWS = 900
EVIL = "</script><script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>\"'"
TURNED = "turned \u202e round"


def columns() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    amount, age = generator.lognormal(3, 1, ROWS), generator.integers(18, 90, ROWS)
    sex = generator.choice(["Female", "Male"], ROWS)
    late = np.log(amount) + 0.02 * age + 0.5 * (sex == "Male") + 0.7 * generator.normal(size=ROWS) > 4.8
    job = generator.choice(["clerk", "smith", "nurse"], ROWS)
    return {"amount": amount, "age": age, "sex": sex, "job": job, "id": np.arange(ROWS), "late": late.astype(int)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a floor, groups and a column that is left out."""
    out = tmp_path_factory.mktemp("run") / "out"
    table = columns()
    table["late"] = np.where(table["late"], "yes", "no")
    path = out.parent / "bills.csv"
    cells = zip(*table.values(), strict=True)
    path.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in cells)]) + "\n")
    train(
        path, target="late", measure="precision@recall>=0.8", group=["sex", "job"], drop=["job"],
        models=["logistic", "linear_measure", "lightgbm"], out=out, progress=False,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose columns, groups and classes are named to break a page."""
    out = tmp_path_factory.mktemp("hostile") / "out"
    table = columns()
    evil = {
        EVIL: table["amount"], IMAGE: table["age"], "y" * 400: table["job"], TURNED: table["id"] % 7,
        f"g{EVIL}": np.where(table["sex"] == "Male", IMAGE, "z" * 300),
        f"{IMAGE} {'t' * 200}": np.where(table["late"] == 1, EVIL, f"{IMAGE} no"),
    }  # fmt: skip
    train(evil, target=f"{IMAGE} {'t' * 200}", positive=EVIL, group=f"g{EVIL}", subject_to="recall>=0.6",
          models="logistic", out=out, progress=False)  # fmt: skip
    return out


def opened(page: Page) -> Page:
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    return page


def table(page: Page, name: str) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in page.locator(f"#{name} tbody tr").all()]


def fits(page: Page) -> None:
    """Nothing sticks out at the side; wide tables scroll in a box of their own."""
    width = page.evaluate("window.innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        """width => [...document.querySelectorAll("table, figure, button, input, select, pre, p")].filter((element) => {
            const box = element.closest(".scroll") || element;
            const { left, right } = box.getBoundingClientRect();
            return left < 0 || right > width + 0.5;
        }).map((element) => element.tagName + "#" + element.id)""",
        width,
    )
    assert cut == []


def test_the_answer_stands_first(visit: Callable[..., Page], run: Path) -> None:
    page = visit(run / "report.html")
    report = TableModel.load(run).report()
    assert page.inner_text("h1").endswith("late is 'yes' or not")
    answer = page.inner_text(".verdict")
    for sentence in report.headline:
        assert sentence in answer
    top = page.locator(".verdict").bounding_box()
    assert top
    assert top["y"] < 300, "on the first screen"
    assert "recall >= 0.8 holds with 95 % confidence" in answer


def test_candidates_and_columns_are_those_of_the_report(visit: Callable[..., Page], run: Path) -> None:
    page, report = visit(run / "report.html"), TableModel.load(run).report()
    _, rows = report.candidate_table()
    shown = table(page, "candidates")
    assert [row[:3] for row in shown] == [row[:3] for row in rows]
    assert sum("shipped" in row[4] for row in shown) == 1
    assert "on the measure" in " ".join(row[4] for row in shown)
    _, rows = report.column_table()
    assert table(page, "importance") == rows
    assert rows[0][0] == "amount"
    opened(page)
    fates = dict(row[:2] for row in table(page, "columns"))
    assert fates["id"].startswith("left out")
    assert "target" in fates["late"]
    assert fates["job"] == "dropped; results by group"
    assert "setwise predict model.safetensors new.csv" in page.inner_text("main")


def test_the_slider_counts_the_out_of_fold_scores(visit: Callable[..., Page], run: Path) -> None:
    page, stored = visit(run / "report.html"), read_run(run)
    model = stored.model
    assert isinstance(model, TableModel)
    _, choice = chosen(stored.problem, stored.fits[0], stored.settings)
    probabilities, labels = np.asarray(model.calibration(choice.logits[choice.name])), choice.labels
    shown = tuple(int(page.inner_text(f"#{cell}-0").replace(",", "")) for cell in ("tp", "fp", "fn", "tn"))
    assert shown == tuple(confusion_counts(probabilities, labels, threshold=model.threshold))
    for threshold in (0.0, 0.25, 0.5, 0.9, 1.0):
        page.locator("#threshold").fill(str(threshold))
        shown = tuple(int(page.inner_text(f"#{cell}-0").replace(",", "")) for cell in ("tp", "fp", "fn", "tn"))
        assert shown == tuple(confusion_counts(probabilities, labels, threshold=threshold))
    page.click("#chosen")
    assert page.get_attribute("#chosen", "aria-pressed") == "true"
    page.select_option("#column", label="job")
    assert [row[0] for row in table(page, "groups") if row[0] in ("clerk", "nurse", "smith")] == [
        "clerk",
        "nurse",
        "smith",
    ]


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_a_screen(visit: Callable[..., Page], run: Path, width: int, scheme: str) -> None:
    page = visit(run / "report.html", width=width, scheme=scheme)
    fits(page)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"train-{scheme}-{width}.png", full_page=True)
    fits(opened(page))


@pytest.mark.parametrize("width", [390, 1280])
def test_hostile_names_are_texts(visit: Callable[..., Page], hostile: Path, width: int) -> None:
    page = opened(visit(hostile / "report.html", width=width))
    page.locator("#threshold").fill("0.3")
    page.click("#cheapest")
    fits(page)
    assert page.locator("main img").count() == 0
    assert page.locator("script").count() == 2
    names = {row[0] for row in table(page, "importance")}
    assert {EVIL, IMAGE, "y" * 400} <= names
    assert "\u202e" not in page.content()
    assert page.inner_text("h1").endswith("alert(1)</script>' or not"), "cut in the middle"
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"train-hostile-{width}.png", full_page=True)


def test_every_control_has_a_name(visit: Callable[..., Page], run: Path) -> None:
    unnamed = visit(run / "report.html").evaluate(
        """() => [...document.querySelectorAll("input, select, button, svg")].filter((element) =>
            !(element.labels && element.labels.length) && !element.getAttribute("aria-label")
            && !element.textContent.trim()).map((element) => element.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []


def test_the_page_of_several_classes(visit: Callable[..., Page], tmp_path: Path) -> None:
    cells = columns()
    cells["late"] = np.select([cells["amount"] > 40, cells["amount"] > 15], ["<b>late</b>", "soon"], "never")
    train(cells, target="late", models="logistic", drop=["id"], out=tmp_path / "out", progress=False)
    for width in (390, 1280):
        page = opened(visit(tmp_path / "out" / "report.html", width=width))
        fits(page)
        assert "Shipped: " in page.inner_text(".verdict")
        assert "<b>late</b>" in page.inner_text("main")
        assert page.locator("main b:text-is('late')").count() == 0
        assert re.search(r"logistic regression\s+0\.\d", page.inner_text("#candidates"))
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"train-classes-{width}.png", full_page=True)


def test_the_measure_is_the_same_wherever_it_stands(visit: Callable[..., Page], run: Path) -> None:
    page, report = visit(run / "report.html"), TableModel.load(run).report()
    rows = {row.title: row for row in report.candidates}
    heads = page.locator("#measures thead th").all_inner_texts()[1:]
    shown = next(cells for cells in table(page, "measures") if cells[0].startswith("Precision at recall"))
    for head, cell in zip(heads, shown[1:], strict=True):
        title = re.sub(r"^shipped \((.*)\)$", r"\1", head)
        assert cell.startswith(f"{rows[title].value.estimate:.3f} "), (head, cell)
    compared = page.locator(".comparison tbody tr").all_inner_texts()
    assert any(text.startswith("AUROC") for text in compared)
    assert not any(text.startswith("Precision at recall") for text in compared), (
        "that of the candidates allows for more"
    )
