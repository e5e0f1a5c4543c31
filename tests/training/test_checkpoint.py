"""Checkpoints: atomic, complete, and a killed training ends as if nothing had happened."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import setwise
from setwise.training import Checkpoint
from support import killable

SCRIPT = Path(killable.__file__)
FORK = multiprocessing.get_context("fork")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(setwise.__file__).parents[1])}


def states(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / "final.pt", weights_only=True)
    return found


def killed_and_resumed(folder: Path, variant: str, delay: float) -> int:
    """Kill the training after a delay, start it again in a process that knows nothing; how many kills it took."""
    folder.mkdir()
    process = FORK.Process(target=killable.train, args=(folder, variant))  # a fork has nothing to load
    process.start()
    while not (folder / "run.pt").exists() and process.is_alive():
        time.sleep(0.01)
    time.sleep(delay)
    process.kill()
    process.join()
    subprocess.run([sys.executable, str(SCRIPT), str(folder), variant], env=ENVIRONMENT, check=True)
    return int(process.exitcode == -signal.SIGKILL)


def check(tmp_path: Path, variant: str, delays: list[float]) -> None:
    (tmp_path / "whole").mkdir()
    killable.train(tmp_path / "whole", variant, pause=0.0)
    wanted, kills = states(tmp_path / "whole"), 0
    for k, delay in enumerate(delays):
        kills += killed_and_resumed(tmp_path / str(k), variant, delay)
        torch.testing.assert_close(states(tmp_path / str(k)), wanted, rtol=0, atol=0)
    assert kills == len(delays)  # every one was in the middle of the work


@pytest.fixture
def one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_killed_training_goes_on_bit_for_bit(tmp_path: Path) -> None:
    check(tmp_path, "partial_touched", [0.2])


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("variant", ["exact", "partial_touched", "full"])
def test_twenty_kill_points(tmp_path: Path, variant: str) -> None:
    draw = random.Random(0)  # noqa: S311 (any points will do)
    check(tmp_path, variant, [draw.uniform(0, 0.5) for _ in range(20)])


def test_a_save_that_fails_keeps_the_file_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 1)
    checkpoint = Checkpoint(tmp_path / "run.pt", model=model)
    checkpoint.save()
    before = (tmp_path / "run.pt").read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    nn.init.ones_(model.weight)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save()
    assert (tmp_path / "run.pt").read_bytes() == before


def test_random_numbers_go_on(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.pt")
    checkpoint.save()
    wanted = torch.rand(3)
    torch.manual_seed(5)
    assert checkpoint.load()
    assert torch.equal(torch.rand(3), wanted)


def test_every_counts_on_after_a_resume(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "run.pt")
    for _ in range(4):
        first.save(every=3)
    again = Checkpoint(tmp_path / "run.pt")
    again.load()
    stamp = (tmp_path / "run.pt").stat().st_mtime_ns
    again.save(every=3)
    again.save(every=3)
    assert (tmp_path / "run.pt").stat().st_mtime_ns == stamp
    again.save(every=3)
    assert (tmp_path / "run.pt").stat().st_mtime_ns != stamp


def test_refuses(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`sampler` to have a state_dict"):
        Checkpoint(tmp_path / "run.pt", sampler=[1])
    Checkpoint(tmp_path / "run.pt", model=nn.Linear(1, 1)).save()
    with pytest.raises(ValueError, match=r"states of head, model, but .* holds those of model"):
        Checkpoint(tmp_path / "run.pt", model=nn.Linear(1, 1), head=nn.Linear(1, 1)).load()
