"""The options of the losses at an operating point: each matters, and is accepted or refused by name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from setwise import InputError, functional, measures
from setwise.measures import (
    FPRAtTPRLoss,
    PrecisionAtKLoss,
    PrecisionAtRecallLoss,
    RecallAtPrecisionLoss,
    TPRAtFPRLoss,
)
from support.draws import draw
from support.exact_values import point_exact

OPTIONS: dict[type, tuple[dict[str, Any], dict[str, Any]]] = {
    PrecisionAtRecallLoss: (
        {"recall": 0.8},
        {"recall": 1.0, "margin": 0.5, "at": "floor", "threshold": -0.5, "surrogate": "ramp", "link": "sigmoid"},
    ),
    RecallAtPrecisionLoss: (
        {"precision": 0.8},
        {"precision": 0.9, "margin": 0.5, "threshold": -0.5, "surrogate": "ramp", "link": "sigmoid"},
    ),
    TPRAtFPRLoss: (
        {"fpr": 0.2},
        {"fpr": 0.4, "margin": 0.5, "threshold": -0.5, "surrogate": "ramp", "link": "sigmoid"},
    ),
    FPRAtTPRLoss: (
        {"tpr": 0.8},
        {"tpr": 0.6, "margin": 0.5, "threshold": -0.5, "surrogate": "ramp", "link": "sigmoid"},
    ),
    PrecisionAtKLoss: ({"k": 7}, {"k": 0.5, "margin": 0.5, "surrogate": "ramp", "link": "sigmoid"}),
}
FUNCTIONS = {
    PrecisionAtRecallLoss: "precision_at_recall",
    RecallAtPrecisionLoss: "recall_at_precision",
    TPRAtFPRLoss: "tpr_at_fpr",
    FPRAtTPRLoss: "fpr_at_tpr",
    PrecisionAtKLoss: "precision_at_k",
}


@pytest.mark.parametrize("loss", OPTIONS)
def test_every_option_changes_the_loss_in_every_face(loss: type) -> None:
    settings, others = OPTIONS[loss]
    function = getattr(functional, FUNCTIONS[loss] + "_loss")
    scores, labels, weight = draw(0, size=30, weighted=True)
    base = function(scores, labels, **settings)
    for name, other in others.items():
        changed = function(scores, labels, **{**settings, name: other})
        assert not torch.equal(base, changed), name
        module = loss(**{**settings, name: other})
        assert torch.equal(module(scores, labels), changed)
        assert f"{name}={other!r}" in repr(module)
        later = loss(**settings)
        setattr(later, name, other)  # an option may be changed between batches
        assert torch.equal(later(scores, labels), changed)
    assert not torch.equal(base, function(scores, labels, weight=weight, **settings))
    assert set(inspect.signature(loss).parameters) == {*others, "check_values", "process_group"}
    assert set(inspect.signature(function).parameters) == {
        "input",
        "target",
        "weight",
        "check_values",
        "process_group",
        *others,
    }


BAD: list[tuple[type, dict[str, Any], str]] = [
    *((PrecisionAtRecallLoss, {"recall": bad}, "`recall`") for bad in (0.0, -0.1, 1.1, float("nan"), "0.9", True)),
    *((RecallAtPrecisionLoss, {"precision": bad}, "`precision`") for bad in (0, 1.0, -0.1, float("nan"))),
    *((TPRAtFPRLoss, {"fpr": bad}, "`fpr`") for bad in (0.0, 1.0, 2.0)),
    *((FPRAtTPRLoss, {"tpr": bad}, "`tpr`") for bad in (0.0, 1.5)),
    *((PrecisionAtKLoss, {"k": bad}, "`k`") for bad in (0, -1, 0.0, 1.0, 2.5, True, "3")),
    *((loss, {"margin": bad}, "`margin`") for loss in OPTIONS for bad in (-0.5, float("nan"), float("inf"))),
    *((loss, {"surrogate": "ramp", "margin": 0.0}, "`margin`") for loss in OPTIONS),
    *((loss, {"surrogate": "sigmoid"}, "`surrogate`") for loss in OPTIONS),
    *((loss, {"link": "tanh"}, "`link`") for loss in OPTIONS),
    *((loss, {"threshold": float("inf")}, "`threshold`") for loss in OPTIONS if loss is not PrecisionAtKLoss),
    (TPRAtFPRLoss, {"threshold": "0"}, "`threshold`"),
    (PrecisionAtRecallLoss, {"at": "ceiling"}, "`at`"),
    (PrecisionAtRecallLoss, {"at": "floor", "threshold": 0.0}, "`at`.*`threshold`"),
]


@pytest.mark.parametrize(("loss", "options", "message"), BAD)
def test_bad_options_are_refused_by_name_in_every_face(loss: type, options: dict[str, Any], message: str) -> None:
    settings = {**OPTIONS[loss][0], **options}
    scores, labels, _ = draw(0)
    with pytest.raises((InputError, TypeError), match=message):
        loss(**settings)
    for face in (getattr(functional, FUNCTIONS[loss] + "_loss"), point_exact(FUNCTIONS[loss].replace("_at_", "@"))):
        with pytest.raises((InputError, TypeError), match=message):
            face(scores, labels, **settings)
    if "surrogate" not in options:
        with pytest.raises((InputError, TypeError), match=message):
            getattr(measures, FUNCTIONS[loss] + "_program")(scores, labels, **settings)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (PrecisionAtRecallLoss, {"recall": 1}),
        (PrecisionAtRecallLoss, {"recall": 1e-6, "margin": 0}),
        (RecallAtPrecisionLoss, {"precision": 0.999}),
        (TPRAtFPRLoss, {"fpr": 1e-6}),
        (FPRAtTPRLoss, {"tpr": 1}),
        (PrecisionAtKLoss, {"k": 1}),
        (PrecisionAtKLoss, {"k": 0.999}),
        (TPRAtFPRLoss, {"fpr": 0.5, "threshold": 0}),
        (PrecisionAtRecallLoss, {"recall": 0.5, "margin": 3.0}),
    ],
)
def test_the_ends_of_the_ranges_are_accepted(loss: type, options: dict[str, Any]) -> None:
    for seed in range(5):
        scores, labels, _ = draw(seed, ties=True)
        scores.requires_grad_()
        value = loss(**options)(scores, labels)
        value.backward()
        assert value.isfinite()
        assert value >= 0
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("name", FUNCTIONS.values())
def test_programs_and_exact_values_check_their_arguments(name: str) -> None:
    level = next(iter(OPTIONS[next(loss for loss in FUNCTIONS if FUNCTIONS[loss] == name)][0].items()))
    scores, labels = torch.tensor([0.1, -0.4, 2.0, 0.3]), torch.tensor([0, 1, 1, 0])
    for face in (point_exact(name.replace("_at_", "@")), getattr(measures, name + "_program")):
        options = dict([level])
        with pytest.raises(InputError, match="`labels`"):
            face(scores, labels[:3], **options)
        with pytest.raises(InputError, match=r"`labels`.*2"):
            face(scores, labels * 2, **options)
        with pytest.raises(TypeError, match="`scores`"):
            face(scores.long(), labels, **options)
    program = getattr(measures, name + "_program")
    with pytest.raises(InputError, match=r"`scores`.*shape"):
        program(scores.reshape(2, 2), labels.reshape(2, 2), **options)
    with pytest.raises(InputError, match=r"`labels`.*one class"):
        program(scores, torch.ones(4), **options)
    with pytest.raises(InputError, match="`weight`"):
        program(scores, labels, weight=-torch.ones(4), **options)
