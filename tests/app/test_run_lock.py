"""A run folder is for one process at a time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import setwise
from setwise._checks import InputError
from setwise.app import run_lock
from setwise.app.run_folder import RunFolder
from setwise.cli.app import run
from setwise.experiments import comparison

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(setwise.__file__).parents[1])}
HOLD = """
import sys, time
from pathlib import Path
from setwise.app import run_lock
with run_lock.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    x = np.random.default_rng(0).normal(size=120)
    path.write_text("a,y\n" + "".join(f"{value:.3f},{int(value > 0.5)}\n" for value in x))
    return path


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A folder that another process has locked."""
    out = tmp_path / "out"
    out.mkdir()
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    yield out, other
    other.kill()
    other.wait()


@pytest.mark.parametrize("option", [(), ("--resume",), ("--overwrite",)])
def test_a_second_training_is_told_who_is_at_work(
    held: tuple[Path, subprocess.Popen[str]], csv: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    out, other = held
    RunFolder(out).create({}, "") if option else None
    before = {path: path.read_bytes() for path in out.iterdir()}
    source = [] if "--resume" in option else [str(csv)]
    assert run(["train", *source, "--out", str(out), "--seeds", "1", "--epochs", "1", *option]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        rf"setwise: error: .*another setwise \(process {other.pid}\) is at work in it; .*another --out\.\n", said
    ) or (option == ("--resume",) and "settings.json" in said)
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_killed_process_leaves_the_folder_free(
    held: tuple[Path, subprocess.Popen[str]], csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = held
    other.kill()
    other.wait()
    options = ["--out", str(out), "--seeds", "1", "--epochs", "1"]
    assert run(["train", str(csv), *options]) == 0
    assert run(["train", str(csv), *options]) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(["train", str(csv), *options, "--overwrite"]) == 0


def test_the_lock_is_kept_between_threads_and_given_back(tmp_path: Path) -> None:
    refused: list[str] = []

    def enter() -> None:
        try:
            with run_lock.locked(tmp_path):
                pass
        except InputError as error:
            refused.append(str(error))

    with run_lock.locked(tmp_path):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert f"process {os.getpid()}" in refused[0]
    enter()
    assert len(refused) == 1


def test_leftovers_are_no_other_files(csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".lock").touch()
    (out / ".settings.json.partial").write_text("{")
    assert run(["train", str(csv), "--out", str(out), "--seeds", "1", "--epochs", "1"]) == 0
    assert not (out / ".settings.json.partial").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "settings.json", "models/weights.pt"])
def test_folders_of_others_are_never_touched(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text('{"editor.fontSize": 12}')
    for option in ("--overwrite", "--resume", ""):
        source = [] if option == "--resume" else [str(csv)]
        assert run(["train", *source, "--out", str(out), *filter(None, [option])]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert [path for path in out.rglob("*") if path.is_file()] == [out / name]
    assert (out / name).read_text() == '{"editor.fontSize": 12}'


def test_somebody_elses_lock_file_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")
    with run_lock.locked(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "mine"
    assert not run_lock.is_marked(tmp_path)
