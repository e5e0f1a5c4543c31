"""Without CVXPY the integration can be imported, and says which extra to install when it is used."""

from __future__ import annotations

import sys

import pytest

from setwise.integrations.cvxpy import CvxpyLayer


def test_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"setwise\[cvxpy\]"):
        CvxpyLayer(object(), [], [])
