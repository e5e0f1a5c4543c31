r"""Boosted trees on a measure: objectives and evaluation metrics for LightGBM, XGBoost and CatBoost.

Boosting asks an objective for the gradient and a positive curvature of the loss by the score of every training row. The
whole training set is one batch, so a measure of a set needs no trick at all: its exact loss gives the gradient.

With labels y, scores s, weights v of total V, the share pi of the positives' weight and the blend b, the derivatives
are those of

    (1 - b) sum_i v_i logloss(s_i, y_i)  +  b V pi (1 - pi) L(s),        L the measure's loss.

**Scale.** V pi (1 - pi) is the curvature of log loss where all scores are equal. With it a pairwise loss is a sum over
pairs divided by V, a row's gradient is at most of the order of that of log loss, and what the libraries call
``min_child_weight``, ``min_sum_hessian_in_leaf`` or ``lambda`` means what it does for their own binary objective.

**Curvature.** The losses are sums of hinges relu(m - d), whose second derivative is 0 or does not exist. The parabola
that touches a hinge m / 2 short of the kink and lies above it has the curvature 1 / m, and all the hinges of a row pull
it the same way, so the diagonal of the Hessian is |dL / ds_i| / m. Boosting moves all rows at once and looks at the
diagonal only. For pairs the Hessian is that of a graph, D - A, which lies below 2 D but not always below D; between
the two, on validation parts of two tables,

    h_i = 1.5 |dL / ds_i| / m

did well. A row that no hinge pulls has no curvature of its own; log loss gives it some, and
there is a floor of 1e-6 v_i.

>>> import numpy as np
>>> labels = np.array([1.0, 0.0, 0.0, 0.0])
>>> objective = lightgbm_objective("auc", blend=1.0)
>>> gradient, curvature = objective(labels, np.zeros(4))  # three pairs, each a margin short: 3 / 4 and 1 / 4
>>> gradient
array([-0.75,  0.25,  0.25,  0.25], dtype=float32)
>>> curvature
array([1.125, 0.375, 0.375, 0.375], dtype=float32)

The scores are logits as far as log loss has its share, but the libraries do not know that: with an objective of one's
own, LightGBM's ``predict_proba`` and XGBoost's ``Booster.predict`` give raw scores. Decide by
:class:`~setwise.integrations.sklearn.ThresholdClassifier`, which takes such a classifier as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setwise import _checks, metrics
from setwise.measures import Measure, parse

LIBRARIES = ("lightgbm", "xgboost", "catboost")
CURVATURE = 1.5
FLOOR = 1e-6  # of the curvature, per unit of weight

Floats = NDArray[np.floating[Any]]


class Objective:
    """Gradient and curvature of a measure's loss, called as LightGBM and XGBoost call an objective.

    ``objective(labels, scores, weight=None)`` is the form of their scikit-learn classes, ``objective(scores, data)``
    that of ``lightgbm.train`` and ``xgboost.train``.

    Args:
        measure: Name of a measure of two classes, as :func:`setwise.parse` takes it.
        blend: Share of the measure's loss, in (0, 1]; the rest is log loss.
        margin: Of the measure's loss; for this and what follows None stands for the loss's own default.
        surrogate: Of the measure's loss.
        link: Of the losses of counts and of operating points.
        at: Of precision at recall.
        threshold: A fixed threshold of a loss at an operating point.
    """

    def __init__(
        self,
        measure: str,
        *,
        blend: float = 0.5,
        margin: float | None = None,
        surrogate: str | None = None,
        link: str | None = None,
        at: str | None = None,
        threshold: float | None = None,
    ) -> None:
        _checks.in_range("blend", blend, 0, 1, open_low=True)
        self.measure = _of_two_classes(measure)
        self.blend = blend
        options = {"margin": margin, "surrogate": surrogate, "link": link, "at": at, "threshold": threshold}
        try:
            self.loss = self.measure.loss(**{name: value for name, value in options.items() if value is not None})
        except TypeError as error:
            raise _checks.InputError(
                f"Expected `options` to be options of the {measure} loss, but got: {error}"
            ) from error

    def __call__(self, labels: Any, scores: Any, weight: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Gradient and curvature by the scores.  # shape of each: (n,)."""
        if hasattr(scores, "get_label"):  # the native interfaces pass (scores, data)
            labels, scores, weight = scores.get_label(), labels, scores.get_weight()
        return self.derivatives(np.asarray(labels), np.asarray(scores), _weights(weight))

    def derivatives(self, labels: NDArray[Any], scores: NDArray[Any], weight: Floats | None) -> tuple[Floats, Floats]:
        """The same from arrays. Single precision, as in the libraries themselves, whose sort is the faster one too."""
        if scores.ndim != 1:
            raise _checks.InputError(f"Expected `scores` to be of shape (n,), but got {scores.shape}: use two classes.")
        score = torch.from_numpy(scores.astype(np.float32)).requires_grad_()
        target = torch.from_numpy(np.asarray(labels, dtype=np.float32))
        each = None if weight is None else torch.from_numpy(weight.astype(np.float32))
        loss = self.loss(score, target, weight=each)
        pull = torch.autograd.grad(loss, score)[0] if loss.requires_grad else torch.zeros_like(target)
        total = float(len(target)) if each is None else float(each.sum())
        share = float(target.mean() if each is None else each @ target / total)
        # V pi (1 - pi), the curvature of log loss where all scores are equal: both parts are of one scale.
        pull *= self.blend * total * share * (1 - share)
        probability = score.detach().sigmoid()
        gradient, curvature = probability - target, probability * (1 - probability)
        if each is not None:
            gradient, curvature = gradient * each, curvature * each
        # A margin of 0, or a loss without one, has no width to divide by; 1 stands for it.
        margin = float(getattr(self.loss, "margin", 1.0)) or 1.0
        gradient = gradient.mul_(1 - self.blend).add_(pull)
        curvature = curvature.mul_(1 - self.blend).add_(pull.abs_(), alpha=CURVATURE / margin)
        curvature = curvature.clamp_(min=FLOOR) if each is None else torch.maximum(curvature, FLOOR * each)
        return gradient.numpy(), curvature.numpy()

    def start(self, labels: ArrayLike, weight: ArrayLike | None = None) -> float:
        """The log-odds of the positives: where log loss starts best, for ``init_score`` or ``base_margin``."""
        array = np.asarray(labels)
        _checks.all_binary("labels", array)
        share = float(np.average(array, weights=_weights(weight)))
        _checks.in_range("mean of `labels`", share, 0, 1, open_low=True, open_high=True)
        return float(np.log(share / (1 - share)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.measure.name!r}, blend={self.blend})"


