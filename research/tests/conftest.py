"""For all tests: what is skipped in continuous integration has to be allowed."""

from __future__ import annotations

from support.skips import pytest_configure

__all__ = ["pytest_configure"]

collect_ignore = ["conftest.py"]  # for doctests it would be imported by a name that the folders' own ones have too
