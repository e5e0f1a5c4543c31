"""Every argument matters, and every check accepts what it should and refuses what it should."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from setwise import InputError
from support.spec import Case


def test_every_option_changes_the_loss(case: Case) -> None:
    changed = dict.fromkeys(case.others, False)
    for seed in range(5):
        scores, labels, _ = case.draw(seed, size=30)
        if case.layout == "binary":
            scores, labels = scores.reshape(10, 3), labels.reshape(10, 3)
        base = case.functional(scores, labels, **case.settings)
        for name, other in case.others.items():
            settings = {**case.settings, name: other}
            value = case.functional(scores, labels, **settings)
            assert torch.equal(case.loss(**settings)(scores, labels), value), name
            changed[name] |= not torch.equal(base, value)
    assert all(changed.values()), changed


def test_the_table_names_every_option(case: Case) -> None:
    options = options_of(case.loss) - {"check_values", "process_group"}
    assert options == set(case.others) | case.tested_elsewhere
    assert options_of(case.functional) == {"input", "target", "weight", "check_values", "process_group", *options}
    assert len(options) <= 8


def options_of(function: Callable[..., object]) -> set[str]:
    """The names of all parameters."""
    return set(inspect.signature(function).parameters)


def test_losses_write_their_options_out(case: Case) -> None:
    for loss in (case.loss, case.functional):
        kinds = {parameter.kind for parameter in inspect.signature(loss).parameters.values()}
        assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


def test_an_option_that_does_not_exist_is_refused(case: Case) -> None:
    scores, labels, _ = case.draw(0)
    with pytest.raises(TypeError, match="smoothing"):
        case.loss(**case.settings, smoothing=1.0)
    with pytest.raises(TypeError, match="smoothing"):
        case.functional(scores, labels, **case.settings, smoothing=1.0)


def test_weight_changes_the_loss(case: Case) -> None:
    scores, labels, weight = case.draw(1, size=30, weighted=True)
    assert not torch.equal(
        case.functional(scores, labels, **case.settings),
        case.functional(scores, labels, weight=weight, **case.settings),
    )


def test_bad_options_are_refused_by_name(case: Case) -> None:
    scores, labels, _ = case.draw(0)
    for options, message in case.refused:
        with pytest.raises((InputError, TypeError), match=message):
            case.loss(**{**case.settings, **options})
        with pytest.raises((InputError, TypeError), match=message):
            case.functional(scores, labels, **{**case.settings, **options})
        for face, settings in faces(case):
            if options.keys() <= settings.keys():
                with pytest.raises((InputError, TypeError), match=message):
                    face(scores, labels, **{**settings, **options})
    for group in (True, "gloo", 0):
        with pytest.raises(TypeError, match="`process_group`"):
            case.loss(**case.settings, process_group=group)
        with pytest.raises(TypeError, match="`process_group`"):
            case.functional(scores, labels, **case.settings, process_group=group)


GOOD = torch.tensor([0.1, -0.4, 2.0, 0.3])
LABELS = torch.tensor([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"input": GOOD[:3]}, InputError, r"`target`.*\(3,\).*\(4,\)"),
        ({"input": GOOD.unsqueeze(1)}, InputError, r"`target`.*\(4, 1\).*\(4,\).*squeeze"),
        ({"input": torch.stack([GOOD, GOOD], 1)}, InputError, r"`target`.*\(4, 2\).*\(4,\)"),
        ({"input": GOOD.long()}, TypeError, "`input`.*int64"),
        ({"input": GOOD.tolist()}, TypeError, "`input`.*list"),
        ({"target": LABELS.tolist()}, TypeError, "`target`.*list"),
        ({"target": LABELS.to(torch.complex64)}, TypeError, "`target`.*complex"),
        ({"input": torch.tensor([0.1, float("nan"), 2.0, 0.3])}, InputError, r"`input`.*1 of 4.*\[1\].*nan"),
        ({"input": torch.tensor([0.1, 0.2, float("inf"), 0.3])}, InputError, r"`input`.*\[2\].*inf"),
        ({"input": torch.tensor([0.1, 0.2, -float("inf"), 0.3])}, InputError, r"`input`.*\[2\].*-inf"),
        ({"target": torch.tensor([0, 2, 1, 0])}, InputError, "`target`.*0 and 1.*2"),
        ({"target": torch.tensor([-1, 1, 1, -1])}, InputError, "`target`.*-1.*labels > 0"),
        ({"target": torch.tensor([0.0, 0.5, 1.0, 0.0])}, InputError, "`target`.*0.5"),
        ({"target": torch.tensor([0.0, float("nan"), 1.0, 0.0])}, InputError, "`target`.*nan"),
        ({"weight": torch.ones(3)}, InputError, r"`weight`.*\(4,\).*\(3,\)"),
        ({"weight": torch.tensor([1.0, -1.0, 1.0, 1.0])}, InputError, "`weight`.*non-negative.*-1"),
        ({"weight": torch.tensor([1.0, float("nan"), 1.0, 1.0])}, InputError, "`weight`.*finite"),
        ({"weight": [1.0] * 4}, TypeError, "`weight`.*list"),
        ({"input": torch.tensor([float("nan")] * 4), "target": torch.zeros(4)}, InputError, "`input`"),
    ],
)
def test_bad_tensors_are_refused_by_name(
    binary_case: Case, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    case = binary_case
    call = {"input": GOOD, "target": LABELS, "weight": None, **arguments}
    for loss in (case.loss(**case.settings), lambda **kw: case.functional(**kw, **case.settings)):
        with pytest.raises(error, match=message):
            loss(**call)


def test_the_same_tensors_are_accepted_when_right(binary_case: Case) -> None:
    case = binary_case
    for weight in (None, torch.ones(4), torch.zeros(4), torch.tensor([1, 2, 3, 4])):
        assert case.loss(**case.settings)(GOOD, LABELS, weight).isfinite()


def test_value_checks_can_be_switched_off(case: Case) -> None:
    scores, labels, _ = case.draw(0, size=4)
    scores[1] = float("nan")
    assert not case.loss(**case.settings, check_values=False)(scores, labels).requires_grad  # no error
    with pytest.raises(InputError, match="`input`"):
        case.loss(**case.settings, check_values=True)(scores, labels)


def faces(case: Case) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """The exact value and the program, where there are any, with their options."""
    both = (case.exact, case.exact_settings), (case.program, case.program_settings)
    return [(face, settings) for face, settings in both if face is not None]


def test_programs_and_exact_values_check_their_arguments(case_with_exact: Case) -> None:
    case = case_with_exact
    scores, labels, _ = case.draw(0, size=4)
    for face, settings in faces(case):
        with pytest.raises(InputError, match=r"`(labels|target)`"):
            face(scores, labels[:3], **settings)
        with pytest.raises(InputError, match=r"`(labels|target)`.*(2|9)"):
            face(scores, labels * 9, **settings)
        with pytest.raises(TypeError, match=r"`(scores|input)`"):
            face(scores.long(), labels, **settings)
        if face is case.program:
            with pytest.raises(InputError, match=r"`weight`.*-1"):
                face(scores, labels, weight=-torch.ones(4), **settings)
        if "margin" in settings:
            with pytest.raises(InputError, match="`margin`"):
                face(scores, labels, **{**settings, "margin": -1.0})
