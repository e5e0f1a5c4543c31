r"""Separable non-negative matrix factorization as a linear program, and heat maps of activations made from it.

V of shape (c, f), non-negative, is *separable* of rank r if r of its rows, the anchors, span all of them by
non-negative combinations: V = F W with W = V[anchors]. With the rows of V scaled to sum 1 the anchors are found by
(Recht et al. 2012)

    min p'diag(C)  s.t.  |row of (C V - V)|_1 <= 2 noise,  tr C = r,  C_jj <= 1,  C_ij <= C_jj,  C >= 0,

with p of distinct entries: C_jj is 1 at the anchors. :func:`nmf_program` is this program with its c^2 variables. It
couples the rows of C only through the diagonal x = diag(C), so :func:`separable_nmf` solves it **by rows**, exactly:
a master program in the c entries of x, and for each row i the fit

    d_i(x) = min |C_i V - V_i|_1  s.t.  0 <= C_i <= x,   with the dual  max y.V_i - sum_j x_j relu(y.V_j), |y| <= 1,

whose y, where d_i(x) > 2 noise, cuts x off by sum_j x_j relu(y.V_j) >= y.V_i - 2 noise. (C_ii < x_i is no matter: going
from C_i towards e_i raises C_ii to x_i and shrinks the error.) Fits see only the columns with x_j > 0, some dozens, so
that hundreds of channels take seconds and little memory. Without noise, V is replaced by V Q with Q its right singular
basis: the same condition with as few columns as the rank.
"""

from setwise.nmf.factorization import SeparableNMF, separable_nmf
from setwise.nmf.maps import HeatMaps, heat_maps
from setwise.nmf.program import nmf_program

__all__ = ["HeatMaps", "SeparableNMF", "heat_maps", "nmf_program", "separable_nmf"]
