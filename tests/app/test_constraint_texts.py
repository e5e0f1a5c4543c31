"""Constraints with the table's own names of groups: their texts, and their values on a set."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from setwise import metrics
from setwise._checks import InputError
from setwise.app.settings import TrainSettings
from setwise.app.table_constraints import Constraints, Groups, check_text, group_columns
from setwise.lagrangian.constraints.report import Scored


def test_names_of_groups_become_numbers_and_back() -> None:
    groups = {"marital status": Groups(np.array([0, 1, 2]), ("Never married", "Married", "2"))}
    made = Constraints(
        ["recall[marital status=Never married]>=0.5", "tpr_difference<=0.1", "fpr[maritalstatus=2]<=0.3"], groups
    )
    assert [str(each) for each in made.each] == [
        "recall[maritalstatus=0]>=0.5", "tpr_difference[group=group]<=0.1", "fpr[maritalstatus=2]<=0.3"
    ]  # fmt: skip
    assert made.shown("recall[maritalstatus=0]>=0.5") == "recall[maritalstatus=Never married]>=0.5"
    assert made.shown("recall[maritalstatus=9]>=0.5") == "recall[maritalstatus=9]>=0.5"
    columns = made.columns({"marital status": torch.tensor([0, 1])})
    assert set(columns) == {"maritalstatus", "group"}
    assert not Constraints([], {})


def test_columns_of_constraints() -> None:
    texts = ["recall[group=sex]>=0.8", "fpr[race=White, against=overall]<=0.1", "recall>=0.5", "tnr[group=sex]>=0.1"]
    assert group_columns(texts) == ["sex", "race"]


@pytest.mark.parametrize(
    "text", ["recall>=0.9", "recall[group=sex]>=0.8", "tpr_difference[group=sex]<=0.02", "f1[a=B]>=0.2"]
)
def test_texts_that_are_constraints(text: str) -> None:
    check_text(text)
    assert TrainSettings(subject_to=(text,)).subject_to == (text,)


@pytest.mark.parametrize("text", ["recall", "recall>0.9", "recal>=0.9", "recall>=2", "churn[reference=old]<=0.1", ""])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=r"constraint|`lower`|`subject_to`"):
        TrainSettings(subject_to=(text,))


def test_met_is_said_of_the_estimate_and_certain_of_its_bound() -> None:
    scores = torch.tensor([1.0, -1.0, -1.0]).repeat_interleave(torch.tensor([8, 2, 90]))
    labels = torch.tensor([1, 1, 0]).repeat_interleave(torch.tensor([8, 2, 90]))
    made = Constraints(["recall>=0.7", "recall>=0.3", "fpr<=0.1", "recall>=0.9", "f1>=0.4"], {})
    found = made.values(Scored(scores, labels), 0.0)
    assert [(row["met"], row["certain"]) for row in found] == [
        (True, False), (True, True), (True, True), (False, False), (True, True)
    ]  # fmt: skip
    assert found[0]["bound"] == pytest.approx(metrics.rate_bound(8, 10))
    assert found[2]["bound"] == pytest.approx(metrics.rate_bound(0, 90, side="upper")), "though its error is 0"
    normal = made.values(Scored(scores, labels, None, torch.ones(100)), 0.0)
    assert normal[0]["bound"] == pytest.approx(0.8 - 1.6449 * math.sqrt(0.8 * 0.2 / 10), abs=1e-4)
    empty = made.values(Scored(scores[10:], labels[10:]), 0.0)
    assert (empty[0]["met"], empty[0]["certain"]) == (False, False), "there are no positives"
