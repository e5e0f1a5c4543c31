"""Sliced inverse regression: the directions of the features on which a response depends.

The method (Li, 1991) serves sufficient dimension reduction: whiten the features, cut the response into slices, and take
the covariance of the slices' means. If the response depends on the features through B'x alone, and the features are
elliptical, the leading eigenvectors span B. There are at most (slices - 1) of them; with a response of two values, one.
The rest of the space is ordered by sliced average variance estimation (Cook and Weisberg, 1991), by how much the
covariance inside the slices differs from that of all: it sees what the means cannot.

How many directions to keep is chosen by cross validation: the response of a held-out sample is predicted by the mean of
its nearest neighbours in the reduced features, which needs no model and is spoilt by directions that say nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol


def directions(features: Tensor, response: Tensor, slices: int, shrinkage: float) -> Tensor:
    """All directions, the most telling first; features @ directions are hardly correlated, those without variance last.

    Args:
        features: Samples.  # shape: (samples, q)
        response: What is to be explained.  # shape: (samples,)
        slices: How many slices; a response of no more different values than that has one slice for each.
        shrinkage: Share of the mean variance in the covariance, which keeps directions of little variance, where the
            slices differ by chance, from coming first.

    Returns:
        Columns that span the whole space.  # shape: (q, q)
    """
    centred = features - features.mean(0)
    variance, axes = torch.linalg.eigh(centred.mT @ centred / len(features))
    kept = variance > tol.VARIANCE_RANK * variance.amax().clamp(min=torch.finfo(variance.dtype).tiny)
    shrunk = (1 - shrinkage) * variance[kept] + shrinkage * variance.mean()
    whitening = axes[:, kept] / shrunk.sqrt()  # shape: (q, rank)
    white = centred @ whitening
    label = sliced(response, slices)
    rank, count = white.shape[1], int(label.max()) + 1
    spread = white.mT @ white / len(white)  # the identity, but for the shrinkage
    between, within = white.new_zeros(rank, rank), white.new_zeros(rank, rank)
    for k in range(count):
        part = white[label == k]
        share, mean = len(part) / len(white), part.mean(0)
        between += share * mean.outer(mean)
        away = spread - (part - mean).mT @ (part - mean) / len(part)
        within += share * away @ away
    strength, vectors = torch.linalg.eigh(between)
    vectors = vectors.flip(-1)
    significant = min(count - 1, int((strength > tol.VARIANCE_RANK).sum()))
    rest = vectors[:, significant:]
    inside = torch.linalg.eigh(rest.mT @ within @ rest).eigenvectors.flip(-1)
    ordered = torch.cat([vectors[:, :significant], rest @ inside], 1)
    return torch.cat([whitening @ ordered, axes[:, ~kept]], 1)


def sliced(response: Tensor, slices: int) -> Tensor:
    """The slice of each sample: one for each value if they are few, else of equal numbers.  # shape: (samples,)."""
    label: Tensor
    values, label = response.unique(return_inverse=True)
    if len(values) <= slices:
        return label
    edges = torch.quantile(response, torch.linspace(0, 1, slices + 1, dtype=response.dtype)[1:-1].to(response.device))
    label = torch.bucketize(response.contiguous(), edges.unique()).unique(return_inverse=True)[1]
    return label


def choose_dimension(
    features: Tensor, response: Tensor, *, slices: int, shrinkage: float, folds: int, seed: int
) -> int:
    """The smallest dimension whose held-out error is within a standard error of the least.

    Args:
        features: Samples.  # shape: (samples, q)
        response: What is predicted.  # shape: (samples,)
        slices: As for :func:`directions`.
        shrinkage: The same.
        folds: Of the cross validation.
        seed: Of the folds.
    """
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))[: tol.FOLD_SAMPLES].to(
        features.device
    )
    features, response = features[order], response[order]
    fold = torch.arange(len(order), device=features.device) % folds
    errors = torch.stack([_held_out(features, response, fold == k, slices, shrinkage) for k in range(folds)])
    mean = errors.mean(0)  # shape: (dimensions,)
    best = int(mean.argmin())
    allowed = mean[best] + errors[:, best].std() / math.sqrt(folds)
    return int((mean <= allowed).nonzero()[0]) + 1


def _held_out(features: Tensor, response: Tensor, held: Tensor, slices: int, shrinkage: float) -> Tensor:
    """Mean squared error on the held-out samples with the first 1, 2, ... directions.  # shape: (dimensions,)."""
    basis = directions(features[~held], response[~held], slices, shrinkage)[:, : tol.FOLD_DIMENSIONS]
    known, asked = features[~held] @ basis, features[held] @ basis
    neighbours = min(tol.FOLD_NEIGHBOURS, len(known))
    distance = known.new_zeros(len(asked), len(known))
    errors = []
    for d in range(basis.shape[1]):
        distance = distance + (asked[:, d : d + 1] - known[:, d]) ** 2
        nearest = distance.topk(neighbours, largest=False).indices
        errors.append(((response[~held][nearest].mean(-1) - response[held]) ** 2).mean())
    return torch.stack(errors)
