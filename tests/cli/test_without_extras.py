"""The commands run where Lightning, matplotlib and YAML are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.runs import small_images, write_table

pytest.importorskip("lightgbm")

BLOCKED = ("lightning", "pytorch_lightning", "matplotlib", "yaml")
SCRIPT = f"""
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocked())
from setwise.cli.app import run

table, new, pictures = sys.argv[1:]
small = ["--seeds", "2", "--epochs", "1", "--minority", "0", "--set", "width=4"]
codes = [
    run(["inspect", table]),
    run(["train", table, "--folds", "2", "--workers", "1", "--out", "table"]),
    run(["evaluate", "table"]),
    run(["predict", "table", new, "--out", "new-scores.csv"]),
    run(["evaluate", table, "--score", "a", "--target", "y", "--out", "page.html"]),
    run(["train", pictures, *small, "--out", "images"]),
    run(["evaluate", "images"]),
]
print(codes, [name for name in {BLOCKED!r} if name in sys.modules], file=sys.stderr)
"""


def test_no_command_needs_lightning_matplotlib_or_yaml(tmp_path: Path) -> None:
    for name, rows in (("bank", 120), ("new", 5)):
        write_table(tmp_path / f"{name}.csv", rows)
    (tmp_path / "pictures").mkdir()
    small_images(tmp_path / "pictures")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "bank.csv", "new.csv", "pictures"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "[0, 0, 0, 0, 0, 0, 0] []", done.stderr
    for page in ("table/report.html", "page.html", "images/report.html"):
        assert (tmp_path / page).is_file()
