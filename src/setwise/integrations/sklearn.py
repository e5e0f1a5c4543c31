"""scikit-learn: a classifier that learns the measure, and decisions of any classifier under constraints.

>>> from sklearn.datasets import load_breast_cancer
>>> from sklearn.linear_model import LogisticRegression
>>> from sklearn.model_selection import train_test_split
>>> from sklearn.preprocessing import scale
>>> X, y = load_breast_cancer(return_X_y=True)
>>> X_train, X_held, y_train, y_held = train_test_split(scale(X), y, random_state=0)
>>> fitted = LogisticRegression().fit(X_train, y_train)
>>> chosen = ThresholdClassifier(fitted, maximize="precision", subject_to="recall>=0.99").fit(X_held, y_held)
>>> chosen.choice_.feasible, bool(chosen.choice_.achieved["recall"] >= 0.99)
(True, True)
>>> model = MeasureClassifier("f1", max_iter=50, random_state=0).fit(X_train, y_train)
>>> bool(model.score(X_held, y_held) > 0.9)
True
"""

from setwise._checks import extra

extra("sklearn", "sklearn")  # says which extra to install where it is missing
from setwise.integrations._linear_classifier import MeasureLinearClassifier  # noqa: E402
from setwise.integrations._measure_classifier import MeasureClassifier  # noqa: E402
from setwise.integrations._threshold_classifier import ThresholdClassifier  # noqa: E402

__all__ = ["MeasureClassifier", "MeasureLinearClassifier", "ThresholdClassifier"]
