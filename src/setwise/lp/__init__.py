"""Linear programs: batched, exact, differentiable, with a certificate for every element.

    min c'z   s.t.   A z <= b,   A_eq z = b_eq,   lower <= z <= upper

This package knows nothing of labels or measures. Importing it loads no extra; reading MPS files, the solver
``HiGHS`` and sparse factorizations need ``setwise[lp]``.
"""

from setwise.lp.gradients import ImplicitGradient, SmoothedGradient, UnrolledGradient, ValueGradient
from setwise.lp.layer import LPLayer
from setwise.lp.mps import read_mps
from setwise.lp.operator import LinearOperator
from setwise.lp.oracle import Oracle
from setwise.lp.perturbed import FenchelYoungLoss, fenchel_young_loss, perturbed_point
from setwise.lp.problem import LinearProgram, Residuals
from setwise.lp.regret import RegretLoss, regret, regret_loss
from setwise.lp.settings import ExteriorNewton, HiGHS, Interior
from setwise.lp.solution import Duals, LPError, Solution, Status
from setwise.lp.solve import solve
from setwise.lp.solvers.hot_start import HotStart
from setwise.lp.solvers.sketching import CountSketch, RowSampling, SufficientReduction, reduce_program

__all__ = [
    "CountSketch",
    "Duals",
    "ExteriorNewton",
    "FenchelYoungLoss",
    "HiGHS",
    "HotStart",
    "ImplicitGradient",
    "Interior",
    "LPError",
    "LPLayer",
    "LinearOperator",
    "LinearProgram",
    "Oracle",
    "RegretLoss",
    "Residuals",
    "RowSampling",
    "SmoothedGradient",
    "Solution",
    "Status",
    "SufficientReduction",
    "UnrolledGradient",
    "ValueGradient",
    "fenchel_young_loss",
    "perturbed_point",
    "read_mps",
    "reduce_program",
    "regret",
    "regret_loss",
    "solve",
]
