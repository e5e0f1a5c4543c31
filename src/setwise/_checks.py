"""Every boundary check of the package and its message, in one style.

A check names the argument, says what was expected and what came. Shape and type checks always run. Checks of values
(finite scores, labels 0 or 1) cost a pass over the data and read it, so callers run them only where
:func:`values_are_readable` holds: eager mode, outside ``torch.compile`` and functorch transforms.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor


class InputError(ValueError):
    """A value given by the user that cannot be used; the message says which, what was expected and what came."""


def values_are_readable() -> bool:
    """Whether tensor values may be read here: not while tracing, and not under ``torch.func`` transforms."""
    return not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())  # noqa: SLF001 (no public name)


def same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Refuse two tensors of different shapes; scores of shape (n, 1) beside labels of shape (n,) get a hint."""
    if value.shape == other.shape:
        return
    hint = ""
    if value.numel() == other.numel():
        hint = f"; both hold {value.numel()} values, so `squeeze` or `reshape` one of them"
    raise InputError(
        f"Expected `{name}` to have the same shape as `{other_name}`, {tuple(other.shape)}, "
        f"but got {tuple(value.shape)}{hint}."
    )


def is_tensor(name: str, value: object) -> None:
    """Refuse anything that is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected `{name}` to be a torch.Tensor, but got {type(value).__name__}.")


def is_floating(name: str, value: Tensor) -> None:
    """Refuse tensors that are not real floating point."""
    is_tensor(name, value)
    if not value.is_floating_point():
        raise TypeError(f"Expected `{name}` to be a floating-point tensor, but got dtype {value.dtype}.")


def is_real(name: str, value: Tensor) -> None:
    """Refuse complex tensors: labels and weights may be boolean, integer or floating point."""
    is_tensor(name, value)
    if value.is_complex():
        raise TypeError(f"Expected `{name}` to be a boolean, integer or floating-point tensor, but got {value.dtype}.")


def is_constant(name: str, value: Tensor) -> None:
    """Refuse a tensor that asks for a gradient which it would not get, where gradients are recorded."""
    if value.requires_grad and torch.is_grad_enabled():
        raise InputError(
            f"Expected `{name}` to be a constant, but it requires a gradient, which no loss passes on to it; pass "
            f"`{name}.detach()`."
        )


def all_finite(name: str, value: Tensor | NDArray[Any]) -> None:
    """Refuse NaN and infinity; the message counts them and shows where the first one stands."""
    if isinstance(value, np.ndarray) and _sum_is_finite(value):
        return
    array = value.detach().cpu().double().numpy() if isinstance(value, Tensor) else np.asarray(value)
    bad = ~np.isfinite(array)
    if bad.any():
        first = np.unravel_index(int(np.argmax(bad)), array.shape)
        place = ", ".join(str(int(i)) for i in first)
        raise InputError(
            f"Expected `{name}` to be finite, but {int(bad.sum())} of {array.size} values are not, "
            f"the first at [{place}]: {array[first]}."
        )


def _sum_is_finite(array: NDArray[Any]) -> bool:
    """A look that needs no memory: a sum is finite only if all its terms are; it may overflow where they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()))


def all_non_negative(name: str, value: Tensor | NDArray[Any]) -> None:
    """Refuse negative, NaN or infinite values, as sample weights must not be any of these."""
    all_finite(name, value)
    low = float(value.min()) if math.prod(value.shape) else 0.0
    if low < 0:
        raise InputError(f"Expected `{name}` to be non-negative, but its smallest value is {low}.")


def all_binary(name: str, value: Tensor | NDArray[Any]) -> None:
    """Refuse labels other than 0 and 1; the message shows up to four of the values found."""
    array = value.detach().cpu() if isinstance(value, Tensor) else torch.from_numpy(np.ascontiguousarray(value))
    bad = (array != 0) & (array != 1)
    if bool(bad.any()):
        found = ", ".join(str(v) for v in torch.unique(array[bad])[:4].tolist())
        hint = "; for labels -1 and 1 pass `(labels > 0)`" if bool((array == -1).any()) else ""
        raise InputError(f"Expected `{name}` to hold only 0 and 1, but it also holds {found}{hint}.")


def not_empty(name: str, value: Tensor | NDArray[Any]) -> None:
    """Refuse arrays without any element."""
    if math.prod(value.shape) == 0:
        raise InputError(f"Expected `{name}` to hold at least one value, but its shape is {tuple(value.shape)}.")


def one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a setting that is not among the allowed ones, and list them."""
    options = tuple(allowed)
    if value not in options:
        raise InputError(f"Expected `{name}` to be one of {', '.join(map(repr, options))}, but got {value!r}.")


def in_range(
    name: str,
    value: float,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse a number outside [low, high] (an open end excludes the end itself), NaN, or not a number at all."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"Expected `{name}` to be a number, but got {type(value).__name__}.")
    inside = (value > low if open_low else value >= low) and (value < high if open_high else value <= high)
    if not inside:  # NaN is inside of nothing; a symbolic number of `torch.compile` has no `math.isnan`
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if open_high or high == math.inf else "]"
        raise InputError(f"Expected `{name}` to be in {left}{low}, {high}{right}, but got {value}.")


def is_count(name: str, value: int, low: int = 1) -> None:
    """Refuse anything but an integer of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"Expected `{name}` to be an integer, but got {type(value).__name__}.")
    if value < low:
        raise InputError(f"Expected `{name}` to be at least {low}, but got {value}.")


def to_numpy(name: str, value: Tensor | ArrayLike) -> NDArray[Any]:
    """A NumPy view or copy of a tensor (any device), array or sequence of numbers."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype in (torch.float16, torch.bfloat16) else value).numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"Expected `{name}` to hold numbers, but got dtype {array.dtype}.")
    return array


def extra(module: str, name: str) -> ModuleType:
    """Import a module of an optional extra, or say which extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"This needs `{module}`, which comes with: pip install 'setwise[{name}]'.") from error
