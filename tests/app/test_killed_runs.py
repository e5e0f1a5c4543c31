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

from setwise.cli import display, training
from setwise.cli.app import run
from setwise.experiments import comparison

__all__ = ["comparison", "display", "training"]  # imported before the forks, which then begin with the work

FORK = multiprocessing.get_context("fork")
OPTIONS = ("--seeds", "2", "--epochs", "8", "--set", "members=2")


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 3))
    labels = x[:, 0] + generator.normal(size=1000) > 1
    rows = (f"{a:.4f},{b:.4f},{c:.4f},{int(y)}" for (a, b, c), y in zip(x, labels, strict=True))
    path.write_text("a,b,c,y\n" + "\n".join(rows) + "\n")
    return path


def train(arguments: list[str], said: Path) -> None:
    """In a process of its own, which has nothing to load."""
    torch.set_num_threads(1)
    with said.open("a") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        os._exit(run(["train", *arguments]))


def found(out: Path) -> tuple[Any, dict[str, bytes]]:
    """What the trainings have found, without times, and all their files."""
    runs = json.loads((out / "results.json").read_text())["runs"]
    records = [{name: value for name, value in each.items() if name != "seconds"} for each in runs]
    files = [*(out / "models").iterdir(), *(out / "scores").iterdir(), out / "model.safetensors"]
    return records, {str(path.relative_to(out)): path.read_bytes() for path in files}


def kill_until_done(csv: Path, out: Path, said: Path, delays: list[float]) -> int:
    """Start the command, kill it after each delay, then let it end; the number of kills in the middle of the work."""
    kills = 0
    for delay in [*delays, 600.0]:
        stored = (out / "settings.json").exists()
        arguments = ["--out", str(out), *(("--resume",) if stored else (str(csv), *OPTIONS))]
        process = FORK.Process(target=train, args=(arguments, said))
        process.start()
        process.join(delay)
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert process.exitcode == 0, said.read_text()
    return kills


def check(csv: Path, folder: Path, moments: list[list[float]]) -> int:
    started = time.monotonic()
    assert kill_until_done(csv, folder / "whole", folder / "said", []) == 0
    whole, wanted = time.monotonic() - started, found(folder / "whole")
    kills = 0
    for k, shares in enumerate(moments):
        for attempt in range(10):  # a machine that has become faster since is through before the kill
            out = folder / f"{k}-{attempt}"
            hits = kill_until_done(csv, out, folder / f"said{k}", [share * whole * 0.7**attempt for share in shares])
            if hits:
                break
        kills += hits
        assert found(out) == wanted
        assert "error" not in (folder / f"said{k}").read_text()
        assert not [path for path in out.rglob("*") if path.name.endswith(".partial")]
        assert not any((out / "checkpoints").iterdir())
    return kills


def test_killed_once(csv: Path, tmp_path: Path) -> None:
    assert check(csv, tmp_path, [[0.4]]) == 1


@pytest.mark.slow
def test_killed_at_twenty_moments(csv: Path, tmp_path: Path) -> None:
    draw = random.Random(0)  # noqa: S311 (any moments will do)
    moments = [[draw.uniform(0.02, 0.95)] for _ in range(20)]
    assert check(csv, tmp_path, moments) == 20
