"""Phase I for recession rays: a ray makes a program unbounded only where it has a feasible point.

With the cost -G'1 all multipliers 1 are strictly dual feasible, so that an optimum exists wherever any point is
feasible. Solving with that cost instead of the program's own gives a feasible point or a Farkas certificate.
"""

from __future__ import annotations

from dataclasses import replace

from setwise.lp.solvers import embedding, exterior_newton
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.newton_systems import Prepared
from setwise.lp.solvers.status import INFEASIBLE, BatchStatus
from setwise.lp.standard_form import Scaling, StandardForm, largest, select


def check_rays(
    status: BatchStatus, scaled: StandardForm, scaling: Scaling, max_steps: int, system: Prepared | None = None
) -> None:
    """Confirm or refute every program that has a recession ray.

    Args:
        status: Of the batch.
        scaled: All programs of the batch, scaled.
        scaling: Its scaling.
        max_steps: Of the interior method.
        system: Newton system of the exterior method, for matrices that are not written out.
    """
    places = status.unbounded()
    if places.numel() == 0:
        return
    form = scaled.select(places)
    form = replace(form, c=-form.Gt(form.mask))
    form = replace(form, c=form.c / largest(form.c).clamp(min=1.0).unsqueeze(-1))
    if system is None:
        result = embedding.run(form, max_steps=max_steps, tolerance=tol.FEASIBILITY_CHECK)
    else:
        # Newton steps of the exterior method are cheaper than interior steps, and it takes more of them.
        result = exterior_newton.run(
            form,
            form.zero(),
            exterior_newton.Penalty(),
            max_steps=10 * max_steps,
            tolerance=tol.FEASIBILITY_CHECK,
            system=system.select(places),
        )
    status.confirm_unbounded(places, select(scaling, places).unscale(result.point), result.code == INFEASIBLE)