class EvalMetric:
    """The hard measure of a whole evaluation set, for LightGBM or XGBoost.

    A measure at a threshold, such as F1, is taken at the best threshold, since raw scores have none. LightGBM is told
    that more is better. XGBoost takes less as better unless told otherwise, so it is given 1 - measure, as
    ``"1-auc"``; for measures of which less is better both get it as it is.

    Args:
        measure: Name of a measure of two classes.
        library: ``"lightgbm"`` or ``"xgboost"``.
    """

    def __init__(self, measure: str, library: str) -> None:
        self.measure = _of_two_classes(measure)
        self.library = library
        # XGBoost takes less as better unless it is told otherwise, so it is given what is lost.
        turned = library == "xgboost" and not self.measure.minimize
        self.__name__ = f"1-{self.measure.name}" if turned else self.measure.name  # what the logs call it

    def __call__(self, labels: Any, scores: Any, weight: ArrayLike | None = None) -> Any:
        """(name, value, more is better) for LightGBM; (name, value) for XGBoost, in its scikit-learn form the value."""
        native = hasattr(scores, "get_label")
        if native:
            labels, scores, weight = scores.get_label(), labels, scores.get_weight()
        value = measure_of(self.measure, np.asarray(labels), np.asarray(scores, dtype=np.float64), _weights(weight))
        if self.library == "lightgbm":
            return self.__name__, value, not self.measure.minimize
        value = value if self.measure.minimize else 1 - value
        return (self.__name__, value) if native else value


def eval_metric(measure: str, library: str = "lightgbm") -> Any:
    """The measure as a library's evaluation metric, which early stopping can go by.

    Args:
        measure: Name of a measure of two classes.
        library: ``"lightgbm"``, ``"xgboost"`` or ``"catboost"``. For CatBoost's own losses only: with
            :func:`catboost_objective` the objective itself is the metric.
    """
    _checks.one_of("library", library, LIBRARIES)
    return CatBoostMetric(measure) if library == "catboost" else EvalMetric(measure, library)


class CatBoostMetric:
    """The hard measure of a whole evaluation set, for CatBoost's ``eval_metric``."""

    def __init__(self, measure: str) -> None:
        self.measure = _of_two_classes(measure)

    def is_max_optimal(self) -> bool:
        """Whether more is better."""
        return not self.measure.minimize

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        """The measure, and a weight of one: it is no mean over rows."""
        scores = np.array(approxes[0], dtype=np.float64)  # CatBoost's views are only good during the call
        return measure_of(self.measure, np.array(target), scores, _weights(weight)), 1.0

    def get_final_error(self, error: float, weight: float) -> float:  # noqa: ARG002 (CatBoost's signature)
        """The measure as it is."""
        return error


