"""Damage at many places of a run: it is noticed and named, and what can be computed again is."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from setwise.cli.app import run
from setwise.experiments import comparison
from setwise.experiments.comparison import ComparisonSettings, compare
from support.runs import Stopped, Watch

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
    "delete": lambda *_: None,
}
FILES = (
    "settings.json",
    "runs.jsonl",
    "results.json",
    "report.html",
    "model.safetensors",
    "models/seed0-auc.safetensors",
    "models/seed1-cross_entropy.safetensors",
    "scores/seed0-cross_entropy.npz",
    "scores/seed1-auc.npz",
)
CHECKPOINT = "checkpoints/seed1-cross_entropy/last.ckpt"
UNUSED = {  # by each command: nothing is wrong with its answer where these are damaged
    "evaluate": {"runs.jsonl", "report.html"},
    "predict": set(FILES) - {"model.safetensors"},
}


def write_table(path: Path, rows: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 2))
    labels = x[:, 0] + generator.normal(size=rows) > 0.5
    path.write_text("a,b,y\n" + "".join(f"{a:.4f},{b:.4f},{int(y)}\n" for (a, b), y in zip(x, labels, strict=True)))


@pytest.fixture(scope="module")
def no_page() -> Iterator[None]:
    """Drawing takes longer than the trainings here: a short page with its checksum stands for it."""
    from setwise._files import seal_page, write_bytes

    with pytest.MonkeyPatch.context() as patch:
        short = seal_page("<!doctype html>\n<p>report").encode()
        patch.setattr(comparison, "write_report", lambda _, path: write_bytes(path, short))
        yield


def make(folder: Path, model: str, *, stop: int = -1) -> Run:
    for name, rows in (("bank", 150), ("new", 20)):
        write_table(folder / f"{name}.csv", rows, rows)
    settings = ComparisonSettings.for_measure(
        "auc", data=str(folder / "bank.csv"), model=model, minority=None, seeds=2, epochs=4, width=4, members=2
    )
    compare(settings, folder / "whole")
    state = folder / "whole"
    if stop > 0:
        state = folder / "stopped"
        with pytest.raises(Stopped):
            compare(settings, state, progress=Watch(stop))
        assert (state / CHECKPOINT).is_file()
    return Run(folder / "whole", state, folder / "new.csv")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, no_page: None) -> Run:  # noqa: ARG001 (for the whole module)
    return make(tmp_path_factory.mktemp("finished"), "network")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, no_page: None) -> Run:  # noqa: ARG001 (for the whole module)
    return make(tmp_path_factory.mktemp("stopped"), "network", stop=11)


@pytest.fixture(scope="module")
def boosted(tmp_path_factory: pytest.TempPathFactory, no_page: None) -> Run:  # noqa: ARG001 (for the whole module)
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return make(tmp_path_factory.mktemp("boosted"), "boosting")


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


def results(out: Path) -> dict[str, Any]:
    """What a run has found, without times."""
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    del found["sha256"]
    for record in found["runs"]:
        del record["seconds"]
    return found


def assert_same(out: Path, whole: Path) -> None:
    assert results(out) == results(whole)
    for path in (*(whole / "models").iterdir(), *(whole / "scores").iterdir(), whole / "model.safetensors"):
        assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name
    assert (out / "report.html").read_bytes() == (whole / "report.html").read_bytes()
    assert not [path for path in out.rglob("*") if path.name.endswith(".partial")]


def one_error(capsys: pytest.CaptureFixture[str], file: str) -> str:
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"setwise: error: [^\n]*\n", output.err), output.err
    assert Path(file).name in output.err
    return output.err


def resume_mends(source: Run, folder: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = damaged(source.state, folder, file, damage)
    code = run(["train", "--out", str(out), "--resume"])
    if file == "settings.json":  # cannot be computed again
        assert code == 2
        assert "--overwrite" in one_error(capsys, file) or damage == "delete"
        data = str(source.new.with_name("bank.csv"))
        options = ["--epochs", "4", "--seeds", "2", "--set", "width=4", "--set", "members=2"]
        assert run(["train", data, *options, "--out", str(out), "--overwrite"]) == 0
        return
    said = capsys.readouterr().err
    assert code == 0, said
    gone = damage == "delete" and file.startswith("checkpoints")  # what is not there cannot be missed
    assert gone or Path(file).name in said
    assert "Traceback" not in said
    assert all(line.startswith("setwise: ") for line in said.splitlines())
    assert_same(out, source.whole)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_resume_computes_again_what_is_damaged(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    resume_mends(finished, tmp_path, file, damage, capsys)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["runs.jsonl", "models/seed0-auc.safetensors", "scores/seed0-auc.npz", CHECKPOINT])
def test_a_stopped_run_goes_on_without_what_is_damaged(
    stopped: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    resume_mends(stopped, tmp_path, file, damage, capsys)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["models/seed0-auc.safetensors", "model.safetensors"])
def test_trees_are_grown_again(
    boosted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, damage: str
) -> None:
    resume_mends(boosted, tmp_path, file, damage, capsys)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_damage_is_an_error_that_names_the_file_or_does_not_matter(
    finished: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, file: str, damage: str
) -> None:
    out = damaged(finished.whole, tmp_path, file, damage)
    further = [str(finished.new)] if command == "predict" else []
    code = run([command, str(out), *further])
    if file not in UNUSED[command]:
        assert code == 2
        one_error(capsys, file)
        return
    assert code == 0
    said = capsys.readouterr().out.replace(str(out), "RUN")
    assert run([command, str(finished.whole), *further]) == 0
    assert said == capsys.readouterr().out.replace(str(finished.whole), "RUN")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["models/seed1-auc.safetensors", "model.safetensors"])
@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_damaged_trees_are_an_error(
    boosted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, file: str, damage: str
) -> None:
    out = damaged(boosted.whole, tmp_path, file, damage)
    unused = command == "predict" and file != "model.safetensors"
    assert run([command, str(out), *([str(boosted.new)] if command == "predict" else [])]) == (0 if unused else 2)
    if not unused:
        one_error(capsys, file)


def test_an_undamaged_run_is_gone_on_with_in_silence(
    finished: Run, stopped: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, source in (("finished", finished), ("stopped", stopped)):
        shutil.copytree(source.state, tmp_path / name)
        assert run(["train", "--out", str(tmp_path / name), "--resume"]) == 0
        assert capsys.readouterr().err == ""
        assert_same(tmp_path / name, source.whole)


def test_a_checkpoint_of_another_training_is_not_gone_on_with(
    stopped: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from setwise.training import Checkpoint

    out = tmp_path / "run"
    shutil.copytree(stopped.state, out)
    Checkpoint(out / CHECKPOINT, network=torch.nn.Linear(1, 1)).save()
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert re.search(r"last\.ckpt is damaged .*starts from its beginning", capsys.readouterr().err)
    assert_same(out, stopped.whole)
