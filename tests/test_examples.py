"""The examples that need no launcher run as they stand, and print what their page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def output(name: str, *options: str) -> str:
    """What a script prints."""
    command = [sys.executable, str(EXAMPLES / name), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_segmentation_finds_what_cross_entropy_misses() -> None:
    said = output("segmentation.py", "--seeds", "1")
    assert "foreground: 2.9%" in said
    found = {
        name: (float(plain), float(tuned))
        for name, plain, tuned in re.findall(
            r"^(\S.*?) +probability 0.5: ([\d.]+).*tuned: ([\d.]+)", said, re.MULTILINE
        )
    }
    assert list(found) == ["cross-entropy", "weighted cross-entropy", "setwise.JaccardLoss"]
    assert found["cross-entropy"][0] < 0.03  # hardly a pixel reaches probability 0.5 in so few steps
    assert 0.2 < found["cross-entropy"][1] < 0.45
    assert found["setwise.JaccardLoss"][0] > 0.6
    assert found["weighted cross-entropy"][0] < found["setwise.JaccardLoss"][0]


def test_demands_learned_through_the_plan_cost_less() -> None:
    said = output("lp_layer.py", "--seeds", "1")
    found = {name: float(cost) for name, cost in re.findall(r"^(\S.*?) +([\d.]+) a day", said, re.MULTILINE)}
    assert list(found) == ["least squares", "quantile regression", "cost of the plan", "demands known"]
    assert found["cost of the plan"] < 0.98 * found["quantile regression"] < 0.94 * found["least squares"]
    assert found["demands known"] < found["cost of the plan"]


def test_shortest_paths_trained_on_regret_are_shorter() -> None:
    said = output("shortest_path_regret.py", "--seeds", "2")
    off = re.search(r"differ by (\S+) on 50 draws", said)
    assert off is not None
    assert float(off[1]) < 1e-5  # in float32
    lines = re.findall(r"degree (\d), (\S.*?) +regret +([\d.]+) % +R\^2 +([\d.-]+)", said)
    found = {(int(degree), name): (float(regret), float(r2)) for degree, name, regret, r2 in lines}
    assert len(found) == 4
    assert found[6, "regret"][0] < 0.75 * found[6, "least squares"][0]
    assert found[6, "regret"][1] < found[6, "least squares"][1]  # worse predictions, better paths
    assert found[1, "regret"][0] < 1.1 * found[1, "least squares"][0]


def test_transport_moves_one_cloud_onto_the_other() -> None:
    pytest.importorskip("scipy")
    said = output("optimal_transport_layer.py")
    distances = [float(value) for value in re.findall(r"squared distance ([\d.]+)", said)]
    assert len(distances) == 5
    assert distances[0] > 4
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-6
    assert "the plan is a permutation: True" in said
    checks = re.search(r"linear_sum_assignment: (\S+), gradient beside finite differences: (\S+)", said)
    assert checks is not None
    assert float(checks[1]) < 1e-12
    assert float(checks[2]) < 1e-6


def test_outputs_keep_their_constraints() -> None:
    said = output("constrained_outputs.py", "--seeds", "1")
    lines = re.findall(r"^(\S.*?) +lost +(-?[\d.]+)% .* violation (\S+)$", said, re.MULTILINE)
    found = {name: (float(lost), float(violation)) for name, lost, violation in lines}
    plain, projected, through = (found[name] for name in found)
    assert plain[1] > 0.1
    assert projected[1] < 1e-9
    assert through[1] < 1e-9
    assert 0 < through[0] < 0.7 * projected[0]
