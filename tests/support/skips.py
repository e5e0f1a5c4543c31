"""Skipped tests in continuous integration: a reason that nobody has allowed fails the run.

On a developer's machine a skip is a remark, since much is optional there. Where ``CI`` is set, a test that did not run
is a test that did not pass, unless its reason stands in ``tests/allowed_skips.txt``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

ALLOWED = Path(__file__).resolve().parents[1] / "allowed_skips.txt"


def in_ci(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ``CI`` says that a machine and not a person waits for the outcome."""
    return environment.get("CI", "").lower() not in ("", "0", "false")


def read_allowed(path: Path = ALLOWED) -> list[re.Pattern[str]]:
    """The patterns of a list of reasons: one per line, empty lines and lines that begin with # left out."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [re.compile(line) for line in lines if line and not line.startswith("#")]


class SkipCheck:
    """Collects the reasons of all skips of a run, also those of other processes, and fails it on one not allowed."""

    def __init__(self, allowed: list[re.Pattern[str]]) -> None:
        self.allowed = allowed
        self.refused: Counter[str] = Counter()

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):  # an expected failure did run
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            reason = text.removeprefix("Skipped: ")
            if not any(pattern.fullmatch(reason) for pattern in self.allowed):
                self.refused[reason] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:  # a module that skips itself as a whole
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield  # pytest's own summary first: this is to stand below it
        if self.refused:
            terminalreporter.section(f"skips that CI does not allow, see tests/{ALLOWED.name}", red=True)
            for reason, count in self.refused.items():
                terminalreporter.line(f"{count} skipped: {reason}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Put the check in place, in the process that reports (with xdist the others only run tests)."""
    if in_ci() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipCheck(read_allowed()))
