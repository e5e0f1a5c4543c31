"""Sets of several blocks: ties across borders, weights that travel with the scores and weights that do not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from setwise import metrics
from setwise.metrics._ranked import _BLOCK

SIZE = 2 * _BLOCK + 5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("weights", ["none", "of 32 bits", "of 64 bits"])
@pytest.mark.parametrize("levels", [2, 300, 10**9])
def test_as_scikit_learn(levels: int, weights: str, kind: type[np.floating]) -> None:
    rng = np.random.default_rng(levels % 97)
    labels = rng.random(SIZE) < 0.2
    scores = (np.round((rng.random(SIZE) + 0.3 * labels) * levels) / levels).astype(kind)
    weight = {"none": None, "of 32 bits": rng.integers(1, 9, SIZE) / 4, "of 64 bits": rng.random(SIZE)}[weights]
    area = roc_auc_score(labels, scores, sample_weight=weight)
    assert metrics.auroc(scores, labels, weight=weight) == pytest.approx(area, rel=1e-12)
    precision = average_precision_score(labels, scores, sample_weight=weight)
    assert metrics.average_precision(scores, labels, weight=weight) == pytest.approx(precision, rel=1e-12)
    curve = metrics.precision_recall_curve(scores, labels, weight=weight)
    expected = precision_recall_curve(labels, scores, sample_weight=weight)
    for found, wanted in zip(curve, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_perfect_ranking_is_one_whatever_the_weights(scale: float) -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(SIZE) < 0.5
    weight = rng.random(SIZE) * scale
    assert metrics.auroc(labels.astype(np.float32), labels, weight=weight) == pytest.approx(1, abs=1e-15)
    assert metrics.average_precision(labels.astype(np.float32), labels, weight=weight) == pytest.approx(1, abs=1e-15)
