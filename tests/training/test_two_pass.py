from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from setwise import AUCLoss, InputError
from setwise.data import StratifiedBatchSampler
from setwise.functional import auc_loss
from setwise.measures.ratio import FBetaLoss
from setwise.training import Blend, TwoPass, TwoPassResult, _memory
from setwise.training._chunks import Chunks, Column

N = 203
X = torch.randn(N, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = (X[:, 0] + X[:, 1] > 1).double()
W = torch.rand(N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def network(*, dropout: float = 0.0, classes: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, classes)]
    return nn.Sequential(*layers, nn.Flatten(0)).double() if classes == 1 else nn.Sequential(*layers).double()


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([part.grad.flatten() for part in model.parameters() if part.grad is not None])


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def one_shot(model: nn.Module, loss: Callable[..., Tensor], *target: Any) -> Tensor:
    model.zero_grad()
    loss(model(X), *target).backward()
    return gradient(model).clone()


@pytest.mark.parametrize("chunk_size", [1, 7, 64, N, 10 * N])
def test_the_gradient_is_that_of_one_pass(chunk_size: int) -> None:
    model = network()
    expected = one_shot(model, AUCLoss(), Y)
    model.zero_grad()
    result = TwoPass(model, AUCLoss(), chunk_size=chunk_size).backward(X, Y)
    assert relative(gradient(model), expected) < 1e-12
    torch.testing.assert_close(result.scores, model(X).detach())
    torch.testing.assert_close(result.loss, AUCLoss()(model(X), Y).detach())
    assert torch.equal(result.targets, Y)
    assert not any(part.requires_grad for part in result)


@pytest.mark.parametrize("loss", [AUCLoss(0.5, "ramp"), FBetaLoss(), Blend(nn.BCEWithLogitsLoss(), AUCLoss(), 0.3)])
def test_weights_and_any_loss(loss: nn.Module) -> None:
    model = network()

    def weighted(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return loss(scores, target, weight)  # type: ignore[no-any-return]

    expected = one_shot(model, weighted, Y, W)
    plain = one_shot(model, loss, Y)
    model.zero_grad()
    TwoPass(model, loss, chunk_size=32).backward(X, Y, W)
    assert relative(gradient(model), expected) < 1e-10
    assert relative(plain, expected) > 1e-3


def test_several_classes_and_a_function_as_loss() -> None:
    model = network(classes=3)
    labels = (X[:, :3].argmax(1)).long()
    loss = FBetaLoss(average="macro")
    expected = one_shot(model, loss, labels)
    model.zero_grad()
    TwoPass(model, loss, chunk_size=50).backward(X, labels)
    assert relative(gradient(model), expected) < 1e-10
    model = network()
    expected = one_shot(model, auc_loss, Y)
    model.zero_grad()
    TwoPass(model, auc_loss, chunk_size=50).backward(X, Y)
    assert relative(gradient(model), expected) < 1e-10


def test_single_precision_is_within_a_millionth() -> None:
    model = network().float()
    x, y = X.float(), Y.float()
    AUCLoss()(model(x), y).backward()
    expected = gradient(model).clone()
    model.zero_grad()
    TwoPass(model, AUCLoss(), chunk_size=16).backward(x, y)
    assert relative(gradient(model), expected) < 1e-6


def test_dropout_is_replayed_and_random_numbers_go_on_as_after_one_pass() -> None:
    model, loss = network(dropout=0.5), AUCLoss()
    torch.manual_seed(5)
    loss(torch.cat([model(part) for part in X.split(20)]), Y).backward()
    expected, following = gradient(model).clone(), torch.rand(4)
    model.zero_grad()
    torch.manual_seed(5)
    TwoPass(model, loss, chunk_size=20).backward(X, Y)
    assert relative(gradient(model), expected) < 1e-12
    assert torch.equal(torch.rand(4), following)
    model.zero_grad()
    TwoPass(model, loss, chunk_size=20).backward(X, Y)
    assert relative(gradient(model), expected) > 1e-2  # other units the next time


def test_gradients_add_up() -> None:
    model = network()
    step = TwoPass(model, AUCLoss(), chunk_size=64)
    step.backward(X, Y)
    once = gradient(model).clone()
    step.backward(X, Y)
    torch.testing.assert_close(gradient(model), 2 * once)


def test_parameters_of_the_loss_learn_too() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros((), dtype=torch.float64))

        def forward(self, input: Tensor, target: Tensor) -> Tensor:
            return nn.functional.binary_cross_entropy_with_logits(input + self.shift, target)

    loss = Shifted()
    TwoPass(network(), loss, chunk_size=64).backward(X, Y)
    assert loss.shift.grad is not None
    assert loss.shift.grad != 0


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = network()

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Tensor]:
        return {"logits": self.body(torch.cat([left, right], 1))}


