"""Finished runs on disk: one JSON line each, appended when the run is done, so that hours can be spread."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setwise.app.files import plain


class RunLog:
    """The lines of one table.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def records(self) -> dict[str, dict[str, Any]]:
        """Records by their key, the last of equals; lines that a kill cut short are left out."""
        records: dict[str, dict[str, Any]] = {}
        for line in self._text().splitlines():
            try:
                record = json.loads(line)
                records[str(record["key"])] = record
            except (ValueError, KeyError, TypeError):
                continue
        return records

    def append(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Add one line, and be sure that it is on disk."""
        stored: dict[str, Any] = plain(record)
        line = json.dumps(stored, allow_nan=False) + "\n"
        text = self._text()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line if text == "" or text.endswith("\n") else "\n" + line)  # after a line that was cut short
            file.flush()
            os.fsync(file.fileno())
        return stored

    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path.is_file() else ""


def commit() -> str | None:
    """The commit of this package's source, with ``-dirty`` where files differ from it; None outside a repository."""
    git, here = shutil.which("git"), Path(__file__).resolve()
    if git is None:
        return None

    def ask(*words: str) -> str | None:
        run = subprocess.run([git, "-C", str(here.parent), *words], capture_output=True, text=True, check=False)  # noqa: S603 (git's own path)
        return run.stdout.strip() if run.returncode == 0 else None

    if ask("ls-files", "--error-unmatch", here.name) is None:  # installed inside some other repository
        return None
    head = ask("rev-parse", "HEAD")
    return f"{head}-dirty" if head and ask("status", "--porcelain", "--untracked-files=no", ".") else head
