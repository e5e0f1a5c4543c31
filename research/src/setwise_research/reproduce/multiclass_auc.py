"""Multi-class AUC: three classes, the first two thinned. Table 2 and the ROC figure of the 2021 paper.

The papers train on the one-versus-all AUC and report it and AUC-mu. Their loss is the ramp of the program with their
epsilon as its margin; ours are the hinges, blended with cross-entropy, on batches that hold every class. Both compare
class probabilities, by which they are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from setwise.losses import MulticlassAUCLoss
from setwise.measures import parse
from setwise.training import Blend
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.entry import Table
from setwise_research.reproduce.learners import Method, of_class_loss
from setwise_research.reproduce.tasks import CURVE, THREE_CLASSES

BLEND = 0.5
MARGIN = 0.01  # the papers' epsilon
SHOWN = ("cross_entropy", "weighted_cross_entropy", "lp_ova", "ours")  # in the ROC figure
Counts = NDArray[np.int64]


def _weighted(counts: Counts) -> nn.Module:
    """Cross-entropy in which all classes weigh the same."""
    return nn.CrossEntropyLoss(torch.tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32))


def _program(kind: str) -> Method:
    title = f"LP of the papers, {'one versus all' if kind == 'ova' else 'AUC-mu'}"
    measure = parse(f"auc_{kind}")

    def loss(counts: Counts) -> nn.Module:  # noqa: ARG001 (other losses need them)
        return MulticlassAUCLoss(kind, margin=MARGIN, surrogate="ramp")

    return of_class_loss(f"lp_{kind}", title, loss, measure=measure, kind=kind, margin=MARGIN)


def _ours(kind: str) -> Method:
    title = f"Ours, {'one versus all' if kind == 'ova' else 'AUC-mu'}"
    key = "ours" if kind == "ova" else "ours_mu"

    def loss(counts: Counts) -> nn.Module:  # noqa: ARG001 (other losses need them)
        return Blend(nn.CrossEntropyLoss(), MulticlassAUCLoss(kind), BLEND)

    measure = parse(f"auc_{kind}")
    return of_class_loss(key, title, loss, stratified=True, measure=measure, kind=kind, blend=BLEND)


def roc_figure(records: Sequence[Mapping[str, Any]], out: Path) -> None:
    """``roc.png``: one panel per positive class, at the highest drop rate, mean over the seeds."""
    level = max(float(r["level"]) for r in records)
    some = [r for r in records if float(r["level"]) == level and r.get("roc") and r["method"] in SHOWN]
    with figure(out / "roc.png", 11, 4.2) as made:
        panels = made.subplots(1, THREE_CLASSES.outputs, sharey=True)
        for k, axes in enumerate(panels):
            for number, key in enumerate(SHOWN):
                curves = [r["roc"][k] for r in some if r["method"] == key]
                if curves:
                    mean = np.mean(curves, axis=0)
                    axes.plot(
                        np.linspace(0, 1, CURVE),
                        mean,
                        color=f"C{number}",
                        label=TABLE.methods[key].title,
                        linewidth=1.2,
                    )
            axes.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, linestyle=":")
            axes.set(title=f"Positive class: {k}", xlabel="false positive rate")
        panels[0].set_ylabel("true positive rate")
        if some:
            made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SHOWN))


METHODS = (
    of_class_loss("cross_entropy", "Cross-entropy", lambda _: nn.CrossEntropyLoss()),
    of_class_loss("weighted_cross_entropy", "Weighted cross-entropy", _weighted),
    _program("ova"),
    _program("mu"),
    _ours("ova"),
    _ours("mu"),
)

TABLE = Table(
    measure=parse("auc_ova"),
    methods={method.key: method for method in METHODS},
    columns={"auc_ova": "AUC, one versus all", "auc_mu": "AUC-mu", "accuracy": "Accuracy"},
    baseline="cross_entropy",
    task=THREE_CLASSES,
    figures=roc_figure,
)
