"""Every check accepts what it should, and its refusal names the argument, what was expected and what came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from setwise import _checks
from setwise._checks import InputError

NAN, INF = float("nan"), float("inf")

ACCEPTED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (_checks.same_shape, ("a", torch.ones(2, 3), "b", torch.zeros(2, 3)), {}),
    (_checks.is_tensor, ("a", torch.ones(1)), {}),
    (_checks.is_floating, ("a", torch.ones(1, dtype=torch.bfloat16)), {}),
    (_checks.is_real, ("a", torch.ones(1, dtype=torch.bool)), {}),
    (_checks.is_real, ("a", torch.ones(1, dtype=torch.int32)), {}),
    (_checks.all_finite, ("a", torch.tensor([1.0, -2.0])), {}),
    (_checks.all_finite, ("a", np.array([])), {}),
    (_checks.all_non_negative, ("a", torch.tensor([0.0, 2.0])), {}),
    (_checks.all_non_negative, ("a", torch.empty(0)), {}),
    (_checks.all_binary, ("a", torch.tensor([0, 1, 1])), {}),
    (_checks.all_binary, ("a", np.array([True, False])), {}),
    (_checks.all_binary, ("a", np.array([0.0, 1.0, -0.0])), {}),
    (_checks.not_empty, ("a", np.zeros((1, 1))), {}),
    (_checks.one_of, ("a", "x", ("x", "y")), {}),
    (_checks.in_range, ("a", 0.0, 0.0, 1.0), {}),
    (_checks.in_range, ("a", 1, 0.0, 1.0), {}),
    (_checks.in_range, ("a", np.float32(0.5), 0.0, 1.0), {"open_low": True, "open_high": True}),
    (_checks.is_count, ("a", 1), {}),
    (_checks.is_count, ("a", np.int64(0)), {"low": 0}),
]

REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (
        _checks.same_shape,
        ("a", torch.ones(2), "b", torch.ones(3)),
        {},
        InputError,
        r"`b`, \(3,\), but got \(2,\)\.",
    ),
    (_checks.same_shape, ("a", torch.ones(2, 1), "b", torch.ones(2)), {}, InputError, "2 values, so `squeeze`"),
    (_checks.is_tensor, ("a", [1.0]), {}, TypeError, r"`a` to be a torch.Tensor, but got list"),
    (_checks.is_floating, ("a", torch.ones(1, dtype=torch.int64)), {}, TypeError, "`a`.*torch.int64"),
    (_checks.is_real, ("a", torch.ones(1, dtype=torch.complex64)), {}, TypeError, "`a`.*complex64"),
    (_checks.all_finite, ("a", torch.tensor([[1.0, NAN], [INF, 0.0]])), {}, InputError, r"`a`.*2 of 4.*\[0, 1\]: nan"),
    (_checks.all_non_negative, ("a", torch.tensor([1.0, -2.5])), {}, InputError, "`a`.*-2.5"),
    (_checks.all_non_negative, ("a", torch.tensor([NAN])), {}, InputError, "`a` to be finite"),
    (_checks.all_binary, ("a", torch.tensor([0, 1, 2, 3])), {}, InputError, "`a`.*holds 2, 3"),
    (_checks.all_binary, ("a", np.array([-1, 1])), {}, InputError, "-1; for labels -1 and 1"),
    (_checks.all_binary, ("a", np.array([NAN, 1.0])), {}, InputError, "`a`.*nan"),
    (_checks.not_empty, ("a", torch.empty(0, 3)), {}, InputError, r"`a`.*\(0, 3\)"),
    (_checks.one_of, ("a", "z", ("x", "y")), {}, InputError, "`a` to be one of 'x', 'y', but got 'z'"),
    (_checks.in_range, ("a", 1.5, 0.0, 1.0), {}, InputError, r"`a` to be in \[0.0, 1.0\], but got 1.5"),
    (_checks.in_range, ("a", 0.0, 0.0, 1.0), {"open_low": True}, InputError, r"\(0.0, 1.0\]"),
    (_checks.in_range, ("a", 1.0, 0.0, 1.0), {"open_high": True}, InputError, r"\[0.0, 1.0\)"),
    (_checks.in_range, ("a", NAN), {}, InputError, "`a`.*nan"),
    (_checks.in_range, ("a", "1"), {}, TypeError, "`a` to be a number, but got str"),
    (_checks.in_range, ("a", True), {}, TypeError, "`a` to be a number, but got bool"),
    (_checks.is_count, ("a", 0), {}, InputError, "`a` to be at least 1, but got 0"),
    (_checks.is_count, ("a", 1.0), {}, TypeError, "`a` to be an integer, but got float"),
    (_checks.is_count, ("a", True), {}, TypeError, "`a` to be an integer, but got bool"),
    (_checks.to_numpy, ("a", ["x"]), {}, TypeError, "`a` to hold numbers"),
    (_checks.extra, ("no_such_module", "cli"), {}, ImportError, r"`no_such_module`.*setwise\[cli\]"),
]


@pytest.mark.parametrize(("check", "arguments", "options"), ACCEPTED)
def test_accepts(check: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    check(*arguments, **options)


@pytest.mark.parametrize(("check", "arguments", "options", "error", "message"), REFUSED)
def test_refuses(
    check: Callable[..., Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        check(*arguments, **options)


def test_to_numpy_takes_tensors_arrays_and_lists() -> None:
    half = torch.tensor([1.5], dtype=torch.bfloat16, requires_grad=True)
    assert _checks.to_numpy("a", half).tolist() == [1.5]
    assert _checks.to_numpy("a", [True, False]).dtype == bool
    assert _checks.to_numpy("a", np.arange(3)).tolist() == [0, 1, 2]


def test_values_are_readable_only_in_eager_mode() -> None:
    assert _checks.values_are_readable()
    seen = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(_checks.values_are_readable())
        return x.sum()

    torch.func.grad(look)(torch.ones(2))
    assert seen == [False]


def test_extra_gives_the_module() -> None:
    assert _checks.extra("json", "cli").dumps([1]) == "[1]"
