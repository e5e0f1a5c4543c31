"""A disk that is full: one line with the file's name, nothing half written, and the same command works afterwards."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import setwise
from setwise.cli.app import run
from setwise.training import Checkpoint
from support.runs import QUICK, clock_at_rest, small_images, write_table

# Without bytecode: Python would keep a part of a file of its own as if it were whole.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(setwise.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
LIMITED = """
import resource, sys, time
from setwise.cli import main
time.thread_time = lambda: 0.0
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
main()
"""
pytest.importorskip("lightgbm")
IMAGES = ("--seeds", "1", "--epochs", "2", "--minority", "0", "--set", "width=4")
# Bytes that a file may have: each fails at another place, the second at a fit of trees.
SIZES = [1800, 12_000, *(pytest.param(size, marks=pytest.mark.slow) for size in (10, 200, 1000, 30_000, 60_000))]
WRITES = 10  # of a training: the settings, six fits, the model, the results and the page


@pytest.fixture(scope="module", autouse=True)
def steady() -> Iterator[None]:
    """So that what is gone on with is the same to the last byte as what was never stopped."""
    with clock_at_rest():
        yield


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    write_table(path, 120)
    return path


def limited(size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process whose files cannot be larger than this."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )


def no_leftovers(folder: Path) -> None:
    assert not [path for path in folder.rglob("*") if path.name.endswith((".partial", ".part"))]


@pytest.fixture(scope="module")
def whole(csv: Path) -> Path:
    """A run that met no full disk."""
    assert run(["train", str(csv), "--out", str(csv.with_name("whole")), *QUICK]) == 0
    return csv.with_name("whole")


def start_again(csv: Path, out: Path, whole: Path) -> None:
    """The same command, or --resume where it has begun: it ends as it would have, and nothing done is lost."""
    stored = (out / "settings.json").exists()
    fits = {path.name: path.stat().st_mtime_ns for path in (out / "fits").glob("*")}
    again = ["train", "--out", str(out), "--resume"] if stored else ["train", str(csv), "--out", str(out), *QUICK]
    assert run(again) == 0
    assert all((out / "fits" / name).stat().st_mtime_ns == written for name, written in fits.items())
    for path in whole.rglob("*.*"):
        if path.is_file() and path.name != ".lock":
            assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("size", SIZES)
def test_training_says_which_file_and_goes_on_later(
    csv: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    out = tmp_path / "out"
    done = limited(size, "train", str(csv), "--out", str(out), *QUICK)
    assert done.returncode == 2
    assert re.fullmatch(rf"setwise: error: File too large: {re.escape(str(out))}/\S+\n", done.stderr), done.stderr
    no_leftovers(out)
    start_again(csv, out, whole)
    assert "error" not in capsys.readouterr().err


@pytest.fixture
def full_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Let the n-th file that is written find the disk full."""

    def install(number: int) -> list[int]:
        calls: list[int] = []
        fsync = os.fsync

        def fail(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        return calls

    return install


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_every_write_of_a_training(
    csv: Path,
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    full_at: Callable[[int], list[int]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    out = tmp_path / "out"
    full_at(number)
    assert run(["train", str(csv), "--out", str(out), *QUICK]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"setwise: error: No space left on device: {re.escape(str(out))}/\S+\n", said), said
    no_leftovers(out)
    monkeypatch.undo()
    with clock_at_rest():
        start_again(csv, out, whole)
    assert "error" not in capsys.readouterr().err


def test_a_training_writes_no_more_than_that(csv: Path, tmp_path: Path, full_at: Callable[[int], list[int]]) -> None:
    calls = full_at(WRITES + 1)
    assert run(["train", str(csv), "--out", str(tmp_path / "out"), *QUICK]) == 0
    assert len(calls) == WRITES


@pytest.mark.parametrize("number", [1, 2, 4, 7])
def test_writes_of_a_training_on_images(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    full_at: Callable[[int], list[int]],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    out = tmp_path / "out"
    (tmp_path / "pictures").mkdir()
    command = ["train", str(small_images(tmp_path / "pictures")), "--out", str(out), *IMAGES]
    full_at(number)
    assert run(command) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(rf"setwise: error: No space left on device: {re.escape(str(out))}/\S+\n", said), said
    no_leftovers(out)
    monkeypatch.undo()
    assert run(["train", "--out", str(out), "--resume"] if (out / "settings.json").exists() else command) == 0
    assert "error" not in capsys.readouterr().err


def test_predictions_evaluations_and_pages(
    csv: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(["train", str(csv), "--out", str(tmp_path / "run"), *QUICK]) == 0
    table = str(tmp_path / "scores.csv")
    shutil.copy(csv, table)
    evaluate = ["evaluate", table, "--score", "a", "--target", "y"]
    commands: dict[str, list[str]] = {
        "out.csv": ["predict", str(tmp_path / "run"), str(csv), "--out", str(tmp_path / "out.csv")],
        "page.html": [*evaluate, "--out", str(tmp_path / "page.html")],
        "all.json": [*evaluate, "--json", str(tmp_path / "all.json")],
    }
    for name, command in commands.items():
        (tmp_path / name).write_text("before")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            capsys.readouterr()
            assert run(command) == 2
        assert capsys.readouterr().err == f"setwise: error: No space left on device: {tmp_path / name}\n"
        assert (tmp_path / name).read_text() == "before"
        no_leftovers(tmp_path)
        assert run(command) == 0


def full(_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_standard_output(csv: Path, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    assert run(["train", str(csv), "--out", str(tmp_path / "run"), *QUICK]) == 0
    with Path("/dev/full").open("w") as output:
        done = subprocess.run(
            [sys.executable, "-c", "from setwise.cli import main; main()", "predict", str(tmp_path / "run"), str(csv)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.endswith("setwise: error: No space left on device: standard output\n")
    assert "Exception" not in done.stderr


def test_a_checkpoint_keeps_the_one_before(tmp_path: Path) -> None:
    import torch

    checkpoint = Checkpoint(tmp_path / "run.pt", model=torch.nn.Linear(100, 100))
    checkpoint.save()
    script = (
        "import resource, sys, torch\nfrom setwise.training import Checkpoint\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))\n"
        "try:\n    Checkpoint(sys.argv[1], model=torch.nn.Linear(100, 100)).save()\n"
        "except OSError as error:\n    print(error.strerror, error.filename)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "run.pt")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=True,
    )
    assert done.stdout == f"File too large {tmp_path / 'run.pt'}\n"
    assert checkpoint.load()
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
