"""Damage at many places of a run: it is noticed and named, and what can be computed again is."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from setwise.app.images import comparison
from setwise.app.images.comparison import ComparisonSettings, compare
from setwise.app.run_folder import RunFolder
from setwise.app.settings import TrainSettings
from setwise.app.training import Work, train_table
from setwise.cli.app import run
from support.runs import QUICK, StopAfter, Stopped, Watch, clock_at_rest, small_images, write_table

pytest.importorskip("lightgbm")

Damage = Callable[[bytes, random.Random], bytes | None]


class Run(NamedTuple):
    """A run whose results are known, in a state from which it can be gone on with."""

    whole: Path
    state: Path
    new: Path


def flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(1, len(content))]


def zeros(content: bytes, draw: random.Random) -> bytes:
    """A block that was never written."""
    place = draw.randrange(len(content))
    return content[:place] + b"\0" * min(512, len(content) - place) + content[place + 512 :]


DAMAGES: dict[str, Damage] = {
    "flip": flip,
    "flip another": flip,
    "cut": cut,
    "zeros": zeros,
    "empty": lambda *_: b"",
    "double": lambda content, _: content + content,
    "append": lambda content, _: content + b"\x80more",
    "replaced": lambda *_: b"something else\n",
    "delete": lambda *_: None,
}
FITS = ("fits/logistic-0.safetensors", "fits/lightgbm-2.safetensors")
OUTPUTS = ("results.json", "report.html", "model.safetensors")
FILES = ("settings.json", *OUTPUTS, *FITS)
IMAGE_FILES = (
    "settings.json",
    "runs.jsonl",
    "results.json",
    "report.html",
    "models/seed1-cross_entropy.safetensors",
    "scores/seed0-auc.safetensors",
)
CHECKPOINT = "checkpoints/seed1-cross_entropy/last.ckpt"
IMAGE_OPTIONS = {"minority": None, "seeds": 2, "epochs": 2, "width": 4, "positive": 1, "batch_size": 32}


@pytest.fixture(scope="module")
def steady() -> Iterator[None]:
    with clock_at_rest():
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, steady: None) -> Run:  # noqa: ARG001 (for the whole module)
    """A finished run of a table."""
    folder = tmp_path_factory.mktemp("table")
    for name, rows in (("bank", 150), ("new", 20)):
        write_table(folder / f"{name}.csv", rows, rows)
    assert run(["train", str(folder / "bank.csv"), *QUICK, "--out", str(folder / "whole")]) == 0
    return Run(folder / "whole", folder / "whole", folder / "new.csv")


@pytest.fixture(scope="module")
def stopped_table(table: Run) -> Run:
    """The same run, ended after four of six fits."""
    state = table.whole.with_name("stopped")
    data = str(table.whole.with_name("bank.csv").resolve())
    settings = TrainSettings(data=data, models=("logistic", "lightgbm"), folds=3)
    with pytest.raises(Stopped):
        train_table(data, settings, Work(RunFolder(state), workers=1, progress=StopAfter(4)))
    assert 4 <= len(list((state / "fits").iterdir())) < 6  # the worker may have ended the next one
    return table._replace(state=state)


@pytest.fixture(scope="module")
def no_page() -> Iterator[None]:
    """Drawing takes longer than the trainings here: a short page with its checksum stands for it."""
    from setwise._files import seal_page, write_bytes

    with pytest.MonkeyPatch.context() as patch:
        short = seal_page("<!doctype html>\n<p>report").encode()
        patch.setattr(comparison, "write_report", lambda _, path: write_bytes(path, short))
        yield


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, no_page: None) -> Run:  # noqa: ARG001 (for the whole module)
    """A run of images, finished and stopped."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "pictures").mkdir()
    data = str(small_images(folder / "pictures"))
    settings = ComparisonSettings.for_measure("auc", data=data, **IMAGE_OPTIONS)
    compare(settings, folder / "whole")
    with pytest.raises(Stopped):
        compare(settings, folder / "stopped", progress=Watch(5))
    assert (folder / "stopped" / CHECKPOINT).is_file()
    return Run(folder / "whole", folder / "stopped", folder)


