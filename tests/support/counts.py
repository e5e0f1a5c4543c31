"""Test counts over several runs of pytest, from their JUnit files: ``counts.py a.xml b.xml ...``.

Prints one line, ``N passed, N failed, N skipped``, and exits with 1 where a file is missing, where a run executed
nothing, or where something failed.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import NamedTuple


class Counts(NamedTuple):
    """How many tests of a run ended which way; an error in a fixture or in the collection is a failure."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


def read(path: Path) -> Counts:
    """The counts of one file; none where there is no such file or where it is not complete."""
    try:
        suites = ET.parse(path).getroot().iter("testsuite")  # noqa: S314 (pytest wrote it a moment ago)
    except (OSError, ET.ParseError):
        return Counts()
    total = Counts()
    for suite in suites:
        tests, errors, failures, skipped = (int(suite.get(k, 0)) for k in ("tests", "errors", "failures", "skipped"))
        total = total.plus(Counts(tests - errors - failures - skipped, errors + failures, skipped))
    return total


def main(paths: list[Path]) -> int:
    """Print the sum, and say whether it stands for tests that all ran and none of which failed."""
    total = Counts()
    empty = [path for path in paths if not any(read(path)[:2])]
    for path in paths:
        total = total.plus(read(path))
    for path in empty:
        sys.stderr.write(f"{path}: no test was executed\n")
    sys.stderr.flush()
    sys.stdout.write(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped\n")
    return int(bool(empty) or not paths or total.failed > 0)


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