@pytest.mark.parametrize("kind", ["tuple", "list", "dict"])
def test_inputs_of_several_tensors_and_outputs_that_are_none(kind: str) -> None:
    model = TwoInputs()
    expected = one_shot(model.body, AUCLoss(), Y)
    model.zero_grad()
    left, right = X[:, :2], X[:, 2:]
    inputs: Any = {"tuple": (left, right), "list": [left, right], "dict": {"right": right, "left": left}}[kind]
    step = TwoPass(model, AUCLoss(), chunk_size=40, output=lambda found: found["logits"], device="cpu")
    step.backward(inputs, Y)
    assert relative(gradient(model), expected) < 1e-12
    with pytest.raises(TypeError, match=r"torch.Tensor, but got dict; `output`"):
        TwoPass(model, AUCLoss(), chunk_size=40).backward(inputs, Y)


def loaders() -> dict[str, Callable[[], Iterable[Any]]]:
    data, weighted = TensorDataset(X, Y), TensorDataset(X, Y, torch.ones_like(W))
    own = torch.Generator().manual_seed(3)
    return {
        "in order": lambda: DataLoader(data, batch_size=32),
        "weighted": lambda: DataLoader(weighted, batch_size=32),
        "large batches": lambda: DataLoader(data, batch_size=150),
        "shuffled": lambda: DataLoader(data, batch_size=32, shuffle=True),
        "own generator": lambda: DataLoader(data, batch_size=32, shuffle=True, generator=own),
        "workers": lambda: DataLoader(data, batch_size=32, shuffle=True, num_workers=1),
        "list": lambda: list(DataLoader(data, batch_size=32)),
    }


@pytest.mark.parametrize("name", loaders())
def test_batches_of_a_loader(name: str) -> None:
    model = network()
    expected = one_shot(model, AUCLoss(), Y)
    model.zero_grad()
    largest = 0

    def watch(_: nn.Module, inputs: tuple[Tensor]) -> None:
        nonlocal largest
        largest = max(largest, len(inputs[0]))

    model.register_forward_pre_hook(watch)
    result = TwoPass(model, AUCLoss(), chunk_size=40).backward_batches(loaders()[name]())
    assert relative(gradient(model), expected) < 1e-11
    assert len(result.scores) == N
    assert 32 <= largest <= 40


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + self.draw(), Y[index]


def test_augmentation_by_torch_is_replayed_and_by_others_refused() -> None:
    step = TwoPass(network(), AUCLoss(), chunk_size=64)
    result = step.backward_batches(DataLoader(Augmented(lambda: torch.randn(()).item()), batch_size=50))
    assert len(result.scores) == N
    with pytest.raises(InputError, match="same scores twice"):
        step.backward_batches(DataLoader(Augmented(lambda: random.gauss(0, 1)), batch_size=50))


class Changing:
    def __init__(self, *passes: list[slice]) -> None:
        self.passes = list(passes)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter([(X[rows], Y[rows]) for rows in self.passes.pop(0)])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ([slice(50, 100), slice(0, 50)], "the targets from sample 0 on were others"),
        ([slice(0, 50)], "there were 50 samples, not 100"),
        ([slice(0, 50), slice(50, 100), slice(100, 150)], "the targets from sample 100 on were others"),
        ([slice(0, 50), slice(51, 101)], "the targets from sample 50 on were others"),
    ],
)
def test_batches_that_differ_the_second_time_are_refused(second: list[slice], message: str) -> None:
    step = TwoPass(network(), AUCLoss(), chunk_size=64)
    with pytest.raises(InputError, match=f"same the second time as the first, but {message}.*clear the gradients"):
        step.backward_batches(Changing([slice(0, 50), slice(50, 100)], second))
    with pytest.raises(InputError, match="same the second time"):
        step.backward_batches(DataLoader(TensorDataset(X, Y), batch_sampler=StratifiedBatchSampler(Y, 32)))


def test_what_can_be_gone_through_only_once_is_refused() -> None:
    step = TwoPass(network(), AUCLoss(), chunk_size=64)
    with pytest.raises(TypeError, match=r"gone through twice.*generator"):
        step.backward_batches((X, Y) for _ in range(1))
    with pytest.raises(TypeError, match=r"gone through twice.*int"):
        step.backward_batches(3)  # type: ignore[arg-type]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.sum(1) * self.calls


