"""The measure of 100,000 samples through a network: memory and time of `TwoPass` beside one chunk and plain batches.

Every cell is a fresh process on one thread. Memory is the growth of the peak resident size over what data and network
take: for one chunk, forward and backward; for the whole set in two passes, chunk by chunk; for an epoch of plain
batches of that size; and for the whole set in one pass, where it fits. It is taken with an allocator that gives large
pieces back at once, which shows what is in use, and once more with the default one, which keeps some of what is freed,
in a plain epoch as well; there with `give_back=True` and without, which is the default. The ratio that the level is
for is that of two passes, in use and with `give_back=True`, to what one chunk has in use. Seconds are CPU seconds with
the default allocator.

The gradient is compared with that of one pass over 4,096 samples, relative, in float64. In float32 the scores are off
by rounding, and with them the pairs that count, in one pass as in two; and the sums of one pass over all samples are
less exact than those of many chunks. So there both are compared with the exact gradient at the scores they have found:
the loss's slopes at these, through the network in float64. How far one pass in float32 is from one in float64 is shown
beside. The levels are the ones the project holds itself to.

    python benchmarks/two_pass.py [--samples 100000] [--json FILE]
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harness import apart, extra_megabytes, one_thread
from records import Part, Row, Table, Verdict
from setwise import AUCLoss
from setwise.training import TwoPass

SAMPLES = 100_000
IN_ALL_PARTS = 20_000  # samples where all benchmarks are run in one go
CASE = f"{IN_ALL_PARTS:,} samples"
LEVEL = 1.3  # times one chunk
GRADIENT_LEVEL = 1e-6
SETUPS = {"conv": 256, "mlp": 4096}  # network and chunk size
ONE_PASS_UP_TO = 20_000  # samples; above it one pass through the convolutions takes gigabytes
CHECKED = 4096
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "1048576"}  # glibc: pieces of a megabyte on leave the process when freed


def network(name: str) -> nn.Module:
    """A network without batch statistics, with dropout."""
    torch.manual_seed(0)
    if name == "mlp":
        hidden = [nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)]
        return nn.Sequential(*hidden, nn.Flatten(0))
    return nn.Sequential(
        nn.Unflatten(1, (1, 16, 16)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 64, 1),
        nn.Flatten(0),
    )


def sample(name: str, n: int) -> tuple[Tensor, Tensor]:
    """Inputs and labels, one in twenty positive and shifted a little."""
    generator = torch.Generator().manual_seed(1)
    y = (torch.arange(n) % 20 == 0).float()
    x = torch.randn(n, 64 if name == "mlp" else 256, generator=generator)
    x[:, :16] += 0.5 * y.unsqueeze(1)
    return x, y


def run(kind: str, model: nn.Module, data: tuple[Tensor, Tensor], chunk: int) -> None:
    """What one cell measures."""
    (x, y), loss = data, AUCLoss()
    if kind in ("two", "given"):
        TwoPass(model, loss, chunk_size=chunk, give_back=kind == "given").backward(x, y)
    elif kind == "epoch":
        for part, labels in zip(x.split(chunk), y.split(chunk), strict=True):
            loss(model(part), labels).backward()
    else:
        rows = chunk if kind == "chunk" else len(x)
        loss(model(x[:rows]), y[:rows]).backward()


def cell(kind: str, name: str, n: int) -> dict[str, float]:
    """Extra megabytes and CPU seconds of one run."""
    model, data, chunk = network(name), sample(name, n), SETUPS[name]
    run(kind, model, (data[0][:40], data[1][:40]), 20)  # loads what is loaded on first use
    model.zero_grad()
    start = time.process_time()
    grown = extra_megabytes(lambda: run(kind, model, data, chunk))
    return {"seconds": time.process_time() - start, "mb": grown}


def flat(model: nn.Module) -> Tensor:
    """All gradients in one vector."""
    return torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None]).double()


def gradients(name: str, dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    """By two passes and by one, each beside the exact one at its scores; dropout off as its draws depend on shapes."""
    x, y = sample(name, CHECKED)
    x, y, model = x.to(dtype), y.to(dtype), network(name).to(dtype).eval()
    exact = copy.deepcopy(model).double()
    found = {}
    for kind, rows in (("two", 100), ("one", CHECKED)):
        model.zero_grad()
        exact.zero_grad()
        run(kind, model, (x, y), rows)
        with torch.no_grad():
            scores = torch.cat([model(part) for part in x.split(rows)])
        AUCLoss()(scores.requires_grad_(), y).backward()
        assert scores.grad is not None  # noqa: S101 (for the type checker)
        exact(x.double()).backward(scores.grad.double())
        found[kind] = flat(model), flat(exact)
    return found


def errors(name: str) -> dict[str, float]:
    """Relative distances of the gradients."""
    single, double = gradients(name, torch.float32), gradients(name, torch.float64)
    one = double["one"][0]
    pairs = {
        "float64": (double["two"][0], one),
        "float32": single["two"],
        "float32_one_pass": single["one"],
        "float32_apart": (single["two"][0], single["one"][0]),
        "rounding": (single["one"][0], one),
    }
    return {key: float((first - second).norm() / one.norm()) for key, (first, second) in pairs.items()}


def line(name: str, n: int) -> dict[str, Any]:
    """One line of the table."""
    kinds = ("chunk", "two", "epoch")
    live = {kind: apart(cell, GIVE_BACK)(kind, name, n)["mb"] for kind in kinds}
    default = {kind: apart(cell)(kind, name, n) for kind in (*kinds, "given")}
    return {
        "network": name,
        "n": n,
        "chunk_size": SETUPS[name],
        "live_mb": live,
        "ratio": live["two"] / live["chunk"],
        "given_ratio": default["given"]["mb"] / live["chunk"],
        "default_mb": {kind: found["mb"] for kind, found in default.items()},
        "one_pass_n": min(n, ONE_PASS_UP_TO),
        "one_pass_mb": apart(cell, GIVE_BACK)("one", name, min(n, ONE_PASS_UP_TO))["mb"],
        "seconds": {kind: found["seconds"] for kind, found in default.items()},
        "errors": errors(name),
    }


def show(row: dict[str, Any]) -> str:
    """One line of the table in words."""
    live, default, seconds, off = row["live_mb"], row["default_mb"], row["seconds"], row["errors"]
    memory = "PASS" if max(row["ratio"], row["given_ratio"]) <= LEVEL else "FAIL"
    gradient = "PASS" if max(off["float64"], off["float32"]) <= GRADIENT_LEVEL else "FAIL"
    return (
        f"{row['network']}, {row['n']:,} samples in chunks of {row['chunk_size']}\n"
        f"  in use      {live['two']:.1f} MB, one chunk {live['chunk']:.1f} MB, plain epoch {live['epoch']:.1f} MB, "
        f"one pass over {row['one_pass_n']:,} {row['one_pass_mb']:.0f} MB\n"
        f"  default     {default['two']:.1f} MB, with give_back {default['given']:.1f} MB, one chunk "
        f"{default['chunk']:.1f} MB, plain epoch {default['epoch']:.1f} MB\n"
        f"  {memory}        {row['ratio']:.2f} times one chunk in use, {row['given_ratio']:.2f} with give_back, "
        f"level {LEVEL}\n"
        f"  CPU time    {seconds['two']:.1f} s, with give_back {seconds['given']:.1f} s, plain epoch "
        f"{seconds['epoch']:.1f} s\n"
        f"  gradient    off by {off['float64']:.0e} in float64; in float32 by {off['float32']:.1e}, one pass by "
        f"{off['float32_one_pass']:.1e},\n"
        f"              which are {off['float32_apart']:.1e} apart; one pass in float32 from one in float64 "
        f"{off['rounding']:.0e}\n"
        f"  {gradient}        level {GRADIENT_LEVEL:.0e}"
    )


def part() -> Part:
    """The same on fewer samples as a table: times with the default allocator, memory in use."""
    rows, verdicts = [], []
    for name, chunk in SETUPS.items():
        found = line(name, IN_ALL_PARTS)
        live, default, seconds, off = found["live_mb"], found["default_mb"], found["seconds"], found["errors"]
        memory = {"two": live["two"], "given": default["given"], "epoch": live["epoch"]}
        for kind, what in (("two", "two passes"), ("given", "two passes, give_back"), ("epoch", "plain epoch")):
            error = off["float32"] if kind == "two" else None
            method = f"{name}, {what}"
            rows.append(Row(method, CASE, None, 1e3 * seconds[kind], memory[kind], gradient_error=error))
        rows.append(Row(f"{name}, one chunk of {chunk}", CASE, mb=live["chunk"]))
        most = max(found["ratio"], found["given_ratio"])
        verdicts.append(Verdict(f"{name}: memory of two passes / one chunk", most, LEVEL))
        verdicts.append(Verdict(f"{name}: gradient off by", max(off["float64"], off["float32"]), GRADIENT_LEVEL))
    return Part([Table("A network on a large set in two passes", rows, unit="", memory_case=CASE)], verdicts)


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    rows = []
    for name in SETUPS:
        row = line(name, args.samples)
        rows.append(row)
        print(show(row), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"threads": 1, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
