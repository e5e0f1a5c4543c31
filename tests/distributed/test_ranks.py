"""What holds of every group of ranks: when they agree, when they refuse, what becomes of the aids of training."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import setwise
from setwise import InputError, functional
from setwise.distributed import Ranks, active, gather
from setwise.measures import find_operating_point
from setwise.training import Blend, ScoreQueue, TwoPass
from support import ranks
from support.draws import draw
from support.ranks import close, everywhere, own_rows
from support.table import CASES

FIRST = list({case.loss: case for case in reversed(CASES)}.values())


def test_one_process_needs_no_group() -> None:
    assert active(None) is None
    assert active(False) is None
    assert active(Ranks()) is None
    rows = torch.randn(3, requires_grad=True)
    assert gather(rows) is rows


@pytest.mark.parametrize("options", [{"gradients": "mean"}, {"process_group": "gloo"}])
def test_wrong_ranks_are_refused(options: dict[str, str]) -> None:
    with pytest.raises((InputError, TypeError), match=f"`{next(iter(options))}`"):
        Ranks(**options)  # type: ignore[arg-type]


def test_rows_are_refused() -> None:
    with pytest.raises(TypeError, match="`rows`"):
        gather([1.0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`rows`"):
        gather(torch.tensor(1.0))


def all_refuse_what_one_refuses() -> None:
    rank = dist.get_rank()
    good, labels = torch.tensor([0.5, -0.5, 1.0]), torch.tensor([1, 0, 0])
    wrong: list[tuple[Tensor, Tensor, Tensor | None]] = [
        (torch.tensor([0.5, torch.nan, 1.0]), labels, None),
        (good, torch.tensor([1, 0, 7]), None),
        (good, labels[:2], None),
        (good, labels, -torch.ones(3)),
        (good, labels, torch.ones(3)),  # the other rank has none
        (good.double(), labels, None),
    ]
    for number, (scores, targets, weight) in enumerate(wrong):
        for loss in (functional.auc_loss, functional.fbeta_loss, functional.average_precision_loss):
            if number >= 4 and loss is functional.fbeta_loss:
                continue  # counts fit together
            mine = (good, labels, None) if rank else (scores, targets, weight)
            with pytest.raises(InputError, match=r"rank|`input`|`target`|`weight`"):
                loss(mine[0], mine[1], weight=mine[2])
    close(functional.auc_loss(good, labels), functional.auc_loss(good, labels, process_group=False))  # and go on


def functions_know_no_ranks() -> None:
    scores, labels = torch.randn(4), torch.tensor([0, 1, 0, 1])
    with pytest.raises(InputError, match=r"`process_group`.*torch\.func"):
        torch.func.grad(functional.auc_loss)(scores, labels)
    torch.func.grad(lambda s: functional.auc_loss(s, labels, process_group=False))(scores)
    leaf = scores.requires_grad_()
    for loss in (
        functional.auc_loss(leaf, labels, surrogate="squared_hinge"),
        functional.average_precision_loss(leaf, labels),
        functional.fbeta_loss(leaf, labels),
    ):
        (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()


def rows_of_any_type_and_shape() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.int16):
        for shape in ((), (3,), (2, 2)):
            part = (torch.arange(rank * 4).reshape(rank, 4)[:, : 1 + len(shape)].sum(1) + rank).to(dtype)
            part = part.reshape(rank, *[1] * len(shape)).expand(rank, *shape)
            expected = torch.cat([other.to(dtype) for other in everywhere(part.clone())])
            assert torch.equal(gather(part), expected)
            assert len(expected) == world * (world - 1) // 2
            assert gather(part[:0]).shape == (0, *shape)  # nobody has any


def what_each_rank_makes_of_all_rows_adds_up() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = torch.arange(1.0, 2.0 + rank).requires_grad_()
    whole = gather(rows)
    (whole**2).sum().mul(rank + 1).backward()  # another use on every rank
    assert rows.grad is not None
    close(rows.grad, 2 * rows.detach() * sum(range(1, world + 1)))
    summed = rows.detach().clone().requires_grad_()
    (gather(summed, process_group=Ranks(gradients="sum")) ** 2).sum().backward()
    assert summed.grad is not None
    close(summed.grad, 2 * summed.detach())


def part_of_the_ranks() -> None:
    group = dist.new_group([0])
    scores, labels = torch.tensor([0.5, 0.0]), torch.tensor([1, 0])
    if dist.get_rank() == 0:
        close(functional.auc_loss(scores, labels, process_group=group), torch.tensor(0.5))
    else:
        with pytest.raises(InputError, match=r"`process_group`.*member"):
            functional.auc_loss(scores, labels, process_group=group)


def points_of_all_ranks() -> None:
    scores, labels, _ = draw(3, size=30)
    rows = own_rows("uneven", 30)
    loss = setwise.PrecisionAtRecallLoss(recall=0.8)
    alone = setwise.PrecisionAtRecallLoss(recall=0.8, process_group=False)
    loss(scores[rows].requires_grad_(), labels[rows])
    alone(scores, labels)
    assert loss.point == alone.point
    assert find_operating_point(alone, scores, labels) == alone.point


def test_ranks_agree_or_refuse_together(tmp_path: Path) -> None:
    checks = [
        all_refuse_what_one_refuses,
        functions_know_no_ranks,
        rows_of_any_type_and_shape,
        what_each_rank_makes_of_all_rows_adds_up,
        part_of_the_ranks,
        points_of_all_ranks,
        a_queue_on_every_rank,
        a_blend,
        two_passes,
        few_steps,
    ]
    ranks.run(2, checks, tmp_path)


def a_queue_on_every_rank() -> None:
    """The set is all batches and all queues."""
    rank, world = dist.get_rank(), dist.get_world_size()
    queue = ScoreQueue(setwise.AUCLoss(), size=6)
    batches = [[draw(10 * step + r, size=4 + r, dtype=torch.float32) for r in range(world)] for step in range(3)]
    for step, parts in enumerate(batches):
        mine = parts[rank].scores.clone().requires_grad_()
        value = queue(mine, parts[rank].labels)
        value.backward()
        leaf = parts[rank].scores.clone().requires_grad_()
        scores, labels = [], []
        for r in range(world):
            held = [batches[past][r] for past in range(step)]
            scores += [
                leaf if r == rank else parts[r].scores,
                torch.cat([torch.empty(0), *(h.scores for h in held)])[-6:],
            ]
            labels += [parts[r].labels, torch.cat([torch.empty(0), *(h.labels for h in held)])[-6:]]
        expected = functional.auc_loss(torch.cat(scores), torch.cat(labels), process_group=False)
        expected.backward()
        close(value, expected)
        assert mine.grad is not None
        assert leaf.grad is not None
        close(mine.grad / world, leaf.grad)


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0))


def a_blend() -> None:
    """Cross-entropy is averaged by DDP, so with parts of one size the sum is that of one process."""
    x, y = torch.randn(16, 3, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 4 == 0
    rows = own_rows("even", 16)
    alone, model = network(), DistributedDataParallel(network())
    cross_entropy = nn.BCEWithLogitsLoss()
    Blend(cross_entropy, setwise.FBetaLoss(process_group=False), 0.7)(alone(x), y.float()).backward()
    Blend(cross_entropy, setwise.FBetaLoss(), 0.7)(model(x[rows]), y[rows].float()).backward()
    same_gradients(model, alone)


def two_passes() -> None:
    """Each rank goes through its own chunks; the loss in between is that of all of them."""
    x, y = torch.randn(24, 3, generator=torch.Generator().manual_seed(1)), torch.arange(24) % 5 == 0
    rows = own_rows("even", 24)
    alone, model = network(), DistributedDataParallel(network())
    functional.auc_loss(alone(x), y, process_group=False).backward()
    result = TwoPass(model, setwise.AUCLoss(), chunk_size=5).backward(x[rows], y[rows])
    assert len(result.scores) == 12
    same_gradients(model, alone)


def fully_sharded() -> None:
    """FSDP averages as DDP does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    x, y = torch.randn(20, 3, generator=torch.Generator().manual_seed(1)), torch.arange(20) % 4 == 0
    rows = own_rows("uneven", 20)
    for loss in (functional.auc_loss, functional.fbeta_loss):
        alone, model = network(), network()
        fully_shard(model, mesh=mesh)
        loss(alone(x), y, process_group=False).backward()
        loss(model(x[rows]), y[rows]).backward()
        for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
            assert expected.grad is not None
            close(found.grad.full_tensor(), expected.grad)  # type: ignore[union-attr]