def test_a_state_that_changes_with_each_pass_is_refused() -> None:
    with pytest.raises(InputError, match=r"same scores twice.*some differ"):
        TwoPass(Counting(), AUCLoss(), chunk_size=64).backward(X.clone().requires_grad_(), Y)


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d(6), nn.SyncBatchNorm(6), nn.BatchNorm1d(6, track_running_stats=False)]
)
def test_batch_statistics_are_refused(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Sequential(layer.double()), network())
    with pytest.raises(InputError, match=rf"`0\.0` \({type(layer).__name__}\)"):
        TwoPass(model, AUCLoss(), chunk_size=64).backward(X, Y)


def test_norms_that_look_at_one_sample_or_at_fixed_statistics_are_fine() -> None:
    for layer in (nn.BatchNorm1d(6).eval(), nn.LayerNorm(6), nn.GroupNorm(2, 6)):
        model = nn.Sequential(layer.double(), network())
        expected = one_shot(model, AUCLoss(), Y)
        model.zero_grad()
        TwoPass(model, AUCLoss(), chunk_size=64).backward(X, Y)
        assert relative(gradient(model), expected) < 1e-11


def test_autocast_gives_the_gradient_of_one_pass_in_it() -> None:
    model = network().float()
    x, y, loss = X.float(), Y.float(), AUCLoss()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(x)
        value = loss(scores, y)
    value.backward()
    expected = gradient(model).clone()
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = TwoPass(model, loss, chunk_size=40).backward(x, y)
    assert all(part.grad is not None for part in model.parameters())
    assert result.scores.dtype == torch.bfloat16
    torch.testing.assert_close(result.loss, value.detach())
    assert relative(gradient(model), expected) < 2e-2  # bfloat16 has 8 bits


def test_a_scaler_scales_the_gradient() -> None:
    model = network().float()
    step = TwoPass(model, AUCLoss(), chunk_size=64)
    plain_loss = step.backward(X.float(), Y.float()).loss
    plain = gradient(model).clone()
    model.zero_grad()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    step = TwoPass(model, AUCLoss(), chunk_size=64, scaler=scaler)
    assert torch.equal(step.backward(X.float(), Y.float()).loss, plain_loss)
    torch.testing.assert_close(gradient(model), 1024 * plain)


def test_it_works_where_gradients_are_off_and_where_nothing_is_defined() -> None:
    model = network()
    with torch.no_grad():
        TwoPass(model, AUCLoss(), chunk_size=64).backward(X, Y)
    assert gradient(model).norm() > 0
    model.zero_grad()
    result = TwoPass(model, AUCLoss(), chunk_size=64).backward(X, torch.zeros_like(Y))
    assert isinstance(result, TwoPassResult)
    assert result.loss == 0
    assert gradient(model).norm() == 0


def test_chunks_of_different_shapes_are_refused() -> None:
    step = TwoPass(network(), AUCLoss(), chunk_size=64)
    with pytest.raises(InputError, match=r"\(\) and \(1,\) per sample"):
        step.backward_batches([(X, Y), (X, Y[:, None])])


def test_the_graph_holds_one_chunk_at_a_time() -> None:
    """No more than one chunk's activations are saved for backward at once, and none in the first pass."""
    model = network()
    alive = peak = 0

    class Held:
        def __init__(self, value: Tensor) -> None:
            nonlocal alive, peak
            self.value, self.size = value, value.numel()
            alive += self.size
            peak = max(peak, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= self.size

    def most(chunk_size: int, rows: int) -> int:
        nonlocal peak
        peak = 0
        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.value):
            TwoPass(model, lambda s, y: (s * y).mean(), chunk_size=chunk_size).backward(X[:rows], Y[:rows])
        return peak

    one_chunk = most(10, 10)
    assert most(10, 200) <= one_chunk + 2 * 200  # the loss itself keeps scores and targets
    assert most(200, 200) > 5 * one_chunk


