"""A network whose outputs keep linear constraints exactly: its raw outputs are projected by a linear program.

    python examples/constrained_outputs.py          # three seeds: 16 seconds on one core

A network divides a budget over nine places in three regions from what it sees of the day. Shares are not negative and
sum to 1, no region gets more than 40 %, no place more than 20 %. The gain of a place is concave in its share, so the
best division can be computed, and what others lose against it can be reported. The same network three times:

- *softmax*: shares that sum to 1; the caps are broken;
- *softmax, projected afterwards*: trained without the caps, its outputs are projected when it is used;
- *trained through the projection*: the projection is a layer of the network.

The projection of r in the L1 norm, with weights w, is the linear program

    min w'(p + q)   s.t.   A (r + p - q) <= b,   1'(r + p - q) = 1,   r + p - q >= 0,   p, q >= 0

whose right-hand sides hold r; ``lp.LPLayer`` gives p and q their derivative by them. The weights differ a little, so
that the nearest point is unique.

Held out, mean over three seeds: what is lost of the best gain, and the largest violation of any constraint:

| | lost | largest violation |
|---|---:|---:|
| softmax | -22 % | 8e-01 |
| softmax, projected afterwards | 5.9 % | 4e-16 |
| trained through the projection | 2.0 % | 2e-16 |

Without the caps there is more to gain, which is why the first row is below 0.
"""
# ruff: noqa: T201, INP001 (a script that prints what it reaches)

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

from setwise import lp

PLACES, REGIONS, FEATURES = 9, 3, 6
REGION = torch.kron(torch.eye(REGIONS), torch.ones(PLACES // REGIONS)).double()
A = torch.cat([REGION, torch.eye(PLACES, dtype=torch.float64)])
b = torch.cat([torch.full((REGIONS,), 0.4), torch.full((PLACES,), 0.2)]).double()


class Projection(nn.Module):
    """The nearest point of {A z <= b, sum z = 1, z >= 0} in a weighted L1 norm."""

    def __init__(self, A: Tensor, b: Tensor) -> None:
        super().__init__()
        n = A.shape[1]
        eye = torch.eye(n, dtype=A.dtype)
        rows = torch.cat([A, -eye])
        self.A, self.b = A, b
        self.rows = torch.cat([rows, -rows], 1)
        self.sum = torch.cat([torch.ones(1, n), -torch.ones(1, n)], 1).to(A.dtype)
        weights = 1 + 0.01 * torch.arange(n, dtype=A.dtype)
        self.cost = torch.cat([weights, weights])
        self.layer = lp.LPLayer()

    def forward(self, raw: Tensor) -> Tensor:
        """The projection of each row, with a derivative by it.  # shape: (batch, n)."""
        sides = torch.cat([self.b - raw @ self.A.T, raw], -1)
        moves: Tensor = self.layer(self.cost, self.rows, sides, self.sum, 1 - raw.sum(-1, keepdim=True))
        up, down = moves.chunk(2, -1)
        return raw + up - down


def days(count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """What is seen of a day, and what the places are worth on it.  # shape: (count, 6), (count, 9)."""
    mixing = torch.randn(FEATURES, PLACES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, FEATURES, generator=g, dtype=torch.float64)
    return x, (x @ mixing / 2 + 0.3 * torch.randn(count, PLACES, generator=g, dtype=torch.float64)).exp()


def gain(shares: Tensor, worth: Tensor) -> Tensor:
    """Concave in the shares.  # shape: (batch,)."""
    return (worth * (1 + 20 * shares.clamp(min=0)).log()).sum(-1)


def best_gain(worth: Tensor, pieces: int = 100) -> Tensor:
    """The most that can be gained, by a linear program on the pieces of the concave gains.  # shape: (batch,)."""
    grid = torch.linspace(0, 0.2, pieces + 1, dtype=torch.float64)
    slopes = (1 + 20 * grid).log().diff() / grid.diff()  # they fall, so that the pieces fill up in order
    c = -(worth[:, :, None] * slopes).flatten(1)
    regions, everything = REGION.repeat_interleave(pieces, 1), worth.new_ones(1, PLACES * pieces)
    program = lp.LinearProgram(c, regions, b[:REGIONS], everything, worth.new_ones(1), upper=0.2 / pieces)
    return -lp.solve(program).value


def violation(shares: Tensor) -> float:
    """The largest violation of any constraint."""
    program = lp.LinearProgram(shares.new_zeros(PLACES), A, b, shares.new_ones(1, PLACES), shares.new_ones(1))
    return program.residuals(shares).largest().max().item()


def train(head: nn.Module, x: Tensor, worth: Tensor, *, seed: int, passes: int) -> nn.Module:
    """A small network that ends with softmax and the head, and the plainest loop."""
    torch.manual_seed(seed)
    layers = [nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, PLACES), nn.Softmax(-1)]
    model = nn.Sequential(*layers, head).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, passes)
    for _ in range(passes):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            (-gain(model(x[batch]), worth[batch]).mean()).backward()
            optimizer.step()
        schedule.step()
    return model


def main() -> None:
    """Train on 256 days, judge on 200 others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=40)
    arguments = parser.parse_args()
    projection = Projection(A, b)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(arguments.seeds):
        x, worth = days(256, seed=2 * seed + 1)
        new_x, new_worth = days(200, seed=2 * seed + 2)
        best = best_gain(new_worth)
        plain = train(nn.Identity(), x, worth, seed=seed, passes=arguments.passes)
        through = train(projection, x, worth, seed=seed, passes=arguments.passes)
        with torch.no_grad():
            outputs = {
                "softmax": plain(new_x),
                "softmax, projected afterwards": projection(plain(new_x)),
                "trained through the projection": through(new_x),
            }
        for name, shares in outputs.items():
            lost = 1 - gain(shares, new_worth).sum().item() / best.sum().item()
            found.setdefault(name, []).append((lost, violation(shares)))
    for name, figures in found.items():
        lost, broken = torch.tensor(figures, dtype=torch.float64).T
        print(f"{name:32s} lost {lost.mean():7.2%} of the best gain   largest violation {broken.max():.0e}")


if __name__ == "__main__":
    main()
