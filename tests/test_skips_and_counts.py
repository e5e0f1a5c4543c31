"""What keeps a green run honest: skips that CI refuses, and the counts over several runs of pytest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import counts, skips

ROOT = Path(__file__).resolve().parents[1]
KNOWN, UNKNOWN = "peak memory is read from Linux's account", "no such library"
PASSES = "def test_passes():\n    pass\n"
SKIPS = "import pytest\n\n@pytest.mark.skip(reason={reason!r})\ndef test_skips():\n    pass\n\n\n" + PASSES
INSIDE = "import pytest\n\ndef test_skips():\n    pytest.skip({reason!r})\n\n\n" + PASSES
MODULE = "import pytest\n\npytest.skip({reason!r}, allow_module_level=True)\n"
EXPECTED_FAILURE = (
    "import pytest\n\n@pytest.mark.xfail(reason={reason!r})\ndef test_fails():\n    assert 0\n\n\n" + PASSES
)


def run_pytest(folder: Path, code: str, *arguments: str, ci: str | None) -> subprocess.CompletedProcess[str]:
    """Pytest in a process of its own, with this project's check, on one module that is given and one that passes."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text("from support.skips import pytest_configure\n")
    (folder / "test_given.py").write_text(code)
    (folder / "test_other.py").write_text(PASSES)
    inherited = {k: v for k, v in os.environ.items() if k != "CI" and not k.startswith("PYTEST")}
    environment = (
        inherited
        | {"PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        | ({} if ci is None else {"CI": ci})
    )
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "xdist", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("code", [SKIPS, INSIDE, MODULE], ids=["mark", "call", "module"])
def test_a_skip_with_an_unknown_reason_fails_in_ci(tmp_path: Path, code: str, workers: str) -> None:
    ended = run_pytest(tmp_path, code.format(reason=UNKNOWN), "-n", workers, ci="true")
    assert ended.returncode == 1, ended.stdout
    assert "skips that CI does not allow" in ended.stdout
    assert f"1 skipped: {UNKNOWN}" in ended.stdout
    assert "1 skipped in" in ended.stdout  # pytest's own count is what it was


@pytest.mark.parametrize(
    ("code", "reason", "ci"),
    [
        (SKIPS, KNOWN, "true"),
        (MODULE, KNOWN, "1"),
        (SKIPS, UNKNOWN, None),
        (MODULE, UNKNOWN, "false"),
        (EXPECTED_FAILURE, UNKNOWN, "true"),
        (PASSES, "", "true"),
    ],
)
def test_other_runs_end_as_they_do_without_the_check(tmp_path: Path, code: str, reason: str, ci: str | None) -> None:
    ended = run_pytest(tmp_path, code.format(reason=reason), ci=ci)
    assert ended.returncode == 0, ended.stdout
    assert "does not allow" not in ended.stdout


def test_a_failure_stays_one(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, SKIPS.format(reason=UNKNOWN) + "\n\ndef test_fails():\n    assert 0\n", ci="true")
    assert ended.returncode == 1
    assert "1 failed" in ended.stdout
    assert UNKNOWN in ended.stdout


@pytest.mark.parametrize(
    ("reason", "allowed"),
    [
        ("/data/mnist is not there; `make data` unpacks it", True),
        ("the netlib collection is not here; get it with `make data`", True),
        ("mnist is not there; make data", True),
        (KNOWN, True),
        (f"{KNOWN}, or it is not", False),
        ("no Chromium is installed to open the page with", False),
        ("could not import 'cvxpy': No module named 'cvxpy'", False),
        ("unconditional skip", False),
        ("", False),
    ],
)
def test_the_list_allows_what_it_means(reason: str, *, allowed: bool) -> None:
    assert any(pattern.fullmatch(reason) for pattern in skips.read_allowed()) == allowed


def test_the_list_is_short_and_says_why() -> None:
    lines = [line for line in skips.ALLOWED.read_text(encoding="utf-8").splitlines() if line]
    reasons = [k for k, line in enumerate(lines) if not line.startswith("#")]
    assert len(reasons) <= 5
    assert all(k and lines[k - 1].startswith("#") for k in reasons)


def test_counts_are_added_up_over_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name, code in (("a", SKIPS), ("b", INSIDE), ("c", MODULE)):
        paths.append(tmp_path / f"{name}.xml")
        run_pytest(tmp_path, code.format(reason=KNOWN), "-n", "2", f"--junitxml={paths[-1]}", ci=None)
    assert counts.main(paths) == 0
    assert capsys.readouterr().out == "5 passed, 0 failed, 3 skipped\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (f"{PASSES}\n\ndef test_fails():\n    assert 0\n", "2 passed, 1 failed, 0 skipped\n"),
        (
            "import pytest\n\n@pytest.fixture\ndef broken():\n    assert 0\n\n\ndef test_fails(broken):\n    pass\n",
            "1 passed, 1 failed, 0 skipped\n",
        ),
        ("1 / 0\n", "0 passed, 1 failed, 0 skipped\n"),
    ],
    ids=["call", "fixture", "import"],
)
def test_a_failure_is_counted(tmp_path: Path, code: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_pytest(tmp_path, code, f"--junitxml={tmp_path / 'a.xml'}", ci=None)
    assert counts.main([tmp_path / "a.xml"]) == 1
    assert capsys.readouterr().out == line


def test_a_run_that_executed_nothing_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran, skipped, cut = (tmp_path / f"{name}.xml" for name in ("ran", "skipped", "cut"))
    ran.write_text('<testsuites><testsuite tests="7" errors="0" failures="0" skipped="1"/></testsuites>')
    skipped.write_text('<testsuites><testsuite tests="18" errors="0" failures="0" skipped="18"/></testsuites>')
    cut.write_text('<testsuites><testsuite tests="7"')
    assert counts.main([ran]) == 0
    assert capsys.readouterr() == ("6 passed, 0 failed, 1 skipped\n", "")
    for empty, line in (
        ([skipped], "6 passed, 0 failed, 19 skipped"),
        ([cut], "6 passed, 0 failed, 1 skipped"),
        ([tmp_path / "missing.xml"], "6 passed, 0 failed, 1 skipped"),
    ):
        assert counts.main([ran, *empty]) == 1
        out, err = capsys.readouterr()
        assert out == f"{line}\n"
        assert err == f"{empty[0]}: no test was executed\n"
    assert counts.main([]) == 1


MAKE = """#!/bin/sh
# In place of make: the parts named in BREAK fail, and one that is given a file for its results leaves some there.
for last in "$@"; do case "$last" in *--junitxml=*)
    mkdir -p runs/ci
    echo "<testsuites><testsuite tests='$TESTS' errors='0' failures='0' skipped='0'/></testsuites>" > "${last##*=}"
esac; done
echo "make $1, CI=$CI"
case " $BREAK " in *" $1 "*) exit 2 ;; esac
"""
PARTS = [".venv/.dev", "browser", "data", "lint", "test", "test-research", "test-browser", "bench-quick"]


def ci_run(folder: Path, broken: str = "", tests: int = 7) -> tuple[int, list[str]]:
    """The exit code and the lines of `.ci/run`, with a make that does nothing."""
    (folder / "repo" / "tests" / "support").mkdir(parents=True)
    (folder / "bin").mkdir()
    for name in (".ci/run", "tests/support/counts.py"):
        (folder / "repo" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / "repo" / name)
    make = folder / "bin" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHON": sys.executable}
    environment = os.environ | path | {"CI": "true", "BREAK": broken, "TESTS": str(tests)}
    command = ["bash", str(folder / "repo" / ".ci" / "run")]
    ended = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout.splitlines()


def test_the_ci_run_ends_with_the_counts_of_all_parts(tmp_path: Path) -> None:
    code, lines = ci_run(tmp_path)
    assert code == 0
    assert sorted(lines[:-1]) == sorted(f"make {part}, CI=true" for part in PARTS)
    assert lines[-1] == "21 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("broken", [*PARTS, "lint bench-quick"])
def test_a_part_that_fails_fails_the_ci_run_after_the_others(tmp_path: Path, broken: str) -> None:
    code, lines = ci_run(tmp_path, broken)
    assert code == 1
    assert len(lines) == len(PARTS) + 2
    assert lines[-2:] == [f"failed: {broken}", "21 passed, 0 failed, 0 skipped"]


def test_the_ci_run_fails_where_no_test_was_executed(tmp_path: Path) -> None:
    code, lines = ci_run(tmp_path, tests=0)
    assert code == 1
    assert lines[-1] == "0 passed, 0 failed, 0 skipped"


def test_every_make_target_is_named_for_contributors() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert targets
    named = set(
        re.findall(r"^make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert named == set(targets[1].split())