@pytest.mark.slow
def test_gradients_under_fsdp(tmp_path: Path) -> None:
    ranks.run(2, [fully_sharded], tmp_path)


def same_gradients(model: nn.Module, alone: nn.Module) -> None:
    for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
        assert found.grad is not None
        assert expected.grad is not None
        close(found.grad, expected.grad)


def steps(count: int) -> None:
    """Trainings with batches of all sizes, in step to the last bit."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    model = DistributedDataParallel(network())
    modules = [case.loss(**case.settings) for case in FIRST if case.layout == "binary"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(count):
        size = int(torch.randint(0, 9, (), generator=generator))
        x, y = torch.randn(size, 3, generator=generator), torch.randint(2, (size,), generator=generator)
        optimizer.zero_grad()
        value = modules[step % len(modules)](model(x), y)
        value.backward()
        optimizer.step()
    assert len(set(everywhere(float(value)))) == 1
    weights = everywhere([part.detach() for part in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[-1], strict=True))


def few_steps() -> None:
    steps(30)


def thousand_steps() -> None:
    steps(1000)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_a_thousand_steps_without_a_hang(world: int, tmp_path: Path) -> None:
    ranks.run(world, [thousand_steps], tmp_path)


def compiled(losses: list[str], backend: str) -> None:
    for case in FIRST:
        if losses and case.loss.__name__ not in losses:
            continue
        torch.compiler.reset()
        module = case.loss(**case.settings)
        traced = torch.compile(module, fullgraph=True, backend=backend)
        calls = (("uneven", False), ("a rank without rows", False), ("uneven", True))
        for split, weighted in calls[: 1 if losses else None]:
            whole = case.draw(1, size=26, ties=True, weighted=weighted, dtype=torch.float32)
            ranks.compare(case, split, whole, traced, 1e-5)
        assert module.undefined_batches.item() == 0


def one_of_each_kind_compiled() -> None:
    compiled(["AUCLoss", "FBetaLoss"], "aot_eager")


def every_loss_compiled() -> None:
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # the threads that compile for this process's parent were not forked with it
    compiled([], "inductor")


def test_compiles_to_one_graph_with_its_gradient(tmp_path: Path) -> None:
    ranks.run(2, [one_of_each_kind_compiled], tmp_path)


@pytest.mark.slow
def test_every_loss_compiles_to_one_graph_with_its_gradient(tmp_path: Path) -> None:
    ranks.run(2, [every_loss_compiled], tmp_path, timeout=1200, limit=2400)


def sleep_on() -> None:
    time.sleep(600)


def test_ranks_that_hang_are_ended(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="within 2 s"):
        ranks.run(2, [sleep_on], tmp_path, limit=2.0)


def left_alone(rank: int, folder: str, how: str, timeout: float) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store, wait = f"file://{folder}/store", dt.timedelta(seconds=timeout)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=wait)
    scores, labels = torch.randn(4, requires_grad=True), torch.tensor([0, 1, 0, 1])
    functional.auc_loss(scores, labels).backward()
    if rank == 1:
        if how == "sleeps":
            time.sleep(6 * timeout)
        os._exit(0)
    start = time.monotonic()
    try:
        functional.auc_loss(scores, labels).backward()
    except RuntimeError as error:
        Path(folder, "seen").write_text(f"{time.monotonic() - start:.3f} {error}")
    os._exit(0)


@pytest.mark.parametrize(("how", "timeout"), [("dies", 60.0), ("sleeps", 2.0)])
def test_the_others_get_an_error_within_the_timeout(how: str, timeout: float, tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("fork")
    both = [context.Process(target=left_alone, args=(rank, str(tmp_path), how, timeout)) for rank in range(2)]
    for process in both:
        process.start()
    both[0].join(180)
    both[1].kill()
    both[1].join()
    seconds, _, message = (tmp_path / "seen").read_text().partition(" ")
    assert message
    assert float(seconds) < (30 if how == "dies" else 20)  # a busy machine is slow to say so
