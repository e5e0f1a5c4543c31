"""The report's figures: ROC and precision-recall curves, training curves, score histograms.

Each function takes the :class:`~setwise.report.content.Report` and gives back an inline SVG. Single seeds are thin
lines, their mean is thick; markers show where the threshold chosen on the validation set puts the test set.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise.metrics import confusion_counts, precision_recall_curve, roc_curve
from setwise.report.figures import BASELINE, INK, MEASURE, NEGATIVE, POSITIVE, RULE, canvas, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from setwise.report.content import Report, Training

GRID = np.linspace(0.0, 1.0, 201)
COLOURS = (BASELINE, MEASURE)
# Shape tells the methods apart where colour does not.
MARKERS = ("o", "D")
BINS = 28
LOG_RATIO = 30.0  # values that span more than this are drawn on a logarithmic axis


def counts_at(training: Training) -> tuple[float, float, float]:
    """False positive rate, recall and precision of the test set at the training's threshold (0 where undefined)."""
    tp, fp, fn, tn = confusion_counts(training.scores, training.labels, threshold=training.threshold)
    return fp / max(fp + tn, 1), tp / max(tp + fn, 1), tp / max(tp + fp, 1)


def roc(report: Report) -> str:
    """ROC curves on the test set with the operating points."""

    def curve(training: Training) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        found = roc_curve(training.scores, training.labels)
        return found.fpr, found.tpr, np.interp(GRID, found.fpr, found.tpr)

    figure, axes = canvas("ROC curve, test set", "False positive rate", "True positive rate (recall)")
    axes.plot([0, 1], [0, 1], color=RULE, linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, report, curve, lambda t: counts_at(t)[:2])
    return svg(figure, "roc", _describe("ROC curves of both methods on the test set", report))


def precision_recall(report: Report) -> str:
    """Precision-recall curves on the test set with the operating points."""

    def curve(training: Training) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        found = precision_recall_curve(training.scores, training.labels)
        # By falling threshold; the last point, recall 0 by convention, belongs to no threshold.
        recall, precision = found.recall[-2::-1], found.precision[-2::-1]
        # Precision at the first threshold that reaches a recall: a step function, as average precision reads it.
        steps = precision[np.minimum(np.searchsorted(recall, GRID, side="left"), len(recall) - 1)]
        return recall, precision, steps

    figure, axes = canvas("Precision-recall curve, test set", "Recall", "Precision")
    share = float(np.mean([np.mean(t.labels) for t in report.trainings]))
    axes.axhline(share, color=RULE, linewidth=1, linestyle=(0, (4, 3)))
    _curves(axes, report, curve, lambda t: counts_at(t)[1:])
    return svg(figure, "pr", _describe("Precision-recall curves of both methods on the test set", report))


def history(report: Report, key: str, title: str, y: str) -> str:
    """One per-epoch quantity on the validation set: a thin line per seed, and their mean with a band.

    Mean and band (from the lowest seed to the highest) end with the shortest training, so that seeds that train on
    do not pull the mean their way.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, axes = canvas(title, "Epoch", y, width=3.7)
    drawn: list[float] = []
    for method, colour in zip(report.methods, COLOURS, strict=True):
        histories = [np.asarray(t.history.get(key, ()), dtype=np.float64) for t in report.of(method.key)]
        shared = np.array([h[: min(map(len, histories))] for h in histories])  # shape: (seeds, epochs)
        for values in histories:
            axes.plot(np.arange(1, len(values) + 1), values, color=colour, linewidth=0.8, alpha=0.4)
            drawn += values.tolist()
        epochs = np.arange(1, shared.shape[1] + 1)
        axes.fill_between(epochs, shared.min(axis=0), shared.max(axis=0), color=colour, alpha=0.18, linewidth=0)
        # A line of one point would not show.
        axes.plot(epochs, shared.mean(axis=0), color=colour, linewidth=2, marker="o" if len(epochs) == 1 else "")
    if drawn and 0 < LOG_RATIO * min(drawn) < max(drawn):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(left=0.5)
    return svg(figure, f"history-{key}", _describe(f"{title} by epoch", report))


def histogram(report: Report, method: int) -> str:
    """Test scores of one method's first seed by class, each class as shares of its own, with the threshold."""
    from matplotlib.ticker import PercentFormatter

    training = report.of(report.methods[method].key)[0]
    figure, axes = canvas(
        f"{report.methods[method].title}, seed {training.seed}", "Score (logit)", "Share of the class"
    )
    edges = np.histogram_bin_edges(training.scores, bins=BINS)
    for label, colour, order in ((0, NEGATIVE, 1), (1, POSITIVE, 2)):
        scores = training.scores[training.labels == label]
        if len(scores):
            weights = np.full(len(scores), 1 / len(scores))
            axes.hist(scores, edges.tolist(), weights=weights, color=colour, alpha=0.6, zorder=order, linewidth=0)
    if np.isfinite(training.threshold):
        axes.axvline(training.threshold, color=INK, linewidth=1.4, linestyle=(0, (5, 3)), zorder=3)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    description = f"Histogram of test scores by class for {report.methods[method].title}"
    return svg(figure, f"scores-{method}", html.escape(description, quote=True))


def _curves(
    axes: Axes,
    report: Report,
    curve: Callable[[Training], tuple[NDArray[Any], NDArray[Any], NDArray[Any]]],
    point: Callable[[Training], tuple[float, float]],
) -> None:
    """Thin curves per seed, a thick mean over the common grid, markers at the operating points."""
    for method, colour, marker in zip(report.methods, COLOURS, MARKERS, strict=True):
        trainings = report.of(method.key)
        drawn = [curve(t) for t in trainings]
        for x, y, _ in drawn:
            axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.4)
        axes.plot(GRID, np.mean([steps for _, _, steps in drawn], axis=0), color=colour, linewidth=2.2)
        x, y = np.array([point(t) for t in trainings]).T
        axes.scatter(x, y, s=34, color=colour, marker=marker, edgecolors=INK, linewidths=0.8, zorder=4)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _describe(what: str, report: Report) -> str:
    names = " and ".join(method.title for method in report.methods)
    return html.escape(f"{what}: {names}", quote=True)
