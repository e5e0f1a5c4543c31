"""Numeric tolerances, tuned constants and size limits of all linear programming code, each with its reason.

A new tolerance goes here. "Relative" means relative to the terms that were added up, not to the result. Data are of
size 1 after scaling, so that a number without "relative" is one too.
"""

TOLERANCE = 1e-9  # of residuals and gap, where nobody asks for another

# Rounding in double precision

TINY = 1e-300  # keeps a divisor above 0 and changes no number that matters
CHOLESKY_RIDGE = 1e-14  # of the largest diagonal entry: a factorization of a singular matrix still succeeds
REDUCED_COST_NOISE = 1e-13  # relative: what rounding leaves of a reduced cost of 0
MULTIPLIER_NOISE = 1e-14  # relative to its terms: what rounding leaves of a multiplier of 0
CG_TOLERANCE = 1e-13  # of the right-hand side: a derivative is wanted to rounding
CG_STEPS = 200  # of the derivative

# Reading programs

INFINITY = 1e20  # sides and bounds of this size count as infinite, as in HiGHS and in MPS files
SINGLE_PRECISION = 1e-6  # least tolerance of a program in float32, whose data are known to 1e-7
SPARSE_WRITTEN_OUT = 1_000_000  # entries up to which a sparse matrix is written out to repair certificates: 8 MB

# Scaling

WELL_SCALED = 16.0  # rows and columns whose largest entries are within this factor of 1 keep their numbers
NORM_PASSES = 5  # of the same on Euclidean norms; each costs two products with the matrix
OPERATOR_PROBES = 12  # products by which an operator's sums of squares are estimated, each to about 40 %
LEAST_SIZE = 1e-12  # the least side or cost to divide by: below it is rounding of a program of zeros
CURTIS_REID_PASSES = 60  # of alternating least squares, each one row and one column update
CURTIS_REID_CHANGE = 0.1  # of a base-2 logarithm: less does not change the power of two
CURTIS_REID_RUIZ_PASSES = 4  # bring the largest entries near 1 once the units are found
USUAL_BITS = 10  # sides and costs within 2^-10 .. 2^10 are in usual units
FAR_BEYOND = 1e4  # times the others: sides (and costs) of this size are taken for "never met" and do not set the scale
FAR_COST = 1e3  # times the others: to what such costs are lowered, with room to be paid

# Rank decisions of presolve

INDEPENDENT = 1e-4  # distance of a unit row from the span of those before it, above which it is independent
COMBINATION_AGREES = 1e-10  # relative: a combination of rows equals the row
LINEALITY_RANK = 1e-11  # of the largest singular value: below, a direction leaves all rows alone
LINEALITY_COST = 1e-9  # of the largest cost: less of it along a free direction counts as none

# Proofs of optimality at a vertex

VERTEX_FEASIBLE = 2e-10  # of sides and costs: a slack or multiplier may be this far below 0
VERTEX_BALANCED = 1e-8  # of stationarity, however large the multipliers: nearly dependent rows have any
BOUND_NOISE = 1e-14  # of the largest entry: a point this far from a bound that pays is on it
UNIQUE = 1e-9  # slacks and multipliers above this prove that there is no other optimum

# Verification of points and certificates

LEAST_UNIT = 1e-6  # programs may be written in units down to this; smaller data are rounding
NOISE_BESIDE_COST = 1e-9  # of the cost: larger reduced costs are charged even if rounding could explain them
COMPLEMENTARITY_WEIGHT = 1e-3  # of slack times multiplier beside the other residuals, which are first order
FARKAS_CANCELS = 1e-10  # relative: the sum of a Farkas certificate may differ from 0 by this
RAY_KEEPS = 1e-9  # relative: a ray may break a row by this
CERTIFICATE_PROVES = 1e-9  # relative: a certificate whose value is smaller proves nothing
UNBOUNDED_FEASIBLE = 1e-7  # by how much the point at which an unbounded ray begins may break its rows

# Interior point methods

