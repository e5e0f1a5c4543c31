"""Linear scorers fitted to a measure on the whole set, and the programs in which the scorer is a variable.

>>> from setwise import linear
>>> X, y = [[0.0, 1.0], [1.0, 3.0], [2.0, 1.0], [3.0, 2.0]], [0, 0, 1, 1]
>>> linear.fit_auc_hinge(X, y, l1=0.1).point.round(6)
array([ 0.5 , -0.25])
"""

from setwise.linear.convex import fit_auc_hinge, fit_f_measure, fit_hinge
from setwise.linear.cutting_plane import Minimum, minimize
from setwise.linear.fit import LinearFit, fit_linear
from setwise.linear.programs import auc_scorer_program, f_scorer_program, svm_scorer_program
from setwise.linear.selection import LinearSelection
from setwise.linear.squared_hinge import fit_auc_squared_hinge

__all__ = [
    "LinearFit",
    "LinearSelection",
    "Minimum",
    "auc_scorer_program",
    "f_scorer_program",
    "fit_auc_hinge",
    "fit_auc_squared_hinge",
    "fit_f_measure",
    "fit_hinge",
    "fit_linear",
    "minimize",
    "svm_scorer_program",
]
