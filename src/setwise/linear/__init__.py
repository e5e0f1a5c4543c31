"""Linear scorers fitted to a measure on the whole training set; linear programs with the scorer as a variable."""

from setwise.linear.convex import fit_auc_hinge, fit_f_measure, fit_hinge
from setwise.linear.cutting_plane import Minimum
from setwise.linear.fit import LinearFit, fit_linear
from setwise.linear.programs import auc_scorer_program, f_scorer_program, svm_scorer_program
from setwise.linear.selection import LinearSelection

__all__ = [
    "LinearFit",
    "LinearSelection",
    "Minimum",
    "auc_scorer_program",
    "f_scorer_program",
    "fit_auc_hinge",
    "fit_f_measure",
    "fit_hinge",
    "fit_linear",
    "svm_scorer_program",
]