@pytest.mark.parametrize(
    ("inputs", "targets", "weight", "error", "message"),
    [
        (X, Y[:5], None, InputError, "`inputs` to have as many samples.*`targets`, 5"),
        (X, Y, W[:5], InputError, "`weight` to have as many samples"),
        ((X, X[:3]), Y, None, InputError, "`inputs`"),
        (X.numpy(), Y, None, TypeError, "`inputs` to be a torch.Tensor, but got ndarray"),
        (X, Y.numpy(), None, TypeError, "`targets`"),
        (X[:0], Y[:0], None, InputError, "at least one sample"),
        (X, Y[0], None, InputError, "`targets`.*single number"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    inputs: Any, targets: Any, weight: Tensor | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TwoPass(network(), AUCLoss(), chunk_size=64).backward(inputs, targets, weight)


def test_batches_that_do_not_fit_are_refused() -> None:
    step = TwoPass(network(), AUCLoss(), chunk_size=64)
    with pytest.raises(TypeError, match=r"\(inputs, targets\).*but got list of 1"):
        step.backward_batches([[X]])
    with pytest.raises(TypeError, match=r"\(inputs, targets\).*but got Tensor"):
        step.backward_batches(X)
    with pytest.raises(InputError, match="all `batches` or none to have weights"):
        step.backward_batches([(X, Y, W), (X, Y)])


@pytest.mark.parametrize(
    ("model", "loss", "chunk_size", "error", "message"),
    [
        (lambda x: x, AUCLoss(), 5, TypeError, "`model`.*function"),
        (nn.Linear(6, 1), AUCLoss, 5, TypeError, "`loss`"),
        (nn.Linear(6, 1), None, 5, TypeError, "`loss`.*None"),
        (nn.Linear(6, 1), AUCLoss(), 0, InputError, "`chunk_size`"),
    ],
)
def test_settings_that_are_refused(
    model: Any, loss: Any, chunk_size: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TwoPass(model, loss, chunk_size=chunk_size)


def test_scores_and_losses_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"one score .* per sample, 64 of them, but got shape \(\)"):
        TwoPass(network(), AUCLoss(), chunk_size=64, output=lambda found: found.sum()).backward(X, Y)
    each = nn.BCEWithLogitsLoss(reduction="none")
    with pytest.raises(InputError, match=r"`loss` to give one number, but got \(203,\)"):
        TwoPass(network(), each, chunk_size=64).backward(X, Y)


@pytest.mark.parametrize("expected", [0, 3, 10, 25])
def test_rows_fill_one_tensor_whether_their_number_is_known_or_not(expected: int) -> None:
    column = Column(expected)
    for part in torch.arange(20.0).reshape(10, 2).split(3):
        column.append(part)
    assert torch.equal(column.whole(), torch.arange(20.0).reshape(10, 2))
    if expected == 10:
        assert column._buffer is not None
        assert len(column._buffer) == 10


def test_the_length_of_a_list_is_known_and_that_of_a_loader_is_not() -> None:
    assert Chunks([(X, Y), (X[:3], Y[:3])], 8).expected == N + 3
    assert Chunks(DataLoader(TensorDataset(X, Y)), 8).expected == 0
    assert Chunks([X], 8).expected == 0  # refused when it is read


class Options:
    """Stands in for the allocator's settings."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, name: int, value: int) -> int:
        self.calls.append((name, value))
        return 1


def test_memory_is_given_back_where_it_is_asked_for_and_the_gradient_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options()
    monkeypatch.setattr(_memory, "_mallopt", lambda: options)
    for name in _memory._CHOSEN:
        monkeypatch.delenv(name, raising=False)
    model = network()
    TwoPass(model, AUCLoss(), chunk_size=64).backward(X, Y)
    assert options.calls == []  # no change to the process unless it is asked for
    expected = gradient(model).clone()
    model.zero_grad()
    TwoPass(model, AUCLoss(), chunk_size=64, give_back=True).backward(X, Y)
    assert torch.equal(gradient(model), expected)
    after = [(_memory._MMAP_THRESHOLD, 2**25), (_memory._TRIM_THRESHOLD, 2**26)]
    assert options.calls == [(_memory._MMAP_THRESHOLD, 2**20), *after]
    with pytest.raises(InputError):
        TwoPass(model, AUCLoss(), chunk_size=64, give_back=True).backward(X, Y[:5])
    assert options.calls[-2:] == after  # after an error too


def test_an_allocator_that_the_environment_sets_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options()
    monkeypatch.setattr(_memory, "_mallopt", lambda: options)
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    with _memory.given_back():
        pass
    assert options.calls == []


def test_other_systems_give_back_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _memory._mallopt() is None
    TwoPass(network(), AUCLoss(), chunk_size=64, give_back=True).backward(X, Y)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's account")
def test_memory_is_that_of_one_chunk(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "two_pass.py"
    file = tmp_path / "rows.json"
    subprocess.run([sys.executable, str(script), "--samples", "20000", "--json", str(file)], check=True)
    for row in json.loads(file.read_text())["rows"]:
        assert row["ratio"] <= 1.3
        assert row["given_ratio"] <= 1.3
        assert row["one_pass_mb"] > 4 * row["live_mb"]["two"]
        assert row["errors"]["float64"] < 1e-12
        assert row["errors"]["float32"] < 1e-6
