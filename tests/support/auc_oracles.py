"""The AUC family by brute force, straight from the definitions; nothing here is shared with the package."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def cost(ahead: Tensor, margin: float, surrogate: str) -> Tensor:
    """The surrogate of a pair, by how far its positive is ahead; relu's conventions at the kinks."""
    if surrogate == "hinge":
        return (margin - ahead).relu()
    if surrogate == "squared_hinge":
        return (margin - ahead).relu() ** 2
    # the gradient is 0 at both kinks
    return torch.where((ahead > 0) & (ahead < margin), margin - ahead, (ahead <= 0) * margin) / margin


def share_of(scores: Tensor, weight: Tensor, share: float) -> Tensor:
    """What is left of each weight when only the highest share counts; equal scores share alike."""
    left = share * weight.sum()
    taken = torch.zeros_like(weight)
    for level in sorted(set(scores.tolist()), reverse=True):
        here = scores == level
        mass = weight[here].sum()
        part = min(1.0, float(left / mass)) if mass > 0 else 1.0
        taken[here] = part * weight[here]
        left = (left - part * mass).clamp(min=0.0)
    return taken


def partial_pairs(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    max_fpr: float,
    min_tpr: float = 0.0,
    margin: float = 1.0,
    surrogate: str = "hinge",
) -> Tensor:
    """The weighted mean over the chosen pairs, differentiable."""
    positive = labels == 1
    weight = torch.ones_like(scores) if weight is None else weight.to(scores)
    high, low = scores[positive], scores[~positive]
    w = share_of(-high.detach(), weight[positive], 1 - min_tpr)
    v = share_of(low.detach(), weight[~positive], max_fpr)
    pairs = w[:, None] * v[None, :]
    return (cost(high[:, None] - low[None, :], margin, surrogate) * pairs).sum() / pairs.sum()


def precision_ratios(
    scores: Tensor, labels: Tensor, weight: Tensor | None = None, *, margin: float = 1.0, surrogate: str = "hinge"
) -> Tensor:
    """One minus the mean of R / (R + F) over the positives, differentiable."""
    positive = labels == 1
    weight = torch.ones_like(scores) if weight is None else weight.to(scores)
    high, low, w, v = scores[positive], scores[~positive], weight[positive], weight[~positive]
    F = (cost(high[:, None] - low[None, :], margin, surrogate) * v).sum(1)
    R = ((high[None, :] >= high[:, None]) * w).sum(1)
    counts = w > 0
    return 1 - (w[counts] * R[counts] / (R[counts] + F[counts])).sum() / w.sum()


def one_versus_all(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    average: str = "macro",
    margin: float = 1.0,
    surrogate: str = "hinge",
) -> Tensor:
    """Each column by its pair matrix; ``labels`` are indices or a matrix of 0 and 1."""
    weight = torch.ones_like(scores[:, 0]) if weight is None else weight.to(scores)
    sums, masses, sizes = [], [], []
    for c in range(scores.shape[1]):
        positive = (labels[:, c] if labels.ndim == 2 else labels == c).bool()
        pairs = weight[positive][:, None] * weight[~positive][None, :]
        ahead = scores[positive, c][:, None] - scores[~positive, c][None, :]
        if pairs.sum() > 0:
            sums.append((cost(ahead, margin, surrogate) * pairs).sum())
            masses.append(pairs.sum())
            sizes.append(weight[positive].sum())
    if not sums:
        return 0 * scores.sum()
    total, mass, size = torch.stack(sums), torch.stack(masses), torch.stack(sizes)
    if average == "sum":
        return total.sum()
    return (total / mass).mean() if average == "macro" else (total / mass * size).sum() / size.sum()


def auc_mu_definition(f: Tensor, labels: Tensor, partition: Tensor) -> Tensor:
    """Kleiman and Page's AUC-mu, one comparison at a time, ties counting half."""
    values = []
    for k, c in itertools.combinations(range(f.shape[1]), 2):
        v = partition[k] - partition[c]
        wins = [
            0.5 + 0.5 * float(torch.sign((v[k] - v[c]) * (v @ f[i] - v @ f[j])))
            for i in torch.nonzero(labels == k).flatten().tolist()
            for j in torch.nonzero(labels == c).flatten().tolist()
        ]
        if wins:
            values.append(sum(wins) / len(wins))
    return torch.tensor(sum(values) / len(values), dtype=f.dtype)


def auc_mu_pairs(
    f: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    partition: Tensor | None = None,
    average: str = "pair",
    margin: float = 1.0,
    surrogate: str = "hinge",
) -> Tensor:
    """The surrogate of AUC-mu by the matrices of sample pairs, differentiable."""
    classes = f.shape[1]
    weight = torch.ones_like(f[:, 0]) if weight is None else weight.to(f)
    P = 1 - torch.eye(classes, dtype=f.dtype) if partition is None else partition.to(f)
    sums, masses = [], []
    for k, c in itertools.combinations(range(classes), 2):
        v = P[k] - P[c]
        side = (v[k] - v[c]) * (f @ v) / (v[k] - v[c]) ** 2
        i, j = labels == k, labels == c
        pairs = weight[i][:, None] * weight[j][None, :]
        if pairs.sum() > 0:
            sums.append((cost(side[i][:, None] - side[j][None, :], margin, surrogate) * pairs).sum())
            masses.append(pairs.sum())
    if not sums:
        return 0 * f.sum()
    total, mass = torch.stack(sums), torch.stack(masses)
    return total.sum() if average == "sum" else (total / mass).mean()
