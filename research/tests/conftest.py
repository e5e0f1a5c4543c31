"""As for the product's tests: what is skipped in continuous integration has to be allowed."""

from __future__ import annotations

from support.real_sets import real_set
from support.skips import pytest_configure

__all__ = ["pytest_configure", "real_set"]

collect_ignore = ["conftest.py"]
