"""Binary AUC: half of the classes against the other half, the negatives thinned out. Table 1 of the 2021 paper.

The papers' loss is the ramp of AUC's linear program with their epsilon as its margin; the ablation of epsilon is
Table 2 of the 2020 version.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import nn

from setwise.losses import AUCLoss
from setwise.measures import parse
from setwise_research.baselines import FocalLoss, weighted_cross_entropy
from setwise_research.reproduce.entry import Table
from setwise_research.reproduce.learners import (
    Learner,
    LibAUCLearner,
    Method,
    ProximalLearner,
    of_loss,
    of_recipe,
)
from setwise_research.reproduce.preset import Preset

MARGINS = {"lp": 0.01, "lp_margin_0.1": 0.1, "lp_margin_0.001": 0.001}
FOCUS = 2.0


def _ramp(margin: float, share: float) -> nn.Module:  # noqa: ARG001 (other losses need the share)
    return AUCLoss(margin=margin, surrogate="ramp")


def _proximal(preset: Preset, rate: float, labels: NDArray[np.int64], *, adagrad: bool) -> Learner:
    return ProximalLearner(preset, rate, float(labels.mean()), adagrad=adagrad)


METHODS = (
    of_loss("cross_entropy", "Cross-entropy", lambda _: nn.BCEWithLogitsLoss()),
    of_loss("weighted_cross_entropy", "Weighted cross-entropy", weighted_cross_entropy),
    of_loss("focal", "Focal", lambda _: FocalLoss(FOCUS), gamma=FOCUS),
    Method("ppd_sg", "PPD-SG", partial(_proximal, adagrad=False), "ppd_sg"),
    Method("ppd_adagrad", "PPD-AdaGrad", partial(_proximal, adagrad=True), "ppd_adagrad"),
    Method(
        "aucm_pesg",
        "LibAUC AUCM + PESG",
        lambda preset, rate, _: LibAUCLearner(preset, rate),
        "pesg",
        needs="libauc",
        resumable=False,
    ),
    *(
        of_loss(key, f"LP of the papers, margin {margin:g}", partial(_ramp, margin), margin=margin)
        for key, margin in MARGINS.items()
    ),
    of_recipe("auc", "Ours (Recipe)"),
)

TABLE = Table(
    measure=parse("auc"),
    methods={method.key: method for method in METHODS},
    columns={"auroc": "AUROC", "average_precision": "Average precision"},
    baseline="cross_entropy",
)
