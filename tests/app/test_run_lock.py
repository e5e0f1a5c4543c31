"""A run folder is for one process at a time."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
import time
from collections.abc import Iterator
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from setwise._checks import InputError
from setwise.app import run_lock
from setwise.app.run_folder import TABLE, RunFolder
from setwise.app.settings import TrainSettings
from setwise.cli.app import run
from support.runs import small_images, write_table

FORK = multiprocessing.get_context("fork")
OPTIONS = ("--models", "logistic", "--folds", "2")


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    write_table(path, 120)
    return path


def hold(out: Path, ready: Event) -> None:
    """In a process of its own: lock the folder and stay."""
    with run_lock.locked(out):
        ready.set()
        time.sleep(60)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, ForkProcess]]:
    """A folder that another process has locked."""
    out, ready = tmp_path / "out", FORK.Event()
    out.mkdir()
    other = FORK.Process(target=hold, args=(out, ready))
    other.start()
    assert ready.wait(30)
    yield out, other
    other.kill()
    other.join()


@pytest.mark.parametrize("option", [(), ("--resume",), ("--overwrite",)])
def test_a_second_training_is_told_who_is_at_work(
    held: tuple[Path, ForkProcess], csv: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    out, other = held
    if option:
        RunFolder(out).create(TABLE, TrainSettings(data=str(csv.resolve())).to_dict(), "")
    before = {path: path.read_bytes() for path in out.iterdir()}
    source = [] if "--resume" in option else [str(csv)]
    assert run(["train", *source, "--out", str(out), *([] if "--resume" in option else OPTIONS), *option]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(
        rf"setwise: error: .*another setwise \(process {other.pid}\) is at work in it; .*another --out\.\n", said
    )
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_killed_process_leaves_the_folder_free(
    held: tuple[Path, ForkProcess], csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other = held
    other.kill()
    other.join()
    options = ["--out", str(out), *OPTIONS]
    assert run(["train", str(csv), *options]) == 0
    assert run(["train", str(csv), *options]) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(["train", str(csv), *options, "--overwrite"]) == 0


def test_a_training_on_images_takes_the_same_lock(
    held: tuple[Path, ForkProcess], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pictures").mkdir()
    pictures = small_images(tmp_path / "pictures")
    options = ["--seeds", "1", "--epochs", "1", "--minority", "0", "--out", str(held[0])]
    assert run(["train", str(pictures), *options]) == 2
    assert f"process {held[1].pid}" in capsys.readouterr().err
    assert [path.name for path in held[0].iterdir()] == [".lock"]


def test_what_only_reads_a_run_does_not_wait_for_it(csv: Path, tmp_path: Path) -> None:
    assert run(["train", str(csv), "--out", str(tmp_path / "run"), *OPTIONS]) == 0
    with run_lock.locked(tmp_path / "run"):
        assert run(["predict", str(tmp_path / "run"), str(csv), "--out", str(tmp_path / "out.csv")]) == 0
        assert run(["train", "--out", str(tmp_path / "run"), "--resume"]) == 2


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
    assert run(["train", str(csv), "--out", str(out), *OPTIONS]) == 0
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
