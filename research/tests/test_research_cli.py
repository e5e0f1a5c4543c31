"""The command line: the benchmark suite's command, help, and errors as those of the product."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from setwise_research.benchmark_suite import Cell
from setwise_research.cli.app import run


def test_the_benchmark_suite_is_written_from_stored_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("setwise_research.benchmark_suite.page.all_cells", lambda: [Cell("made up")])
    runs, page = tmp_path / "runs.csv", tmp_path / "suite.md"
    assert run(["benchmark-suite", "--dry", "--runs", str(runs), "--page", str(page)]) == 0
    assert "nothing has been run" in page.read_text(encoding="utf-8")
    assert page.with_suffix(".png").is_file()
    assert f"Written: {page}" in "".join(capsys.readouterr().out.split("\n"))


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    told = capsys.readouterr().out
    assert "reproduce" in told
    assert "benchmark-suite" in told
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"setwise-research {importlib.metadata.version('setwise-research')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["outcome"], "No such command 'outcome'"),
        (["benchmark-suite", "--data"], "requires an argument"),
        (["benchmark-suite", "--dry", "--threads", "0"], "`threads` to be at least 1"),
        (["benchmark-suite", "--method", "mine", "--runs", "runs.csv"], "'mine'"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("setwise-research: error: ")
    assert output.err.count("\n") == 1
    assert message in output.err


def test_console_script_ends_with_the_exit_code(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from setwise_research.cli import main; main()"]
    done = subprocess.run(
        [*program, "benchmark-suite", "--data"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("setwise-research: error: ")
