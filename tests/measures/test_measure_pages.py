"""The scripts behind the pictures and tables of the pages on the measures show what these say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from setwise import losses, measures
from support.scripts import script

DOCS = Path(__file__).parents[2] / "docs"


FREE = script("free_scores")
PICTURES = script("measure_pictures")
BESIDE = script("cross_entropy")


def is_default(name: str) -> bool:
    return not name.endswith(("ramp", "sigmoid", "sigmoid link", "tanh", "squared hinge"))


def test_every_loss_is_on_the_page_and_every_name_is_understood() -> None:
    text = (DOCS / "measures.md").read_text()
    assert [name for name in losses.__all__ if f"`{name}" not in text] == []
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| [")]
    assert len(rows) == 8
    for row in rows:
        for name in re.findall(r"`([^`]*)`", row[2]):
            assert (measures.parse(name).program is None) == ("none" in row[3]) or "mcc" in row[2]


@pytest.mark.parametrize("name", PICTURES.PANELS)
def test_margin_1_is_nowhere_below_the_hard_measure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PICTURES, "DISTANCES", torch.linspace(-2, 6, 17, dtype=torch.float64))
    hard, soft = (torch.tensor(values) for values in PICTURES.slide(name, 1.0))
    assert bool((soft >= hard - (0.01 if name.startswith("grid") else 1e-9)).all())
    assert hard[-1] == pytest.approx(0, abs=1e-9)
    assert soft[0] > soft[-1]


def test_the_picture_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(PICTURES, "DISTANCES", torch.tensor([0.0, 1.0], dtype=torch.float64))
    PICTURES.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_of_the_grid_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    PICTURES.grid_error()
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    text = (DOCS / "measures.md").read_text()
    assert all(
        line in text for line in printed[:6]
    )  # finer grids are near rounding, which machines do in their own way


def test_the_table_of_free_scores_leaves_no_loss_out() -> None:
    cases = FREE.cases()
    assert {type(case.loss()).__name__ for case in cases} == set(losses.__all__)
    text = (DOCS / "measures.md").read_text()
    assert [case.name for case in cases] == re.findall(r"^\| `([^`]*)` \| \d+ of 20", text, re.MULTILINE)
    assert all(f"| `{case.name}` | 20 of 20 |" in text for case in cases if is_default(case.name))


@pytest.mark.parametrize("case", [case for case in FREE.cases() if is_default(case.name)], ids=lambda case: case.name)
def test_free_scores_reach_the_best_value(case: object) -> None:
    steps = FREE.steps_needed(case, "Adam", 4)
    assert steps is not None
    assert 0 < steps < 200


@pytest.mark.parametrize("name", ["auc", "ap", "tpr@fpr<=0.05"])
def test_ramps_do_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FREE, "STEPS", 200)
    assert FREE.steps_needed(FREE.by_name(name, surrogate="ramp"), "gradient descent", 4) is None


def test_a_line_gains_by_the_measures_loss_and_the_page_has_the_table() -> None:
    text = (DOCS / "how-to-choose.md").read_text()
    assert all(f"| `{name}` | {model} |" in text for name in BESIDE.NAMES for model in BESIDE.MODELS)
    name, train, test = "precision@recall>=0.8", BESIDE.draw(0, 2000), BESIDE.draw(100, 5000)
    values = [
        BESIDE.judge(name, BESIDE.fit(BESIDE.MODELS["line"], loss, train, 0), train, test)
        for loss in (torch.nn.BCEWithLogitsLoss(), measures.parse(name).loss())
    ]
    assert values[1] > values[0] + 0.02
