"""Automated model selection for a measure, on tables and images: what the commands do, also in Python.

>>> import numpy as np
>>> from setwise.app import train
>>> x = np.random.default_rng(0).normal(size=400)
>>> model = train({"x": x, "sick": (x > 1).astype(int)}, target="sick", models=["logistic"], progress=False)
>>> model.predict({"x": [0.0, 2.0]})
array([0, 1])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setwise.app.classifier import TableClassifier, TableDataWarning
    from setwise.app.model_file import TableModel, load_model
    from setwise.app.multiclass_model import MulticlassModel
    from setwise.app.train_report import TrainReport
    from setwise.app.training import train

_FROM = {
    "TableClassifier": "classifier",
    "TableDataWarning": "classifier",
    "TableModel": "model_file",
    "MulticlassModel": "multiclass_model",
    "load_model": "model_file",
    "TrainReport": "train_report",
    "train": "training",
}

__all__ = ["MulticlassModel", "TableClassifier", "TableDataWarning", "TableModel", "TrainReport", "load_model", "train"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for, so that ``setwise --help`` does not wait for it."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"setwise.app.{_FROM[name]}"), name)