SWITCH = 1e-10  # relative accuracy at which interior steps stop without a vertex
START_SHIFT = 1.5  # times the largest violation: how far the start is moved inside (Mehrotra)
START_SHARE = 0.5  # of the mean product s z: how much further (Mehrotra)
CENTERING_POWER = 3  # of what the predictor leaves of s z: the share that the corrector goes back to (Mehrotra)
IPM_PROGRESS = 0.5  # of the last error: what leaves more makes no progress
TO_THE_BOUNDARY = 0.995  # share of the longest step: iterates stay inside
LEAST_SHRINK = 1e-8  # so that a step along which nothing shrinks is finite
STALLED_ERROR = 1e-7  # an error below this that no longer halves is at the limit of rounding
FEASIBILITY_CHECK = 1e-10  # accuracy of the program that says whether a ray has a feasible point
IPM_MOST_STEPS = 50  # of one program; what takes longer goes to HiGHS or the simplex method
FEW_PIVOTS = 20  # beside one for each variable: more than a good start needs
SIMPLEX_STEPS = 100  # pivots of the simplex method in full, times a tenth of the variables
IPM_LATE = 1e-6  # mean product s z, below which the largest z / s are active even without a clear gap
IPM_NEAR = 1e-7  # mean product s z, below which residuals are looked at
IPM_DIVERGED = 1e15  # mean product s z of a program without optimum
IPM_CHANGED_ROWS = 0.6  # times the root of their number: active rows that may still change when pivots begin
IPM_PIVOT_ATTEMPTS = 3  # at pivots: each failure costs about as much as a step
IPM_FIRST_LOOK = 2  # the step after which the active rows are looked at; before, they are those of the start
IPM_SHORT_STEP = 0.1  # a step this short makes no progress
IPM_SHORT_STEPS = 3  # so many of them: there is no optimum, for which others have the proof

# Simplex method

PIVOT_NEEDED = 1e-11  # a slack or multiplier below minus this calls for a pivot
PIVOT_LEAST = 1e-8  # the least pivot element: smaller ones spoil the inverse
PERTURBATION = 1e-3  # of the multipliers in dual steps, against cycles
REFACTOR_EVERY = 50  # exchanges; rank-one updates add up their rounding
CRASH_INDEPENDENT = 1e-6  # relative distance from the span of the rows before: a row of a first basis
WARM_POSITIVE = 1e-9  # of the largest multiplier of an earlier solution: its row was active
HIGHS_AT_BOUND = 1e-9  # how near its bound a value of a start counts as being there

# Exterior penalty method

EXTERIOR_ACCURACY = 1e-12  # where it stops; verification measures in other units, so that it aims lower
LARGEST_SIGMA = 1e6  # where 1 / penalty stops growing: beyond, the inner systems are too ill-conditioned
EXTERIOR_STEPS = 1000  # the most Newton steps with an exact system
EXTERIOR_STEPS_INEXACT = 5000  # the same with sketches and conjugate gradients, whose steps are cheaper
INNER_STEPS = 300  # of one minimization; a multiplier step after an unfinished one leads away
INNER_SHARE = 0.1  # of the last residual: accuracy of the next inner minimization, so that errors can be summed
SLOW_OUTER_STEP = 0.25  # of the last residual: an outer step that leaves more wants a larger sigma
OUTER_PROGRESS = 0.5  # of the best residual: an outer step that leaves more counts as stalled
STALLED_OUTER_STEPS = 12  # outer steps that did not halve the residual
RAY_DIFFERENCE = 1e-9  # relative to what it proves: how far an outer step may be from a certificate
RAY_STEEP = 1e-6  # relative to its size: how steep an outer step must be to be looked at as a certificate
GRADIENT_NOISE = 1e-13  # relative: a gradient below this that no longer halves is rounding
GRADIENT_PATIENCE = 2  # steps without halving
PENALTY_RIDGE = 1e-13  # on the Hessian of the plain penalty function: enough to factor, too little to move it

