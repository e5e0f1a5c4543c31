"""For all tests: what is skipped in continuous integration has to be allowed, and workers share the cores."""

from __future__ import annotations

import os

from support.skips import pytest_configure

__all__ = ["pytest_configure"]

# Before torch is imported, for processes that the tests start too: threads of several workers wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

collect_ignore = ["conftest.py"]  # for doctests it would be imported by a name that the folders' own ones have too
