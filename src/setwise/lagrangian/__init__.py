"""Measures over the whole data set: as regularizers, with one multiplier per example, and as constraints.

>>> import torch
>>> from setwise.lagrangian import SMeasure
>>> term = SMeasure(num_examples=4, measure="f1")
>>> term(torch.tensor([2.0, 1.0, -2.0, -1.0]), torch.tensor([1, 1, 0, 0]), index=torch.arange(4))
tensor(1.)
"""

from setwise.lagrangian.constraints.objective import ConstrainedObjective
from setwise.lagrangian.constraints.presets import (
    churn_at_most,
    demographic_parity,
    equal_rate,
    equal_tpr,
    equalized_odds,
    fpr_at_most,
    near_reference,
    positive_rate_at_most,
    precision_at_least,
    recall_at_least,
)
from setwise.lagrangian.constraints.rates import RateConstraint
from setwise.lagrangian.constraints.report import Scored
from setwise.lagrangian.constraints.selection import Selection
from setwise.lagrangian.constraints.thresholds import adjust_threshold
from setwise.lagrangian.dual_ascent.ascent import DualAscent
from setwise.lagrangian.dual_ascent.projection import Projection, project, project_touched, project_touched_
from setwise.lagrangian.equal_quality import EqualQuality
from setwise.lagrangian.group_head import GroupHead
from setwise.lagrangian.multipliers import ExampleMultipliers, Multipliers
from setwise.lagrangian.regularizers.exact import (
    ExactMultipliers,
    exact_multipliers,
    exact_value,
    f1_bound,
    s_measure_program,
)
from setwise.lagrangian.regularizers.problems import Gap
from setwise.lagrangian.regularizers.s_measure import SMeasure
from setwise.lagrangian.sharded_multipliers import ShardedMultipliers, merge_shards

__all__ = [
    "ConstrainedObjective",
    "DualAscent",
    "EqualQuality",
    "ExactMultipliers",
    "ExampleMultipliers",
    "Gap",
    "GroupHead",
    "Multipliers",
    "Projection",
    "RateConstraint",
    "SMeasure",
    "Scored",
    "Selection",
    "ShardedMultipliers",
    "adjust_threshold",
    "churn_at_most",
    "demographic_parity",
    "equal_rate",
    "equal_tpr",
    "equalized_odds",
    "exact_multipliers",
    "exact_value",
    "f1_bound",
    "fpr_at_most",
    "merge_shards",
    "near_reference",
    "positive_rate_at_most",
    "precision_at_least",
    "project",
    "project_touched",
    "project_touched_",
    "recall_at_least",
    "s_measure_program",
]
