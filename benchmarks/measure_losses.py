"""Losses of F-score, operating points, average precision and partial AUC beside those of other people.

Soft F1, Eban's Lagrangians and direct loss minimization are by hand (`hand_losses.py`); the linear programs of the
measures are solved by HiGHS, and by cvxpylayers for F1. Peers that are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import setwise
from cases import Loss, soft_f1
from hand_losses import (
    average_precision_by_pairs,
    capped_f1,
    clamped_f1,
    direct_f1,
    highest_pairs,
    layer_of_f1,
    program,
    recall_at_quantile,
    smooth_ap_by_pairs,
)
from harness import installed, peer
from loss_tables import Method, always, loss_table
from records import Part, Verdict, faster
from setwise import measures
from setwise.lp import LinearProgram
from setwise_research.baselines import LagrangianLoss

SIZES = (64, 256, 1024, 4096, 65_536, 1_000_000)
COMPARED = 4096
SHARE = 0.1  # of positives


def f1_methods() -> dict[str, Method]:
    """1 - F1."""
    found = {
        "FBetaLoss": always(setwise.FBetaLoss, capped_f1),
        "FBetaLoss, sigmoid": always(lambda: setwise.FBetaLoss(surrogate="sigmoid"), soft_f1),
        "soft F1 by hand": always(lambda: soft_f1, soft_f1),
        "Eban's Lagrangian": always(lambda: LagrangianLoss("f1", SHARE)),
        "direct loss minimization": always(lambda: direct_f1, most=4096),
        "program by HiGHS": always(lambda: program(measures.fbeta_program), clamped_f1, most=1024),
    }
    if installed("cvxpylayers"):
        found["program by cvxpylayers"] = Method(layer_of_f1, 4096, clamped_f1)
    if installed("ap_perf"):
        found["AP-Perf"] = always(lambda: ap_perf("f1_score"), most=256)
    return found


def point_methods() -> dict[str, Method]:
    """Operating points."""

    def of(build: Callable[..., LinearProgram], **options: float) -> Loss:
        return program(lambda scores, target: build(scores, target, **options))

    found = {
        "cross-entropy": always(torch.nn.BCEWithLogitsLoss),
        "PrecisionAtRecallLoss(0.9)": always(
            lambda: setwise.PrecisionAtRecallLoss(0.9),
            of(measures.precision_at_recall_program, recall=0.9),
        ),
        "PrecisionAtRecallLoss(0.9), floor": always(lambda: setwise.PrecisionAtRecallLoss(0.9, at="floor")),
        "RecallAtPrecisionLoss(0.5)": always(lambda: setwise.RecallAtPrecisionLoss(0.5)),
        "TPRAtFPRLoss(0.05)": always(lambda: setwise.TPRAtFPRLoss(0.05), of(measures.tpr_at_fpr_program, fpr=0.05)),
        "FPRAtTPRLoss(0.95)": always(lambda: setwise.FPRAtTPRLoss(0.95), of(measures.fpr_at_tpr_program, tpr=0.95)),
        "PrecisionAtKLoss(10)": always(lambda: setwise.PrecisionAtKLoss(10), of(measures.precision_at_k_program, k=10)),
        "Eban's Lagrangian, recall 0.9": always(lambda: LagrangianLoss("precision_at_recall", SHARE, floor=0.9)),
        "program by HiGHS": always(lambda: of(measures.precision_at_recall_program, recall=0.9), most=1024),
    }
    if installed("imbalanced_losses"):
        found["imbalanced-losses RecallAtQuantileLoss(0.1)"] = always(
            lambda: imbalanced("RecallAtQuantileLoss", quantile=0.1), recall_at_quantile
        )
    if installed("ap_perf"):
        found["AP-Perf precision at recall 0.8"] = always(lambda: ap_perf("precision_gv_recall_80"), most=64)
    return found


def ap_methods() -> dict[str, Method]:
    """Average precision."""
    found = {
        "cross-entropy": always(torch.nn.BCEWithLogitsLoss),
        "AveragePrecisionLoss": always(setwise.AveragePrecisionLoss, average_precision_by_pairs),
        "its definition, by pairs": always(lambda: average_precision_by_pairs, average_precision_by_pairs, most=4096),
    }
    if installed("libauc"):
        found["LibAUC APLoss"] = Method(lambda n: libauc("APLoss", n), 4096)
    if installed("imbalanced_losses"):
        found["imbalanced-losses SmoothAPLoss"] = always(
            lambda: imbalanced("SmoothAPLoss"), smooth_ap_by_pairs, most=4096
        )
    return found


def pauc_methods() -> dict[str, Method]:
    """Partial AUC."""
    found = {
        "cross-entropy": always(torch.nn.BCEWithLogitsLoss),
        "PartialAUCLoss(0.1)": always(lambda: setwise.PartialAUCLoss(0.1), highest_pairs(1)),
        "PartialAUCLoss(0.1), squared hinge": always(
            lambda: setwise.PartialAUCLoss(0.1, surrogate="squared_hinge"), highest_pairs(2)
        ),
        "PartialAUCLoss(0.5, min_tpr=0.5)": always(lambda: setwise.PartialAUCLoss(0.5, min_tpr=0.5)),
        "its definition, by pairs": always(lambda: highest_pairs(1), highest_pairs(1), most=4096),
    }
    if installed("libauc"):
        found |= {
            "LibAUC pAUC_CVaR_Loss(0.1)": Method(
                lambda n: libauc("pAUC_CVaR_Loss", n, pos_len=n // 10, beta=0.1),
                4096,
                highest_pairs(2, probabilities=True),
            ),
            "LibAUC pAUC_DRO_Loss": Method(lambda n: libauc("pAUC_DRO_Loss", n), 4096),
            "LibAUC tpAUC_KL_Loss": Method(lambda n: libauc("tpAUC_KL_Loss", n), 4096),
        }
    if installed("imbalanced_losses"):

        def budget(surrogate: str) -> Callable[[], Loss]:
            return lambda: imbalanced("PAUCAtBudgetLoss", beta=0.1, surrogate=surrogate)

        for surrogate, most in (("trapezoid", 10_000_000), ("pairwise", 4096)):
            found[f"imbalanced-losses PAUCAtBudgetLoss(0.1), {surrogate}"] = always(budget(surrogate), most=most)
    return found


def ap_perf(name: str) -> Loss:
    """A metric of AP-Perf as a layer."""
    layer: Loss = peer("ap_perf").MetricLayer(getattr(peer("ap_perf.common_metrics"), name))
    return layer


def imbalanced(name: str, **options: Any) -> Loss:
    """A loss of imbalanced-losses: logits in a column, labels as integers, no queue."""
    loss = getattr(peer("imbalanced_losses"), name)(1, queue_size=0, **options)
    return lambda scores, target: loss(scores.unsqueeze(1), target.long())


def libauc(name: str, n: int, **options: Any) -> Loss:
    """A loss of LibAUC: probabilities, and which of n examples each of them is."""
    loss, index = getattr(peer("libauc.losses"), name)(data_len=n, **options), torch.arange(n)
    return lambda scores, target: loss(scores.sigmoid(), target, index)


TABLES: dict[str, Callable[[], dict[str, Method]]] = {
    "f1": f1_methods,
    "points": point_methods,
    "ap": ap_methods,
    "pauc": pauc_methods,
}


def methods(table: str) -> dict[str, Method]:
    """The losses of a table that can be run here."""
    return TABLES[table]()


def f1_part() -> Part:
    """F-score."""
    table = loss_table("measure_losses", "f1", SIZES, title="F-score losses", memory_n=SIZES[-1])
    ratio = table.ms("FBetaLoss", COMPARED) / table.ms("soft F1 by hand", COMPARED)
    verdicts = [
        *faster(table, "FBetaLoss", ("AP-Perf",), 64, 500.0),
        *faster(table, "FBetaLoss", ("program by cvxpy", "direct"), COMPARED, 10.0),
        Verdict(f"FBetaLoss / soft F1 by hand, n = {COMPARED:,}", ratio, 3.0),
    ]
    return Part([table], verdicts)


def points_part() -> Part:
    """Operating points."""
    table = loss_table("measure_losses", "points", SIZES, title="Operating points", memory_n=SIZES[-1])
    ours = "PrecisionAtRecallLoss(0.9)"
    return Part([table], faster(table, ours, ("AP-Perf",), 64, 500.0) + faster(table, ours, ("program",), 1024, 10.0))


def ranking_part() -> Part:
    """Average precision and partial AUC."""
    ap = loss_table("measure_losses", "ap", SIZES, title="Average precision", memory_n=SIZES[-1])
    pauc = loss_table("measure_losses", "pauc", SIZES, title="Partial AUC", memory_n=SIZES[-1])
    ours = "PartialAUCLoss(0.1)"
    judged = faster(ap, "AveragePrecisionLoss", ("LibAUC", "imbalanced"), COMPARED, 10.0)
    judged += faster(pauc, ours, ("LibAUC",), COMPARED, 10.0)
    judged += faster(pauc, ours, ("imbalanced",), COMPARED, None)  # the exception that the page names
    return Part([ap, pauc], judged)