class CatBoostObjective(CatBoostMetric):
    """Objective and evaluation metric in one: pass the same object as ``loss_function`` and as ``eval_metric``.

    CatBoost asks an objective of one's own for a few hundred rows at a time, never for the set. But before each tree it
    asks the metric for the whole training set. There the derivatives of all rows are computed; and since those of a row
    depend on its label, score and weight only (the set being what it is), the rows that come piecemeal find theirs by
    label and score. Before the first tree all scores are alike, and a few hundred rows stand for the set.

    It needs ``leaf_estimation_iterations=1``, CatBoost's default for such objectives, and an evaluation of the training
    set before each tree, so no ``metric_period``. One object serves one training at a time.

    Args:
        measure: Name of a measure of two classes.
        blend: Share of the measure's loss, in (0, 1]; the rest is log loss.
        margin, surrogate, link, at, threshold: Of the measure's loss, as for :class:`Objective`.
    """

    def __init__(
        self,
        measure: str,
        *,
        blend: float = 0.5,
        margin: float | None = None,
        surrogate: str | None = None,
        link: str | None = None,
        at: str | None = None,
        threshold: float | None = None,
    ) -> None:
        super().__init__(measure)
        self.objective = Objective(
            measure, blend=blend, margin=margin, surrogate=surrogate, link=link, at=at, threshold=threshold
        )
        self._known: dict[int, tuple[Floats, Floats, Floats]] = {}
        self._asked = False

    def __deepcopy__(self, memo: dict[int, Any]) -> CatBoostObjective:
        """Itself: CatBoost copies its arguments, and objective and metric must stay one object."""
        return self

    def evaluate(self, approxes: Any, target: Any, weight: Any) -> tuple[float, float]:
        """The measure; the first set after a tree is the training set, whose derivatives are kept."""
        # CatBoost evaluates the training set first, then the evaluation sets, which are no concern here.
        if self._asked:
            self._asked = False
            scores, labels = np.array(approxes[0], dtype=np.float64), np.array(target, dtype=np.float64)
            each = _weights(weight)
            gradient, curvature = self.objective.derivatives(labels, scores, each)
            if each is not None:
                gradient, curvature = gradient / each, curvature / each
            # Sorted by score within each label, so that rows that come piecemeal are found by bisection.
            order = np.argsort(scores, kind="stable")
            self._known = {}
            for label in (0, 1):
                rows = order[labels[order] == label]
                self._known[label] = scores[rows], gradient[rows], curvature[rows]
        return super().evaluate(approxes, target, weight)

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> list[tuple[float, float]]:
        """First and second derivative of what CatBoost maximizes, for some rows."""
        scores, labels = np.array(approxes, dtype=np.float64), np.array(targets, dtype=np.float64)
        each = np.ones_like(scores) if weights is None else np.array(weights, dtype=np.float64)
        self._asked = True
        if (scores == scores[0]).all() and not self._trained(scores[0]):
            gradient, curvature = self.objective.derivatives(labels, scores, None)
        elif self._known:
            gradient, curvature = self._find(labels, scores)
        else:
            raise _checks.InputError("Expected `eval_metric` to be the same object as `loss_function`, but it is not.")
        return list(zip((-gradient * each).tolist(), (-curvature * each).tolist(), strict=True))

    def _trained(self, score: float) -> bool:
        """Whether the known set holds this very score; if not, equal scores are the start of a new training."""
        return any(bool((known == score).any()) for known, _, _ in self._known.values())

    def _find(self, labels: Floats, scores: Floats) -> tuple[Floats, Floats]:
        gradient, curvature = np.empty_like(scores), np.empty_like(scores)
        for label, (known, own_gradient, own_curvature) in self._known.items():
            rows = labels == label
            where = np.searchsorted(known, scores[rows]).clip(max=len(known) - 1)
            gradient[rows], curvature[rows] = own_gradient[where], own_curvature[where]
        return gradient, curvature


lightgbm_objective = Objective
"""For ``LGBMClassifier(objective=...)`` or ``lightgbm.train({"objective": ...}, data)``."""

xgboost_objective = Objective
"""For ``XGBClassifier(objective=...)`` or ``xgboost.train(..., obj=...)``."""

catboost_objective = CatBoostObjective
"""For ``CatBoostClassifier(loss_function=o, eval_metric=o)``, one object."""


def objective(
    measure: str,
    library: str = "lightgbm",
    *,
    blend: float = 0.5,
    margin: float | None = None,
    surrogate: str | None = None,
    link: str | None = None,
    at: str | None = None,
    threshold: float | None = None,
) -> Any:
    """The objective for one of the libraries.

    ``library`` is ``"lightgbm"``, ``"xgboost"`` or ``"catboost"``; other arguments as for :class:`Objective`.
    """
    _checks.one_of("library", library, LIBRARIES)
    made = CatBoostObjective if library == "catboost" else Objective
    return made(measure, blend=blend, margin=margin, surrogate=surrogate, link=link, at=at, threshold=threshold)


def measure_of(measure: Measure, labels: NDArray[Any], scores: Floats, weight: Floats | None) -> float:
    """The hard measure of raw scores, at the best threshold where it needs one."""
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    if measure.at_threshold:
        return metrics.choose_threshold(scores, labels, maximize=measure.maximize_threshold, weight=weight).value
    return float(measure.metric(scores, labels, weight=weight))


def _of_two_classes(name: str) -> Measure:
    measure = parse(name)
    if measure.layout != "binary":
        raise _checks.InputError(f"Expected `measure` to be one of two classes, such as 'auc', but got {name!r}.")
    return measure


def _weights(weight: Any) -> Floats | None:
    """Weights as an array; None where there are none, which XGBoost says by an empty array."""
    if weight is None:
        return None
    array = np.array(weight, dtype=np.float64)
    return array if array.size else None
