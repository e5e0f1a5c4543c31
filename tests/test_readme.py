"""The README's code runs, its commands exist and it stays short."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import setwise

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


(SEGMENTATION,) = [block for block in BLOCKS if "JaccardLoss" in block]


@functools.cache
def run(code: str) -> dict[str, Any]:
    """What a block of code leaves behind."""
    variables: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), variables)  # noqa: S102 (the README is ours)
    return variables


@pytest.mark.parametrize("code", BLOCKS, ids=[f"block{k}" for k in range(len(BLOCKS))])
def test_python_blocks_run(code: str) -> None:
    run(code)


def test_segmentation_reaches_what_is_said() -> None:
    """One seed on one machine; the figures in the text are the means of five."""
    assert sum(bool(line.strip()) for line in SEGMENTATION.splitlines()) <= 20
    assert run(SEGMENTATION)["iou"] == pytest.approx(0.66, abs=0.06)


@pytest.mark.slow  # test_examples.py has the two losses beside each other too
def test_cross_entropy_finds_nothing_there() -> None:
    code = SEGMENTATION.replace("setwise.JaccardLoss()", "nn.BCEWithLogitsLoss()")
    assert run(code)["iou"] == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize("call", re.findall(r"`(\w+Loss\([^`]*\))`", README))
def test_losses_are_written_as_they_are(call: str) -> None:
    assert isinstance(eval(call, vars(setwise)), torch.nn.Module)  # noqa: S307 (the README is ours)


def test_no_figure_is_left_to_be_filled_in() -> None:
    assert not re.findall(r"DEMO_\w+", README)


def test_there_is_code_to_run() -> None:
    assert BLOCKS


def test_it_is_at_most_100_lines() -> None:
    assert len(README.splitlines()) <= 100


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets
    assert {"demo", "test"} <= targets


def test_links_and_pictures_are_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link
