"""Proofs that there is no optimum, made exact: multipliers or a direction that rounding has kept from adding up to 0.

Near its end the embedding solves with matrices that are all but singular, so what it finds may stop short of a proof
by more than a proof can be off. Which rows take part is clear by then. With K these rows, those of E among them,

- multipliers w of K prove that nothing is feasible if K'w = 0: the nearest such w is w - (K')^+ K'w;
- a direction d proves that nothing bounds the program if K d = 0, and the other rows fall along it: the nearest such d
  is d - K^+ K d.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp._flat import Flat, Point

CERTIFICATE = 1e-9  # by how much a proof may be off, relative to what it proves
_TAKES_PART = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)  # relative to the largest; tried in turn

Array = NDArray[Any]


def exact_proofs(flat: Flat, point: Point, places: Tensor) -> tuple[Tensor, Tensor]:
    """Which elements are proven infeasible or unbounded; the proofs are written into the point.

    Args:
        flat: The programs.
        point: Multipliers and directions of all of them, changed in place.
        places: Where to look.

    Returns:
        Places of the first and of the second kind.
    """
    infeasible, unbounded = [], []
    every = torch.arange(flat.h.shape[1], device=flat.h.device).unsqueeze(0)
    for place in places.tolist():
        one = flat.select(slice(place, place + 1))
        G, E, c = (part.squeeze(0).numpy(force=True) for part in (one.rows(every), one.E, one.c))
        h, e, mask = (part.squeeze(0).numpy(force=True) for part in (one.h, one.e, one.mask))
        G = G * mask[:, None]
        x, z, y = (part[place].numpy(force=True) for part in point)
        multipliers = _multipliers(G, h, E, e, z, y) if h @ z + e @ y < 0 else None
        if multipliers is not None:
            infeasible.append(place)
            for part, proof in zip(point[1:], multipliers, strict=True):
                part[place] = torch.from_numpy(proof).to(part)
            continue
        direction = _direction(G, E, c, x) if c @ x < 0 else None
        if direction is not None:
            unbounded.append(place)
            point.x[place] = torch.from_numpy(direction).to(point.x)
    return tuple(torch.tensor(found, dtype=torch.long, device=flat.c.device) for found in (infeasible, unbounded))  # type: ignore[return-value]


def _multipliers(G: Array, h: Array, E: Array, e: Array, z: Array, y: Array) -> tuple[Array, Array] | None:
    size = max(float(np.abs(part).max(initial=0.0)) for part in (z, y))
    for share in (0.0, *_TAKES_PART):
        active = z > share * size
        K = np.concatenate([G[active], E])
        w = np.concatenate([z[active], y])
        for _ in range(2 if share else 0):  # first as they are
            w = w - np.linalg.lstsq(K.T, K.T @ w, rcond=None)[0]
        count = int(np.count_nonzero(active))
        np.maximum(w[:count], 0.0, out=w[:count])
        price = h[active] @ w[:count] + e @ w[count:]
        if price < 0 and float(np.abs(w @ K).max()) <= -CERTIFICATE * price:
            full = np.zeros_like(z)
            full[active] = w[:count]
            return full, w[count:]
    return None


def _direction(G: Array, E: Array, c: Array, x: Array) -> Array | None:
    size = float(np.abs(x).max())
    for share in (0.0, *reversed(_TAKES_PART)):
        K = np.concatenate([G[G @ x > -share * size], E])
        d = x
        for _ in range(2 if share else 0):
            d = d - np.linalg.lstsq(K, K @ d, rcond=None)[0]
        broken = max(float((G @ d).max(initial=0.0)), float(np.abs(E @ d).max(initial=0.0)))
        if c @ d < 0 and broken <= -CERTIFICATE * (c @ d):
            return np.asarray(d)
    return None
