"""Multi-class AUC beyond what every row of the table goes through: absent classes, several labels, any partition."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.measures.auc import auc_loss
from setwise.measures.multiclass_auc import (
    MulticlassAUCLoss,
    multiclass_auc_loss,
    multiclass_auc_program,
)
from support.auc_oracles import auc_mu_definition, auc_mu_pairs, one_versus_all
from support.exact_values import multiclass_auc_exact
from support.highs import highs_solve

PARTITION = torch.tensor(
    [[0.0, 1.0, 3.0, 0.5], [2.0, 0.0, 1.0, 1.0], [0.5, 4.0, 0.0, 2.0], [1.0, 0.0, 1.0, 0.0]], dtype=torch.float64
)
KINDS: list[dict[str, Any]] = [
    {"kind": "ova"},
    {"kind": "ova", "average": "weighted"},
    {"kind": "ova", "average": "sum"},
    {"kind": "mu"},
    {"kind": "mu", "average": "sum"},
    {"kind": "mu", "partition": PARTITION},
]
SURROGATES = ["hinge", "squared_hinge", "ramp"]


class Classes(NamedTuple):
    """One set."""

    logits: Tensor  # shape: (n, C)
    labels: Tensor  # shape: (n,)
    weight: Tensor | None  # shape: (n,)


def draw_classes(
    seed: int, *, classes: int = 4, size: int | None = None, ties: bool = False, weighted: bool = False
) -> Classes:
    generator = torch.Generator().manual_seed(seed)
    n = size or int(torch.randint(1, 40, (), generator=generator))
    logits = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    if ties:
        logits = (2 * logits).round() / 2
    labels = torch.randint(0, classes, (n,), generator=generator)
    weight = None
    if weighted:
        weight = torch.rand(n, generator=generator, dtype=torch.float64)
        weight[torch.rand(n, generator=generator) < 0.15] = 0.0
    return Classes(logits, labels, weight)


def oracle(logits: Tensor, labels: Tensor, weight: Tensor | None, *, kind: str, scores: str, **options: Any) -> Tensor:
    values = logits.softmax(-1) if scores == "softmax" else logits
    return (auc_mu_pairs if kind == "mu" else one_versus_all)(values, labels, weight, **options)


@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(str(v)[:8] for v in options.values()))
@pytest.mark.parametrize("scores", ["softmax", "raw"])
def test_brute_force_with_absent_classes(options: dict[str, Any], scores: str) -> None:
    for seed in range(0 if scores == "raw" else 1, 60, 2):
        ties = scores == "raw" and "partition" not in options and seed % 4 == 0  # where they are exact
        logits, labels, weight = draw_classes(seed, ties=ties, weighted=seed // 6 % 3 != 0)
        margin = 0.5 if seed % 5 else 1.0
        settings = {**options, "scores": scores, "margin": margin, "surrogate": SURROGATES[seed % 3]}
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        value = multiclass_auc_loss(ours, labels, weight=weight, **settings)
        expected = oracle(theirs, labels, weight, **settings)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("average", ["macro", "weighted", "sum"])
def test_multi_label_targets(average: str) -> None:
    for seed in range(20):
        logits, _, weight = draw_classes(seed, ties=seed % 2 == 0, weighted=seed // 6 % 3 != 0)
        labels = torch.randint(0, 2, logits.shape, generator=torch.Generator().manual_seed(seed))
        settings: dict[str, Any] = {"average": average, "surrogate": SURROGATES[seed % 3]}
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        value = multiclass_auc_loss(ours, labels, weight=weight, scores="raw", **settings)
        expected = one_versus_all(theirs, labels, weight, **settings)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)
        for dtype in (torch.bool, torch.float32):
            again = multiclass_auc_loss(logits, labels.to(dtype), weight=weight, scores="raw", **settings)
            assert torch.equal(again, value)


def random_partition(seed: int, classes: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if seed % 2:  # costs
        return torch.rand(classes, classes, generator=generator, dtype=torch.float64).fill_diagonal_(0.0)
    return torch.randn(classes, classes, generator=generator, dtype=torch.float64)  # anything at all


def test_auc_mu_is_its_definition_for_any_partition_with_ties_counting_half() -> None:
    hard: dict[str, Any] = {"kind": "mu", "scores": "raw", "surrogate": "ramp", "margin": 1e-6}
    for seed in range(40):
        logits, labels, _ = draw_classes(seed, size=25, ties=True)
        partition = (random_partition(seed) * 8).round() / 8  # so that ties are exact
        try:
            error, reverse = (multiclass_auc_loss(f, labels, partition=partition, **hard) for f in (logits, -logits))
        except InputError:  # rounding made two classes alike
            continue
        # A tie counts as an error in the loss, and as one in that of the reversed scores.
        value = (1 + reverse - error) / 2
        assert value.item() == pytest.approx(auc_mu_definition(logits, labels, partition).item(), abs=1e-6)


def test_two_classes_are_the_binary_loss() -> None:
    for seed in range(10):
        logits, labels, weight = draw_classes(seed, classes=2, size=30, weighted=True)
        p = logits.softmax(-1)[:, 1]
        binary = auc_loss(p, labels, weight=weight, margin=0.3)
        # p_1 - p_0 halved is p_1 - 1/2
        for kind in ("ova", "mu"):
            value = multiclass_auc_loss(logits, labels, weight=weight, margin=0.3, kind=kind)
            torch.testing.assert_close(value, binary, rtol=1e-12, atol=1e-12)


def test_program_of_multi_label_targets() -> None:
    logits, _, weight = draw_classes(1, size=14, weighted=True)
    labels = torch.randint(0, 2, logits.shape, generator=torch.Generator().manual_seed(0))
    program = multiclass_auc_program(logits, labels, scores="raw", average="weighted", weight=weight)
    exact = multiclass_auc_exact(logits, labels, scores="raw", average="weighted", weight=weight)
    assert exact.item() == pytest.approx(highs_solve(program).value, rel=1e-8)


@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_multi_label_and_partition_compile_too(kind: str) -> None:
    logits, labels, _ = draw_classes(2, size=20)
    options: dict[str, Any] = {"partition": PARTITION} if kind == "mu" else {}
    target = labels if kind == "mu" else torch.nn.functional.one_hot(labels, 4)
    module = MulticlassAUCLoss(kind, scores="raw", **options)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, target), module(logits, target))


def test_absent_classes_are_left_out() -> None:
    logits, labels, _ = draw_classes(5, classes=3, size=30)
    wider = torch.cat([logits[:, :1], torch.zeros(30, 1, dtype=torch.float64), logits[:, 1:]], 1)
    moved = torch.where(labels > 0, labels + 1, labels)  # class 1 has no sample
    for kind in ("ova", "mu"):
        torch.testing.assert_close(
            multiclass_auc_loss(wider, moved, kind=kind, scores="raw"),
            multiclass_auc_loss(logits, labels, kind=kind, scores="raw"),
        )


@pytest.mark.parametrize("options", [KINDS[0], KINDS[3], KINDS[5]], ids=["ova", "mu", "partition"])
@pytest.mark.parametrize("scores", ["softmax", "raw"])
def test_free_scores_reach_the_optimum(options: dict[str, Any], scores: str) -> None:
    for seed in range(1):
        logits, labels, _ = draw_classes(seed, size=16)
        free = logits.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.3)
        for _ in range(80):
            steps.zero_grad()
            multiclass_auc_loss(free, labels, scores=scores, **options).backward()
            steps.step()
        hard = multiclass_auc_loss(
            free.detach(), labels, scores=scores, surrogate="ramp", margin=1e-6, **options
        ).item()
        assert hard < 1e-6


LOGITS, LABELS = torch.tensor([[0.1, 1.0, 0.0], [2.0, 0.5, 0.2], [0.0, 0.1, 0.3]]), torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"input": LOGITS[0]}, InputError, r"`input`.*\(n, C\).*\(3,\)"),
        ({"input": LOGITS[None]}, InputError, r"`input`.*\(n, C\)"),
        ({"input": LOGITS.long()}, TypeError, "`input`.*int64"),
        ({"input": LOGITS.tolist()}, TypeError, "`input`.*list"),
        ({"target": LABELS[:2]}, InputError, r"`target`.*\(3, 3\) and \(2,\)"),
        ({"target": LABELS.float()}, TypeError, "`target`.*float32"),
        ({"target": LABELS.bool()}, TypeError, "`target`.*bool"),
        ({"target": LABELS.tolist()}, TypeError, "`target`.*list"),
        ({"target": LABELS + 1}, InputError, "`target`.*0 to 2.*3"),
        ({"target": LABELS - 1}, InputError, "`target`.*0 to 2.*-1"),
        ({"input": LOGITS[:, :1]}, InputError, "`input`.*2 columns"),
        ({"input": LOGITS / 0.0}, InputError, "`input`.*finite"),
        ({"input": LOGITS - torch.tensor([0, 0, float("inf")])}, InputError, "`input`.*finite.*-inf"),
        ({"weight": torch.ones(2)}, InputError, "`weight`"),
        ({"weight": -torch.ones(3)}, InputError, "`weight`.*non-negative"),
    ],
)
@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_bad_tensors_are_refused_by_name(
    kind: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    call = {"input": LOGITS, "target": LABELS, "weight": None, **arguments}
    for loss in (MulticlassAUCLoss(kind), lambda **kw: multiclass_auc_loss(**kw, kind=kind)):
        with pytest.raises(error, match=message):
            loss(**call)


def test_targets_that_do_not_fit_the_kind() -> None:
    many = torch.nn.functional.one_hot(LABELS, 3)
    with pytest.raises(InputError, match=r"`target`.*class indices.*'mu'"):
        MulticlassAUCLoss("mu", scores="raw")(LOGITS, many)
    with pytest.raises(InputError, match=r"`scores`.*'raw'"):
        MulticlassAUCLoss("ova")(LOGITS, many)
    with pytest.raises(InputError, match=r"`target`.*2"):
        MulticlassAUCLoss("ova", scores="raw")(LOGITS, 2 * many)
    with pytest.raises(InputError, match=r"`partition`.*3 columns"):
        MulticlassAUCLoss("mu", partition=PARTITION)(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"`input`.*\(n, C\)"):
        multiclass_auc_program(LOGITS[None], LABELS[None])


def test_what_fits_is_accepted() -> None:
    for kind in ("ova", "mu"):
        for weight in (None, torch.ones(3), torch.zeros(3), torch.tensor([1, 2, 3])):
            module = MulticlassAUCLoss(kind)
            value = module(LOGITS, LABELS, weight)
            assert value.isfinite()
            assert torch.equal(value, multiclass_auc_loss(LOGITS, LABELS, kind=kind, weight=weight))
        for dtype in (torch.uint8, torch.int32):
            assert torch.equal(multiclass_auc_loss(LOGITS, LABELS.to(dtype), kind=kind), module(LOGITS, LABELS))
    broken = LOGITS.clone()
    broken[0, 0] = float("nan")
    for kind in ("ova", "mu"):
        assert MulticlassAUCLoss(kind, check_values=False)(broken, LABELS).isnan()
    one_label = MulticlassAUCLoss(scores="raw")(LOGITS[:, :1], torch.tensor([[1], [0], [0]]))
    torch.testing.assert_close(one_label, auc_loss(LOGITS[:, 0], torch.tensor([1, 0, 0])))


def test_module_moves_and_shows_its_partition() -> None:
    module = MulticlassAUCLoss("mu", partition=PARTITION, margin=0.2)
    assert not module.state_dict()
    assert not list(module.parameters())
    assert "partition=[[0.0, 1.0" in repr(module)
    assert "margin=0.2" in repr(module)
    assert module.to("meta").partition is not None
    assert repr(MulticlassAUCLoss()) == (
        "MulticlassAUCLoss(kind='ova', scores='softmax', average='macro', margin=1.0, surrogate='hinge')"
    )
