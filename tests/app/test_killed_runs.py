"""``setwise train`` killed at any moment, and gone on with: it ends as one that was never stopped, bit for bit."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise.app import training
from setwise.app.images import comparison
from setwise.app.training import train as first_train
from setwise.cli import display
from setwise.cli.app import run
from support.runs import small_images

__all__ = ["comparison", "display", "training"]  # imported before the forks, which then begin with the work

pytest.importorskip("lightgbm")

FORK = multiprocessing.get_context("fork")
QUICK = ("--models", "logistic,lightgbm", "--workers", "1")
LONG = ("--models", "logistic,linear_measure,lightgbm,extra_trees,network", "--folds", "3", "--workers", "2")
IMAGES = ("--seeds", "1", "--epochs", "6", "--minority", "0", "--set", "width=4")


def write_table(path: Path, rows: int) -> Path:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    labels = x[:, 0] + generator.normal(size=rows) > 1
    lines = (f"{a:.4f},{b:.4f},{c:.4f},{int(y)}" for (a, b, c), y in zip(x, labels, strict=True))
    path.write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """All that is loaded when it is first used is there before the forks, so that a kill lands in the work."""
    x = np.random.default_rng(0).normal(size=60)
    first_train({"x": x, "y": (x > 0.5).astype(int)}, models=["logistic"], folds=2, progress=False)


def train(arguments: list[str], said: Path) -> None:
    """In a process of its own, which has nothing to load."""
    torch.set_num_threads(1)
    with said.open("a") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        os._exit(run(["train", *arguments]))


def without_times(value: Any) -> Any:
    """Plain values without checksums and without how long fits took."""
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items() if name not in ("seconds", "sha256")}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def found(out: Path) -> tuple[Any, dict[str, bytes]]:
    """What the trainings have found, without times, and all files of models and scores."""
    results = without_times(json.loads((out / "results.json").read_text()))
    files = [path for name in ("models", "scores") if (out / name).exists() for path in (out / name).iterdir()]
    files += [path for path in (out / "model.safetensors",) if path.exists()]
    return results, {str(path.relative_to(out)): path.read_bytes() for path in files}


def kill_until_done(command: list[str], out: Path, said: Path, delays: list[float]) -> int:
    """Start the command, kill it after each delay, then let it end; the number of kills in the middle of the work."""
    kills = 0
    for delay in [*delays, 600.0]:
        stored = (out / "settings.json").exists()
        arguments = ["--out", str(out), *(["--resume"] if stored else command)]
        process = FORK.Process(target=train, args=(arguments, said))
        process.start()
        process.join(delay)
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert process.exitcode == 0, said.read_text()
    return kills


def check(command: list[str], folder: Path, moments: list[list[float]]) -> int:
    """Kill the command at these shares of the time that it takes; the number of kills in the middle of the work."""
    started = time.monotonic()
    assert kill_until_done(command, folder / "whole", folder / "said", []) == 0
    whole, wanted = time.monotonic() - started, found(folder / "whole")
    kills = 0
    for k, shares in enumerate(moments):
        for attempt in range(10):  # a machine that has become faster since is through before the kill
            out = folder / f"{k}-{attempt}"
            delays = [share * whole * 0.7**attempt for share in shares]
            hits = kill_until_done(command, out, folder / f"said{k}", delays)
            if hits:
                break
        kills += hits
        assert found(out) == wanted
        assert "error" not in (folder / f"said{k}").read_text()
        assert not [path for path in out.rglob("*") if path.name.endswith(".partial")]
        assert not (out / "checkpoints").exists() or not any((out / "checkpoints").iterdir())
    return kills


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_killed_once(tmp_path: Path, share: float) -> None:
    command = [str(write_table(tmp_path / "bank.csv", 300)), *QUICK]
    assert check(command, tmp_path, [[share]]) == 1


def test_killed_three_times_in_a_row(tmp_path: Path) -> None:
    command = [str(write_table(tmp_path / "bank.csv", 300)), *QUICK]
    assert check(command, tmp_path, [[0.3, 0.3, 0.3]]) >= 1


def test_a_training_on_images_killed_once(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    assert check([str(small_images(tmp_path / "pictures")), *IMAGES], tmp_path, [[0.4]]) == 1


@pytest.mark.slow
def test_killed_at_twenty_moments(tmp_path: Path) -> None:
    draw = random.Random(0)  # noqa: S311 (any moments will do)
    command = [str(write_table(tmp_path / "bank.csv", 500)), *LONG]
    moments = [[draw.uniform(0.02, 0.95)] for _ in range(20)]
    assert check(command, tmp_path, moments) == 20
