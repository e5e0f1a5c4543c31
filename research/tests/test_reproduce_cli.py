from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from setwise_research.cli import reproducing
from setwise_research.cli.app import run
from setwise_research.reproduce import Entry, Preset, registry

RATES = {"adamw": [0.01], "recipe": [0.01]}
PARTS = [{"methods": ["cross_entropy", "ours"], "levels": [80, 50]}]
TINY = Preset.from_dict(
    {"data": ["catdog"], "parts": PARTS, "rates": RATES, "tune_level": 80, "seeds": 1, "steps": 4, "judgements": 2}
    | {"batch_size": 16, "width": 2, "validation": 0.25, "algorithm": "adamw", "schedule": "one_cycle"}
)


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small data, and presets that take a second."""
    folder = tmp_path / "data" / "catdog64"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for split in ("train", "test"):
        labels = np.arange(120) % 2
        pictures = generator.integers(0, 200, size=(120, 8, 8, 3)) + 25 * labels[:, None, None, None]
        np.save(folder / f"{split}_images.npy", pictures.astype(np.uint8))
        np.save(folder / f"{split}_labels.npy", labels)
    monkeypatch.setenv("SETWISE_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def small(name: str) -> Entry:
        found = registry.entry(name)
        return replace(found, presets={**found.presets, "quick": TINY})

    monkeypatch.setattr(reproducing, "entry", small)
    monkeypatch.setattr(reproducing, "entries", lambda: tuple(map(small, ("binary-auc", "f-score"))))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("setwise-research: error: ")
    return output.err


def test_a_table_is_run_written_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "binary-auc", "--only", "level=80", "--only", "method=cross_entropy,ours"]) == 0
    printed = capsys.readouterr().out
    assert "| Method | 80 % | s / iteration | rate |" in printed
    assert re.search(r"\| Ours \(Recipe\) \| [+-]0\.\d{3} \|", printed)
    out = Path("runs/reproduce/binary-auc")
    assert {path.name for path in out.iterdir()} >= {"runs.jsonl", "table.md", "table.csv", "table.png"}
    assert len((out / "runs.jsonl").read_text().splitlines()) == 2
    assert run(["reproduce", "binary-auc"]) == 0
    assert len((out / "runs.jsonl").read_text().splitlines()) == 4, "what was done is not done again"
    capsys.readouterr()
    assert run(["reproduce", "--list"]) == 0
    listed = capsys.readouterr().out
    row = " ".join(listed.split("f-score")[0].split())
    assert "binary-auc" in row
    assert "4/4" in row
    assert "14 core-minutes" in row
    assert "AUROC of ours" in row
    assert "stl10 (absent)" in " ".join(listed.split())
    assert "0/4" in listed, "the f-score has not been run"


def test_other_data_seeds_and_folder(tmp_path: Path) -> None:
    options = ["--data", "catdog", "--seeds", "2", "--out", str(tmp_path / "here"), "--threads", "1", "--device", "cpu"]
    assert run(["reproduce", "f-score", "--only", "level=50", "--only", "method=ours", *options]) == 0
    assert len((tmp_path / "here" / "f-score" / "runs.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Expected the NAME of a table"),
        (["auc"], "but got 'auc'"),
        (["binary-ac"], "Did you mean 'binary-auc'?"),
        (["f-score", "--preset", "full"], "`preset` to be one of 'quick', 'paper', but got 'full'"),
        (["f-score", "--data", "mnist"], "`data` to be one of"),
        (["f-score", "--data", "stl10"], "stl10"),
        (["f-score", "--only", "ours"], "PART=VALUE, such as method=ours, but got 'ours'"),
        (["f-score", "--only", "method=mine"], "--only method= one of cross_entropy, ours, but got 'mine'"),
        (["f-score", "--seeds", "0"], "`seeds`"),
        (["f-score", "--threads", "0"], "`threads`"),
        (["f-score", "--device", "tpu"], "`device` to be one of 'cpu', 'gpu', 'auto'"),
    ],
)
def test_errors_are_one_helpful_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *arguments]) == 2
    assert message in one_line(capsys)
    assert not Path("runs").exists()


def test_ctrl_c_says_how_to_go_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproducing, "job", stopped)
    assert run(["reproduce", "f-score"]) == 130
    assert capsys.readouterr().err == "setwise-research: stopped. The same command goes on with it.\n"


def test_it_takes_no_time_to_ask_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--help"]) == 0
    assert "--list" in capsys.readouterr().out
