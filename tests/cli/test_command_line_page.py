"""The commands of docs/command-line.md run as they are written, on a small table with the columns they name."""

from __future__ import annotations

import importlib.util
import inspect
import lzma
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from setwise.cli.app import app, run

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
QUICK = ("--models", "logistic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table like Adult, and new rows without its target."""
    generator = np.random.default_rng(0)
    lines, new = ["age,workclass,sex,hours_per_week,income,split"], ["age,workclass,sex,hours_per_week"]
    for k in range(400):
        age, hours = int(generator.integers(17, 80)), int(generator.integers(10, 70))
        cells = f"{age},{('Private', '?', 'State-gov')[k % 3]},{('Male', 'Female')[k % 2]},{hours}"
        income = ">50K" if age + hours + generator.normal(0, 20) > 115 else "<=50K"
        lines.append(f"{cells},{income},{'test' if k % 3 == 0 else 'train'}")
        new.append(cells)
    made = tmp_path_factory.mktemp("adult")
    (made / "adult.csv.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    (made / "new.csv").write_text("\n".join(new[:30]) + "\n")
    for name in ("scores.csv", "cal.csv"):
        fraud = generator.random(500) < 0.2
        logits = generator.normal(size=(2, 500)) + 2 * fraud
        rows = zip(*(1 / (1 + np.exp(1.5 - logits))), fraud, strict=True)
        text = [f"{p},{q},{'FM'[k % 2]},{('ok', 'fraud')[int(y)]}" for k, (p, q, y) in enumerate(rows)]
        (made / name).write_text("\n".join(["p,q,sex,y", *text]) + "\n")
    return made


def test_there_are_eight() -> None:
    assert len(COMMANDS) == 8
    assert all(command.startswith("setwise ") for command in COMMANDS)


@pytest.mark.parametrize("number", range(8))
def test_commands_run_as_written(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words = shlex.split(COMMANDS[number])[1:]
    quick = QUICK if words[0] == "train" and "--models" not in words else ()
    if "lightgbm" in "".join(words) and importlib.util.find_spec("lightgbm") is None:
        pytest.skip("LightGBM is not installed")
    assert run([*words, *quick]) == 0
    if words[0] == "predict":
        assert len((folder / "predictions.csv").read_text().splitlines()) == 30
    if words[0] == "train":
        assert {"report.html", "model.safetensors"} <= {path.name for path in (folder / words[-1]).iterdir()}


def test_options_on_the_page_exist() -> None:
    known = set()
    for command in app.registered_commands:
        names = inspect.signature(command.callback or run).parameters
        known |= {f"--{name.strip('_').replace('_', '-')}" for name in names}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known


def test_links_and_pictures_are_there() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    for link in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert link.startswith("https://") or (docs / link).exists(), link
