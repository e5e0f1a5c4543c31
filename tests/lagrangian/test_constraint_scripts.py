"""The scripts behind the tables of the page on constraints say what they count."""

from __future__ import annotations

import torch

from support.scripts import script


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
    last = found["constrained, certified"]
    assert last["recall"] >= 0.85
    assert last["precision"] > 0.7
    assert last["certified"]
    assert recall_floor.counts([last])[0] == 1
    assert recall_floor.certificates([{**last, "method": "constrained, certified"}])[0] == "1/1"
    assert found["cross-entropy, certified"]["recall"] >= found["cross-entropy"]["recall"]


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