def damaged(source: Path, folder: Path, file: str, damage: str) -> Path:
    """A copy of the run with one file damaged, always in the same way."""
    out = folder / "run"
    shutil.copytree(source, out)
    content = (out / file).read_bytes()
    changed = DAMAGES[damage](content, random.Random(f"{file} {damage}"))  # noqa: S311 (any places will do)
    if changed is None:
        (out / file).unlink()
    else:
        assert changed != content
        (out / file).write_bytes(changed)
    return out


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def assert_same(out: Path, whole: Path) -> None:
    """Every file is the same to the last byte, and there is no other."""
    mine, theirs = files(out), files(whole)
    assert mine.keys() == theirs.keys()
    for name in theirs:
        assert mine[name] == theirs[name], name


def one_error(capsys: pytest.CaptureFixture[str], file: str) -> str:
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"setwise: error: [^\n]*\n", output.err), output.err
    assert Path(file).name in output.err
    return output.err


def only_notes(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r"setwise: (?!error)", line) for line in lines), lines
    return lines


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", [*OUTPUTS, *FITS])
def test_resume_computes_again_what_is_damaged(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    out = damaged(table.state, tmp_path, file, damage)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = only_notes(capsys)
    if damage == "delete" and file in FITS:  # what is not there may have been left out by a time limit
        assert said == []
    else:
        wrong = "is missing: it is written" if damage == "delete" else "damaged|cannot be used|no whole"
        assert len(said) == 1
        assert Path(file).name in said[0]
        assert re.search(wrong, said[0])
        assert "again" in said[0]
    assert_same(out, table.whole)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_stopped_run_goes_on_without_what_is_damaged(
    stopped_table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    out = damaged(stopped_table.state, tmp_path, FITS[0], damage)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = only_notes(capsys)
    assert len(said) == (0 if damage == "delete" else 1)
    assert_same(out, stopped_table.whole)


@pytest.mark.parametrize("damage", DAMAGES)
def test_settings_cannot_be_computed_again(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    out = damaged(table.state, tmp_path, "settings.json", damage)
    before = files(out)
    assert run(["train", "--out", str(out), "--resume"]) == 2
    assert "--overwrite" in one_error(capsys, "settings.json") or damage == "delete"
    assert files(out) == before
    data = str(table.whole.with_name("bank.csv"))
    assert run(["train", data, *QUICK, "--out", str(out)]) == 2
    assert "--overwrite" in one_error(capsys, "run")
    assert run(["train", data, *QUICK, "--out", str(out), "--overwrite"]) == 0
    assert_same(out, table.whole)


def test_damage_everywhere_at_once(table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    shutil.copytree(table.whole, out)
    spared = {"settings.json", ".lock"}
    broken = [name for name in files(out) if name not in spared]
    for name in broken:
        (out / name).write_bytes(cut((out / name).read_bytes(), random.Random(name)))  # noqa: S311 (as above)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = only_notes(capsys)
    assert len(said) == len(broken) == 9
    assert {Path(name).name for name in broken} == {
        re.findall(r"([^/]+?\.(?:safetensors|json|html)) ", line)[0] for line in said
    }
    assert_same(out, table.whole)


@pytest.mark.parametrize("file", FILES)
def test_a_folder_in_the_place_of_a_file_is_said_and_not_removed(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    out = damaged(table.state, tmp_path, file, "delete")
    (out / file).mkdir()
    (out / file / "thesis.tex").write_text("mine")
    before = files(out)
    assert run(["train", "--out", str(out), "--resume"]) == 2
    one_error(capsys, file)
    assert files(out) == before
    (out / file / "thesis.tex").unlink()
    (out / file).rmdir()
    if file != "settings.json":
        assert run(["train", "--out", str(out), "--resume"]) == 0
        assert_same(out, table.whole)


def test_a_file_in_the_place_of_the_folder_of_fits(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(table.whole, out)
    shutil.rmtree(out / "fits")
    (out / "fits").write_text("mine")
    assert run(["train", "--out", str(out), "--resume"]) == 2
    one_error(capsys, "fits")
    assert (out / "fits").read_text() == "mine"


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_cannot_be_read_is_named_and_kept(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    out = tmp_path / "run"
    shutil.copytree(table.whole, out)
    before, read = files(out), Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == out / file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert run(["train", "--out", str(out), "--resume"]) == 2
    assert one_error(capsys, file) == f"setwise: error: Permission denied: {out / file}\n"
    assert files(out) == before


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_predictions_need_the_model_alone(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    out = damaged(table.whole, tmp_path, file, damage)
    code = run(["predict", str(out), str(table.new)])
    if file == "model.safetensors":
        assert code == 2
        one_error(capsys, file)
        return
    assert code == 0
    said = capsys.readouterr().out
    assert run(["predict", str(table.whole), str(table.new)]) == 0
    assert said == capsys.readouterr().out


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "replaced", "delete"])
@pytest.mark.parametrize("file", FILES)
def test_an_evaluation_names_what_is_damaged(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    out = damaged(table.whole, tmp_path, file, damage)
    before = files(out)
    assert run(["evaluate", str(out)]) == 2
    one_error(capsys, file)
    assert files(out) == before


def test_an_evaluation_of_an_undamaged_run_agrees_and_writes_nothing(
    table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(table.whole, out)
    assert run(["evaluate", str(out)]) == 0
    assert capsys.readouterr().err == ""
    assert_same(out, table.whole)


def test_an_undamaged_run_is_gone_on_with_in_silence(
    table: Run, stopped_table: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, source in (("finished", table), ("stopped", stopped_table)):
        shutil.copytree(source.state, tmp_path / name)
        assert run(["train", "--out", str(tmp_path / name), "--resume"]) == 0
        assert capsys.readouterr().err == ""
        assert_same(tmp_path / name, source.whole)


def test_data_that_has_changed_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "bank.csv", tmp_path / "run"
    write_table(data, 120)
    assert run(["train", str(data), "--models", "logistic", "--out", str(out)]) == 0
    before = files(out)
    lines = data.read_text().splitlines(keepends=True)
    data.write_text("".join([*lines[:-1], "0.5,0.5,1\n"]))
    capsys.readouterr()
    assert run(["train", "--out", str(out), "--resume"]) == 2
    assert "it has changed" in one_error(capsys, "run")
    data.unlink()
    assert run(["train", "--out", str(out), "--resume"]) == 2
    one_error(capsys, "bank.csv")
    assert files(out) == before


# ---------------------------------------------------------------- images


def results(out: Path) -> dict[str, Any]:
    """What a run has found, without times."""
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    del found["sha256"]
    for record in found["runs"]:
        del record["seconds"]
    return found


def assert_same_images(out: Path, whole: Path) -> None:
    assert results(out) == results(whole)
    for path in (*(whole / "models").iterdir(), *(whole / "scores").iterdir(), whole / "report.html"):
        assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name
    assert not [path for path in out.rglob("*") if path.name.endswith(".partial")]


def images_resume_mends(
    state: Path, run_: Run, folder: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = damaged(state, folder, file, damage)
    code = run(["train", "--out", str(out), "--resume"])
    if file == "settings.json":  # cannot be computed again
        assert code == 2
        assert "--overwrite" in one_error(capsys, file) or damage == "delete"
        return
    said = only_notes(capsys)
    assert code == 0
    gone = damage == "delete" and file.startswith("checkpoints")  # what is not there cannot be missed
    assert gone or any(Path(file).name in line for line in said)
    assert_same_images(out, run_.whole)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "delete"])
@pytest.mark.parametrize("file", IMAGE_FILES)
def test_resume_computes_again_what_is_damaged_of_images(
    images: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    images_resume_mends(images.whole, images, tmp_path, file, damage, capsys)


@pytest.mark.parametrize("damage", ["flip", "zeros", "delete"])
@pytest.mark.parametrize("file", ["runs.jsonl", "scores/seed0-auc.safetensors", CHECKPOINT])
def test_a_stopped_run_of_images_goes_on_without_what_is_damaged(
    images: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    images_resume_mends(images.state, images, tmp_path, file, damage, capsys)


@pytest.mark.parametrize("damage", ["flip", "delete"])
@pytest.mark.parametrize("file", IMAGE_FILES)
def test_damage_of_images_is_an_error_that_names_the_file_or_does_not_matter(
    images: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    out = damaged(images.whole, tmp_path, file, damage)
    code = run(["evaluate", str(out)])
    if file not in ("runs.jsonl", "report.html"):
        assert code == 2
        one_error(capsys, file)
        return
    assert code == 0
    said = capsys.readouterr().out.replace(str(out), "RUN")
    assert run(["evaluate", str(images.whole)]) == 0
    assert said == capsys.readouterr().out.replace(str(images.whole), "RUN")


def test_a_checkpoint_of_another_training_is_not_gone_on_with(
    images: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from setwise.training import Checkpoint

    out = tmp_path / "run"
    shutil.copytree(images.state, out)
    Checkpoint(out / CHECKPOINT, network=torch.nn.Linear(1, 1)).save()
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert re.search(r"last\.ckpt is damaged .*starts from its beginning", capsys.readouterr().err)
    assert_same_images(out, images.whole)
