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
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from harness import Action, Case, extra_megabytes, interleave, largest_error, one_thread, status_megabytes
from records import Part, Row, Table, Verdict
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


def medians(losses: dict[str, tuple[Loss, int]], repetitions: int) -> dict[str, tuple[float, float]]:
    """CPU and wall milliseconds of a forward and backward pass of each loss on so many rows, by turns."""

    def case(loss: Loss, n: int) -> Case:
        seeds = count()  # the same on all ranks

        def prepare() -> Action:
            scores, labels = sample(n, next(seeds))
            scores.requires_grad_()
            dist.barrier()
            return partial(one_pass, loss, scores, labels)

        return prepare

    timings = interleave({name: case(*entry) for name, entry in losses.items()}, repetitions)
    return {name: (timing.ms, timing.wall_ms) for name, timing in timings.items()}


def one_pass(loss: Loss, scores: Tensor, labels: Tensor) -> None:
    """Forward and backward."""
    loss(scores, labels).backward()


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
        found |= medians(
            {
                f"auc_{n}": (AUCLoss(), part),
                f"f1_{n}": (FBetaLoss(), part),
                f"auc_local_{n}": (AUCLoss(process_group=False), n),
                f"f1_local_{n}": (FBetaLoss(process_group=False), n),
                f"exchange_{n}": (exchange, part),
            },
            repetitions,
        )
    return found


def memory(rank: int, world: int, *, local: bool) -> dict[str, float]:  # noqa: ARG001 (as all that ranks do)
    """One rank's megabytes of a pass, in a process that has done a small one only."""
    loss = AUCLoss(process_group=False) if local else AUCLoss()
    for rows in (256, SIZE if local else SIZE // world):
        scores, labels = sample(rows, 0)
        scores.requires_grad_()
        grown = extra_megabytes(partial(one_pass, loss, scores, labels))
    return {"mb": grown}


def duals(rank: int, world: int, examples: int, batch: int, repetitions: int) -> dict[str, Any]:
    """One rank's memory and milliseconds of a step of sharded multipliers."""
    ShardedMultipliers(world).optimizer(0.1)  # loads what optimizers need
    before = status_megabytes("VmRSS")
    multipliers = ShardedMultipliers(examples)
    ascent = multipliers.optimizer(0.1)
    grown = status_megabytes("VmRSS") - before
    generator = torch.Generator().manual_seed(rank)

    def prepare() -> Action:
        index = torch.randint(examples, (batch // world,), generator=generator)
        violation = torch.randn(batch // world, generator=generator)

        def action() -> None:
            multipliers.term(violation, index)
            multipliers.record(violation, index)
            ascent.step()
            ascent.zero_grad()

        return action

    timing = interleave({"step": prepare}, repetitions, warm_up=0)["step"]
    times = {"cpu_ms": timing.ms, "wall_ms": timing.wall_ms}
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


def largest_difference(rank: int, world: int) -> dict[str, float]:
    """Of value and gradient on all ranks from those of the whole set on one process, in float64."""
    scores, labels = sample(SIZE, 0)
    whole = scores.double().requires_grad_()
    rows = slice(rank * SIZE // world, (rank + 1) * SIZE // world)
    here = scores[rows].double().requires_grad_()
    value, truth = AUCLoss()(here, labels[rows]), AUCLoss(process_group=False)(whole, labels)
    truth.backward()
    value.backward()
    assert here.grad is not None  # noqa: S101 (for the type checker)
    assert whole.grad is not None  # noqa: S101
    # Each rank's gradient is W times its part, since data parallel training takes the mean over the ranks.
    return {"value": largest_error(value, truth), "gradient": largest_error(here.grad / world, whole.grad[rows])}


def part() -> Part:
    """The losses on 1, 2 and 4 ranks beside the same loss on one process."""
    rows = []
    for world in WORLDS:
        run = on_ranks(world, losses, 30)[0]
        off = on_ranks(world, largest_difference)[0]
        spent = [on_ranks(world, partial(memory, local=local))[0]["mb"] for local in (False, True)]
        case = f"{world} rank{'s' if world > 1 else ''}"
        for name, what in (("auc", "AUCLoss"), ("f1", "FBetaLoss")):
            error = (off["value"], off["gradient"]) if name == "auc" else (None, None)
            for clock, position in (("", 0), (", wall", 1)):
                ms, local = run[f"{name}_{SIZE}"][position], run[f"{name}_local_{SIZE}"][position]
                both = (None, None) if clock else error
                measured = name == "auc" and not clock
                mb, local_mb = spent if measured else (None, None)
                rows.append(Row(f"{what} over the ranks{clock}", case, None, ms, mb, *both))
                rows.append(Row(f"{what} of all rows on one process{clock}", case, None, local, local_mb))
        rows.append(Row("exchange alone", case, None, run[f"exchange_{SIZE}"][0]))
        print(f"  {case}", flush=True)
    rows.sort(key=lambda row: row.method)
    about = f"{SIZE:,} rows in all, rank 0, Gloo; wall times grow where there are fewer cores than ranks."
    table = Table("One set over several ranks", rows, unit="", memory_case="4 ranks", about=about)
    ratio = table.ms("AUCLoss over the ranks", "2 ranks") / table.ms("AUCLoss of all rows on one process", "2 ranks")
    return Part([table], [Verdict("AUCLoss on 2 ranks / on one process, CPU", ratio)])


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
    one_thread()
    if args.duals:
        found = table_of_duals(args.duals, args.batch, args.repetitions)
    else:
        found = table_of_losses(args.repetitions)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