# Newton systems

WOODBURY_REFINEMENTS = 3  # a small diagonal cancels in Woodbury's identity
WRITTEN_OUT = 100_000  # entries over the batch up to which products are slower than matrices
FULL_ROW = 10.0  # times the root of n: a row with more entries would fill the product
SKETCH_DAMPING = 0.1  # of the mean curvature, for directions that a sketch cannot see

# Derivatives

TIGHT = 1e-7  # relative slack below which a row with a multiplier is active
ACTIVE_RANK = 1e-10  # of the largest eigenvalue: rank of the active rows
SINGULAR_PIVOT = 1e-12  # of the largest pivot of scaled active rows: a smaller one leaves no digits to a derivative
AUGMENTED_REGULARIZATION = 1e-8  # keeps a system of dependent rows regular; steps of refinement take it out again
AUGMENTED_STEPS = 20  # of refinement: each keeps 1e-8 / (1e-8 + s^2) of the error along a singular value s
AUGMENTED_SETTLED = 1e-13  # relative size of a last such step: a derivative is wanted to rounding
UNROLLED_PENALTIES = tuple(10.0**-k for k in range(3, 9))  # tried until the active rows stay the same
UNROLLED_STEPS = 300  # the most on the way to the minimizer, and recorded
UNROLLED_SETTLED = 1e-10  # relative change of the last iterate
UNROLLED_FAR_RIDGE = 1e-2  # times the gradient: far away few rows are active and the Hessian is singular

# Sufficient dimension reduction

VARIANCE_RANK = 1e-10  # of the largest variance: less is none
FOLD_SAMPLES = 2_000  # most samples of a cross validation, whose distances are a matrix
FOLD_DIMENSIONS = 20  # most dimensions that it tries
FOLD_NEIGHBOURS = 10  # that predict a held-out sample

# HiGHS

HIGHS_LEAST_TOLERANCE = 1e-10  # it accepts none below
HIGHS_MOST_TOLERANCE = 1e-3  # beyond it stops at points that no certificate can be built from
HIGHS_PDLP_SHARE = 0.1  # of the tolerance: its residuals are norms over all rows, ours are of each row
HIGHS_PRESOLVE_FROM = 20_000  # rows and columns: below, presolve costs more than it saves, and hides rays
HOT_SHARE = 0.5  # of the iterations from the slack basis: to start from an earlier one must save that much
HOT_PAUSE = 64  # the most calls without a hot start, after several in turn that did not pay
HIGHS_FEASIBLE = 1e-6  # a point that breaks the constraints by more is not feasible
HIGHS_SMALL_ENTRY = 1e-9  # HiGHS drops smaller matrix entries by default
HIGHS_SMALLEST_ENTRY = 1e-12  # the least that it can be set to keep

# Sizes at which one way becomes faster than another

CACHED_ENTRIES = 100_000  # entries of G over a block that stays in the cache with what is computed from it
KEPT_VERTICES = 64  # of a batch: of more, to factor them again costs less than to keep each
KEPT_ENTRIES = 10_000_000  # of all inverses kept for the backward pass: 80 MB, and as much for the rows
VERTICES_AT_ONCE = 8  # that are proven in one go rather than one by one
FOLDED_VARIABLES = 32  # up to which bounds are rows like others
PLAIN_INVERSE = 64  # variables up to which an inverse is faster than a factorization and its calls
NUMPY_UPDATE = 64  # variables up to which NumPy's rank-one update is faster than torch's
CRASH_BLOCK = 64  # rows that are orthogonalized at a time
PIVOT_WORK = 10_000_000_000  # multiplications of all pivots of a program: a bound on its time
DENSE_VARIABLES = 2_000  # beyond, dense n x n systems cost more than a sparse simplex method
SPARSE_FROM = 30  # variables: below, starting HiGHS costs more than solving
SPARSE_SHARE = 0.1  # of n^2: with fewer entries that are not 0 the sparse simplex method is the faster one
