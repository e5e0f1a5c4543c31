"""The examples of the page on constraints run as they stand, and the scripts behind its tables say what they count."""

from __future__ import annotations

import doctest
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "constraints.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 35
    assert result.failed == 0


def test_every_block_of_code_on_the_page_is_an_example() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) == 6
    assert all(block.startswith(">>> ") for block in blocks)


def script(name: str) -> ModuleType:
    """A script of the folder of benchmarks as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_fairness_counts_and_judges() -> None:
    fairness = script("fairness")
    part = fairness.Part(torch.zeros(8, 2), torch.tensor([1, 1, 1, 1, 0, 0, 0, 0]), torch.arange(8) % 2)
    found = fairness.judge(lambda _: torch.tensor([1.0, 0.5, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]), {"train": part})
    assert found["train_difference"] == 0.5
    assert found["train_accuracy"] == 7 / 8
    rows = [
        {"train_difference": 0.02, "test_difference": 0.05, "test_error": 0.02},
        {"train_difference": 0.03, "test_difference": 0.07, "test_error": 0.02},
    ]
    assert fairness.counts(rows) == (1, 1)


def test_the_runs_of_the_recall_floor_hold_it_on_an_easy_table() -> None:
    recall_floor = script("recall_floor")
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(900, generator=generator) < 0.3).long()
    data = recall_floor.Part(torch.randn(900, 3, generator=generator) + 2 * labels.unsqueeze(1), labels)
    found = recall_floor.run(recall_floor.split(data, 0), "linear", 0)
    assert set(found) == set(recall_floor.METHODS)
    last = found["constrained, cautious"]
    assert last["recall"] >= 0.85
    assert last["precision"] > 0.8
    assert recall_floor.counts([last])[0] == 1
    assert found["cross-entropy, cautious"]["recall"] >= found["cross-entropy"]["recall"]


def test_equal_quality_tabulates_changes_in_points() -> None:
    equal_quality = script("equal_quality")
    rows = []
    for seed in range(3):
        for method in equal_quality.METHODS:
            gain = 0.01 * (method != "cross-entropy")
            values = {"small": 0.9, "big": 0.9, "accuracy": 0.9 + gain, "difference": 0.02 - gain, "training": 0.03}
            rows.append({"model": "linear", "seed": seed, "method": method, **values})
    lines = equal_quality.table(rows).splitlines()
    assert lines[2] == "| linear | cross-entropy | 90.00 | 90.00 | 90.00 | 2.00 | 3.00 |  |  |"
    assert lines[3].endswith("| +1.00 [+1.00, +1.00] | -1.00 [-1.00, -1.00] |")
