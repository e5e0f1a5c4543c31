"""What it costs to be exact over several ranks: AUC of one set on 1, 2 and 4 processes, and multipliers per example.

    python benchmarks/distributed.py                   # overhead of the loss, and the cost model beside it
    python benchmarks/distributed.py --duals 100000000  # memory and steps of sharded multipliers

The set has n rows in all, n / W on each rank; "local" is the same loss of all n rows on one process. Gloo on this
machine, one thread each, checks on, float32, forward and backward, medians. Times are CPU times of one rank (its own
work and copies, not the waiting) and wall times (which grow where there are fewer cores than ranks).

The cost model of a gathering loss on W ranks:

    bytes received a step   16 W + W B ceil(n / W),    B = 5 a row (score 4, label 1), 9 with weights
    seconds                 latency(W) + bytes / rate(W) + local(n)

latency and rate come from the exchange alone, on a small and a large set; local(n) is the loss on one process. The loss
of the set between is predicted from them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from setwise import AUCLoss, FBetaLoss
from setwise.distributed import active
from setwise.lagrangian import ShardedMultipliers

SIZE = 65_536
FITTED = (4_096, 262_144)
WORLDS = (1, 2, 4)
ROW = 5  # bytes: a float32 and a label
Loss = Callable[[Tensor, Tensor], Tensor]


def sample(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Scores and labels, a tenth of them positive."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator), torch.rand(n, generator=generator) < 0.1


def medians(losses: list[tuple[Loss, int]], repetitions: int) -> list[tuple[float, float]]:
    """CPU and wall milliseconds of a forward and backward pass of each loss on so many rows, by turns."""
    times: list[list[tuple[float, float]]] = [[] for _ in losses]
    for repetition in range(repetitions + 3):
        for (loss, n), found in zip(losses, times, strict=True):
            scores, labels = sample(n, repetition)
            scores.requires_grad_()
            dist.barrier()
            start = time.process_time(), time.perf_counter()
            loss(scores, labels).backward()
            found.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    # the first ones warm caches and connections
    return [tuple((1e3 * np.median(found[3:], axis=0)).tolist()) for found in times]


def resident_megabytes() -> float:
    """Present resident size, from Linux's account of this process; nan elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS:")) / 1024


def exchange(scores: Tensor, labels: Tensor) -> Tensor:
    """What a gathering loss sends, and a gradient of it."""
    ranks = active(None)
    whole: Tensor = scores if ranks is None else ranks.gather(lambda: (scores, labels, None), scores)[0]
    return whole.view(-1)[0]


def losses(rank: int, world: int, repetitions: int) -> dict[str, Any]:
    """One rank's times."""
    found: dict[str, Any] = {"world": world, "rank": rank}
    for n in (*FITTED, SIZE):
        part = n // world
        whole: list[tuple[Loss, int]] = [(AUCLoss(), part), (FBetaLoss(), part)]
        local: list[tuple[Loss, int]] = [(AUCLoss(group=False), n), (FBetaLoss(group=False), n)]
        names = (f"auc_{n}", f"f1_{n}", f"auc_local_{n}", f"f1_local_{n}", f"exchange_{n}")
        found |= zip(names, medians([*whole, *local, (exchange, part)], repetitions), strict=True)
    return found


