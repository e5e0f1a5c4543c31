"""A table of losses: forward + backward by n, growth, memory in a fresh process, error against the definition.

A module of losses has a function `methods(table)` that gives, by name, a :class:`Method` for each loss of that table.
The error is that of value and gradient in float32, as it is used, against ``reference``: the same loss written down as
its definition says, in float64. Losses of different definitions are not compared in value.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from cases import Loss, Sample, binary, passes
from harness import Case, Timing, apart, extra_megabytes, first_line, interleave, largest_error
from records import Row, Table

BUDGET = 2.0  # CPU seconds that a loss gets for one n
IN_A_ROW = 3  # another method's matrix of pairs leaves cold caches; a training loop does not
ERROR_AT = 256


@dataclass(frozen=True)
class Method:
    """A loss, made for sets of n; the largest n that it is run at; and its definition where it has one."""

    make: Callable[[int], Loss]
    most: int = 10_000_000
    reference: Loss | None = None
    sample: Sample = binary


def always(make: Callable[[], Loss], reference: Loss | None = None, *, most: int = 10_000_000) -> Method:
    """A loss that is the same for any n."""
    return Method(lambda _: make(), most, reference)


def repetitions(n: int) -> int:
    """Many for a small set, so that the whole takes seconds."""
    return max(2, min(50, 1_000_000 // n))


def loss_table(
    module: str,
    name: str,
    sizes: Sequence[int],
    *,
    title: str,
    memory_n: int,
    about: str = "",
) -> Table:
    """Measure all losses of a table of a module."""
    methods: dict[str, Method] = importlib.import_module(module).methods(name)
    rows = []
    for n in sizes:
        chosen = {key: method for key, method in methods.items() if n <= method.most}
        cases: dict[str, Case] = {}
        timings: dict[str, Timing] = {}
        for key, method in chosen.items():
            try:
                cases[key] = passes(method.make(n), n, method.sample)
            except Exception as error:  # noqa: BLE001 (a peer that gives up is part of the result)
                timings[key] = Timing(failure=first_line(error))
        timings |= interleave(cases, repetitions(n), warm_up=1, in_a_row=IN_A_ROW, budget=BUDGET)
        for key, method in chosen.items():
            value, gradient = errors(method) if n == sizes[0] else (math.nan, math.nan)
            there = max(size for size in sizes if size <= min(memory_n, method.most))
            spent = megabytes(module, name, key, n) if n == there and not timings[key].failure else math.nan
            rows.append(Row(key, f"{n:,}", n, timings[key].ms, spent, value, gradient, timings[key].failure))
            print(f"  {name}: {key}, n = {n:,}: {timings[key].ms:.3g} ms, {spent:.3g} MB", flush=True)
    return Table(title, rows, memory_case=f"{memory_n:,}", about=about)


def errors(method: Method) -> tuple[float, float]:
    """Of value and gradient, the larger of two draws each."""
    if method.reference is None:
        return math.nan, math.nan
    found = []
    n = min(ERROR_AT, method.most)
    loss = method.make(n)
    for seed in range(2):
        torch.manual_seed(seed)
        scores, target = method.sample(n)
        exact = scores.detach().double().requires_grad_()
        value, truth = loss(scores, target), method.reference(exact, target)
        gradients = torch.autograd.grad(value, scores)[0], torch.autograd.grad(truth, exact)[0]
        found.append((largest_error(value, truth), largest_error(*gradients)))
    values, gradient = zip(*found, strict=True)
    return max(values), max(gradient)


def spent(module: str, table: str, method: str, n: int) -> float:
    """Megabytes of one pass beyond scores and labels, in this process."""
    entry: Method = importlib.import_module(module).methods(table)[method]
    passes(entry.make(40), 40, entry.sample)()()  # loads what is loaded on first use
    return extra_megabytes(passes(entry.make(n), n, entry.sample)())


def megabytes(module: str, table: str, method: str, n: int) -> float:
    """The same in a process of its own; nan where it fails."""
    try:
        return apart(spent, timeout=600)(module, table, method, n)
    except Exception as error:  # noqa: BLE001 (part of the result)
        print(f"  {method}: {first_line(error)}", flush=True)
        return math.nan