def duals(rank: int, world: int, examples: int, batch: int, repetitions: int) -> dict[str, Any]:
    """One rank's memory and milliseconds of a step of sharded multipliers."""
    ShardedMultipliers(world).optimizer(0.1)  # loads what optimizers need
    before = resident_megabytes()
    multipliers = ShardedMultipliers(examples)
    ascent = multipliers.optimizer(0.1)
    grown = resident_megabytes() - before
    generator = torch.Generator().manual_seed(rank)
    cpu, wall = [], []
    for _ in range(repetitions):
        index = torch.randint(examples, (batch // world,), generator=generator)
        violation = torch.randn(batch // world, generator=generator)
        start = time.process_time(), time.perf_counter()
        multipliers.term(violation, index)
        multipliers.record(violation, index)
        ascent.step()
        ascent.zero_grad()
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    times = {"cpu_ms": float(np.median(cpu)) * 1e3, "wall_ms": float(np.median(wall)) * 1e3}
    return {"world": world, "rank": rank, "rows": len(multipliers.values), "mb": grown, **times}


def _one(rank: int, world: int, folder: str, work: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    found = work(rank, world, *arguments)
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def on_ranks(world: int, work: Callable[..., dict[str, Any]], *arguments: Any) -> list[dict[str, Any]]:
    """What each of so many processes finds."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(_one, (world, folder, work, arguments), nprocs=world, start_method="fork")
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(world)]


def table_of_losses(repetitions: int) -> dict[str, Any]:
    """Print the ratios, then the model beside what was measured."""
    runs = {world: on_ranks(world, losses, repetitions)[0] for world in WORLDS}
    print(f"n = {SIZE} rows in all; CPU and wall ms of rank 0, and their ratio to the local loss in the same process")
    titles = ("local cpu", "cpu", "ratio", "local wall", "wall", "ratio")
    print(f"{'loss':>5} {'ranks':>6} " + " ".join(f"{title:>10}" for title in titles))
    for name in ("auc", "f1"):
        for world, run in runs.items():
            (cpu, wall), (cpu0, wall0) = run[f"{name}_{SIZE}"], run[f"{name}_local_{SIZE}"]
            numbers = (cpu0, cpu, cpu / cpu0, wall0, wall, wall / wall0)
            print(f"{name:>5} {world:>6} " + " ".join(f"{number:>10.2f}" for number in numbers))
    print("\ncost model of AUC, CPU ms; predicted = latency + bytes / rate + local")
    print(f"{'ranks':>6} {'bytes a step':>13} {'latency ms':>11} {'MB/ms':>6} {'predicted':>10} {'measured':>9}")
    for world in WORLDS[1:]:
        run = runs[world]
        small, large, here = (16 * world + world * ROW * -(-n // world) for n in (*FITTED, SIZE))
        first, last = (run[f"exchange_{n}"][0] for n in FITTED)
        slope = max((last - first) / (large - small), 1e-12)
        latency = first - slope * small
        predicted = latency + slope * here + run[f"auc_local_{SIZE}"][0]
        shown = f"{latency:>11.2f} {1e-6 / slope:>6.2f} {predicted:>10.2f} {run[f'auc_{SIZE}'][0]:>9.2f}"
        print(f"{world:>6} {here:>13} {shown}")
    return {str(world): run for world, run in runs.items()}


def table_of_duals(examples: int, batch: int, repetitions: int) -> dict[str, Any]:
    """Print memory beside 4 bytes an example, and the time of a step."""
    print(f"{examples} examples, float32, {batch} rows a step in all; rank 0")
    print(f"{'ranks':>6} {'rows a rank':>12} {'4 bytes each, MB':>17} {'measured MB':>12} {'cpu ms':>8} {'wall ms':>8}")
    rows = {}
    for world in WORLDS:
        run = on_ranks(world, duals, examples, batch, repetitions)[0]
        rows[str(world)] = run
        expected = 4 * run["rows"] / 2**20
        times = f"{run['cpu_ms']:>8.2f} {run['wall_ms']:>8.2f}"
        print(f"{world:>6} {run['rows']:>12} {expected:>17.0f} {run['mb']:>12.0f} {times}")
    return rows


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duals", type=int, metavar="N", help="examples of the multipliers; without it, the losses")
    parser.add_argument("--batch", type=int, default=4096, help="rows a step of the multipliers")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.duals:
        found = table_of_duals(args.duals, args.batch, args.repetitions)
    else:
        found = table_of_losses(args.repetitions)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
