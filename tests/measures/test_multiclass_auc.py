"""Multi-class AUC, one versus all and AUC-mu: definitions, programs, averages, absent classes, every transform."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from setwise import InputError, metrics
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
def test_brute_force_in_many_cases(options: dict[str, Any], scores: str) -> None:
    for seed in range(0 if scores == "raw" else 1, 200, 2):
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
    for seed in range(60):
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


def test_auc_mu_hard_limit_on_probabilities() -> None:
    for seed in range(20):
        logits, labels, _ = draw_classes(seed, classes=5, size=30)
        zero_one = 1 - torch.eye(5, dtype=torch.float64)
        expected = auc_mu_definition(logits.softmax(-1), labels, zero_one).item()
        for partition in (None, zero_one, 3 * zero_one):
            loss = multiclass_auc_loss(
                logits, labels, kind="mu", partition=partition, surrogate="ramp", margin=1e-9
            ).item()
            assert 1 - loss == pytest.approx(expected, abs=1e-6)
        raw = auc_mu_definition(logits, labels, zero_one).item()
        loss = multiclass_auc_loss(logits, labels, kind="mu", scores="raw", surrogate="ramp", margin=1e-9).item()
        assert 1 - loss == pytest.approx(raw, abs=1e-6)


def test_one_versus_all_hard_limit_is_scikit_learn() -> None:
    for seed in range(20):
        logits, labels, weight = draw_classes(seed, classes=3, size=40, weighted=True)
        labels[:3] = torch.arange(3)
        assert weight is not None
        weight[:3] = 1.0
        for average in ("macro", "weighted"):
            loss = multiclass_auc_loss(
                logits, labels, average=average, surrogate="ramp", margin=1e-9, weight=weight
            ).item()
            expected = roc_auc_score(
                labels, logits.softmax(-1), multi_class="ovr", average=average, sample_weight=weight
            )
            assert 1 - loss == pytest.approx(expected, abs=1e-6)
            many = torch.nn.functional.one_hot(labels, 3)
            loss = multiclass_auc_loss(
                logits, many, scores="raw", average=average, surrogate="ramp", margin=1e-9, weight=weight
            ).item()
            assert 1 - loss == pytest.approx(
                roc_auc_score(many, logits, average=average, sample_weight=weight), abs=1e-6
            )


def test_hard_limit_is_the_judge_with_weights() -> None:
    hard: dict[str, Any] = {"surrogate": "ramp", "margin": 1e-9}
    for seed in range(10):
        logits, labels, weight = draw_classes(seed, size=40, weighted=True)
        for link in ("softmax", "raw"):
            for partition in (None, PARTITION):
                options: dict[str, Any] = {"partition": partition, "weight": weight}
                loss = multiclass_auc_loss(logits, labels, kind="mu", scores=link, **hard, **options).item()
                judge: Any = metrics.auc_mu
                assert 1 - loss == pytest.approx(judge(logits, labels, link=link, **options), abs=1e-6)
            loss = multiclass_auc_loss(logits, labels, scores=link, weight=weight, **hard).item()
            judge = metrics.multiclass_auroc
            assert 1 - loss == pytest.approx(judge(logits, labels, link=link, weight=weight), abs=1e-6)


def test_two_classes_are_the_binary_loss() -> None:
    for seed in range(10):
        logits, labels, weight = draw_classes(seed, classes=2, size=30, weighted=True)
        p = logits.softmax(-1)[:, 1]
        binary = auc_loss(p, labels, weight=weight, margin=0.3)
        # p_1 - p_0 halved is p_1 - 1/2
        for kind in ("ova", "mu"):
            value = multiclass_auc_loss(logits, labels, weight=weight, margin=0.3, kind=kind)
            torch.testing.assert_close(value, binary, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(str(v)[:8] for v in options.values()))
@pytest.mark.parametrize("seed", range(6))
def test_program_by_highs_is_the_exact_value_with_its_gradient(options: dict[str, Any], seed: int) -> None:
    logits, labels, weight = draw_classes(seed, size=14, weighted=seed % 2 == 0)
    settings = {**options, "margin": 0.3, "scores": "raw" if seed % 3 == 0 else "softmax"}
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    exact = multiclass_auc_exact(ours, labels, weight=weight, **settings)
    exact.backward()
    program = multiclass_auc_program(theirs, labels, weight=weight, **settings)
    solution = highs_solve(program)
    assert solution.status == "optimal"
    assert exact.item() == pytest.approx(solution.value, rel=1e-8, abs=1e-8)
    (-solution.dual_inequality * program.b).sum().backward()  # the value changes by -v with the right-hand side
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-8)


def test_program_of_multi_label_targets() -> None:
    logits, _, weight = draw_classes(1, size=14, weighted=True)
    labels = torch.randint(0, 2, logits.shape, generator=torch.Generator().manual_seed(0))
    program = multiclass_auc_program(logits, labels, scores="raw", average="weighted", weight=weight)
    exact = multiclass_auc_exact(logits, labels, scores="raw", average="weighted", weight=weight)
    assert exact.item() == pytest.approx(highs_solve(program).value, rel=1e-8)


@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(str(v)[:8] for v in options.values()))
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_torch_form_is_the_numpy_form(options: dict[str, Any], surrogate: str) -> None:
    sets = [draw_classes(seed, size=19, ties=seed % 2 == 0, weighted=True) for seed in range(6)]
    settings = {**options, "scores": "raw", "surrogate": surrogate}
    logits = torch.stack([one.logits for one in sets]).reshape(2, 3, 19, 4).requires_grad_()
    labels = torch.stack([one.labels for one in sets]).reshape(2, 3, 19)
    weight = torch.stack([one.weight for one in sets if one.weight is not None]).reshape(2, 3, 19)
    together = multiclass_auc_exact(logits, labels, weight=weight, **settings)
    together.sum().backward()
    assert together.shape == (2, 3)
    assert logits.grad is not None
    for place, (one, label, w) in enumerate(sets):
        single = one.clone().requires_grad_()
        value = multiclass_auc_exact(single, label, weight=w, **settings)
        value.backward()
        index = divmod(place, 3)
        torch.testing.assert_close(together[index], value, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(logits.grad[index], single.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["ova", "mu"])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradcheck_of_both_orders_and_modes(kind: str, surrogate: str) -> None:
    for scores in ("softmax", "raw"):
        logits, labels, weight = draw_classes(3, classes=3, size=7, weighted=True)

        def loss(f: Tensor, labels: Tensor = labels, weight: Tensor | None = weight, scores: str = scores) -> Tensor:
            return multiclass_auc_loss(
                f, labels, weight=weight, kind=kind, scores=scores, margin=0.4, surrogate=surrogate
            )

        logits.requires_grad_()
        assert torch.autograd.gradcheck(loss, (logits,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(loss, (logits,))


@pytest.mark.parametrize("options", [KINDS[1], KINDS[3], KINDS[5]], ids=["ova", "mu", "partition"])
def test_transforms_agree_with_eager_mode(options: dict[str, Any]) -> None:
    sets = [draw_classes(seed, size=15, weighted=True) for seed in range(4)]
    logits, labels = torch.stack([one.logits for one in sets]), torch.stack([one.labels for one in sets])
    weight = torch.stack([one.weight for one in sets if one.weight is not None])
    module = MulticlassAUCLoss(**options, surrogate="squared_hinge")
    loop = torch.stack([module(*one) for one in sets])
    torch.testing.assert_close(torch.func.vmap(module)(logits, labels, weight), loop, rtol=1e-12, atol=1e-12)
    gradients = torch.func.vmap(torch.func.grad(module))(logits, labels, weight)
    for gradient, one in zip(gradients, sets, strict=True):
        single = one.logits.clone().requires_grad_()
        module(single, one.labels, one.weight).backward()
        torch.testing.assert_close(gradient, single.grad, rtol=1e-12, atol=1e-12)

    def at(f: Tensor) -> Tensor:
        return module(f, labels[0], weight[0])  # type: ignore[no-any-return]

    forward = torch.func.jvp(at, (logits[0],), (torch.ones_like(logits[0]),))
    assert abs(forward[1].item()) < 1e-12  # a common shift changes nothing
    expected = torch.autograd.functional.hessian(
        lambda f: oracle(f, labels[0], weight[0], scores="softmax", surrogate="squared_hinge", **options), logits[0]
    )
    torch.testing.assert_close(torch.func.hessian(at)(logits[0]), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_compiles_to_one_graph(kind: str) -> None:
    module = MulticlassAUCLoss(kind, margin=0.5)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed, weighted in ((0, False), (1, True)):
        logits, labels, weight = draw_classes(seed, size=33, weighted=weighted)
        eager, traced = logits.float().requires_grad_(), logits.float().requires_grad_()
        expected, value = module(eager, labels, weight), compiled(traced, labels, weight)
        expected.backward()
        value.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(traced.grad, eager.grad)
    compiled(torch.zeros(33, 4, requires_grad=True), torch.zeros(33, dtype=torch.long)).backward()
    assert module.undefined_batches.item() == 1


@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_multi_label_and_partition_compile_too(kind: str) -> None:
    logits, labels, _ = draw_classes(2, size=20)
    options: dict[str, Any] = {"partition": PARTITION} if kind == "mu" else {}
    target = labels if kind == "mu" else torch.nn.functional.one_hot(labels, 4)
    module = MulticlassAUCLoss(kind, scores="raw", **options)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, target), module(logits, target))


@pytest.mark.parametrize("kind", ["ova", "mu"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(kind: str, dtype: torch.dtype) -> None:
    logits, labels, weight = draw_classes(9, size=500, weighted=True)
    half = logits.to(dtype).requires_grad_()
    wide = half.detach().float().requires_grad_()
    value, expected = (multiclass_auc_loss(f, labels, weight=weight, kind=kind) for f in (half, wide))
    value.backward()
    expected.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert half.grad is not None
    assert wide.grad is not None
    assert torch.equal(half.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(str(v)[:8] for v in options.values()))
def test_float32_agrees_with_float64_on_large_sets(options: dict[str, Any]) -> None:
    logits, labels, weight = draw_classes(7, size=8000, weighted=True)
    assert weight is not None
    for w in (None, weight.float()):
        narrow = logits.float().requires_grad_()
        wide = narrow.detach().double().requires_grad_()
        value = multiclass_auc_loss(narrow, labels, weight=w, margin=0.1, **options)
        expected = multiclass_auc_loss(wide, labels, weight=w, margin=0.1, **options)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
        assert narrow.grad is not None
        assert wide.grad is not None
        scale = float(wide.grad.abs().max())
        # Probabilities rounded to float32 may stand on the other side of a kink.
        torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=1e-3, atol=1e-3 * scale)


@pytest.mark.parametrize("kind", ["ova", "mu"])
@pytest.mark.parametrize(
    ("labels", "weight"),
    [
        (torch.empty(0, dtype=torch.long), None),
        (torch.tensor([1]), None),
        (torch.tensor([2, 2, 2]), None),
        (torch.tensor([0, 2, 1]), torch.tensor([0.0, 1.0, 0.0])),
    ],
)
def test_sets_without_pairs_cost_nothing_and_are_counted(kind: str, labels: Tensor, weight: Tensor | None) -> None:
    module = MulticlassAUCLoss(kind)
    logits = torch.randn(len(labels), 3, requires_grad=True)
    value = module(logits, labels, weight)
    value.backward()
    assert value.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()
    assert module.undefined_batches.item() == 1
    module(torch.randn(2, 3), torch.tensor([0, 1]))
    assert module.undefined_batches.item() == 1
    w = None if weight is None else weight.expand(2, -1)
    batch = multiclass_auc_exact(logits.detach().expand(2, -1, -1), labels.expand(2, -1), kind=kind, weight=w)
    assert not batch.any()


def test_absent_classes_are_left_out() -> None:
    logits, labels, _ = draw_classes(5, classes=3, size=30)
    wider = torch.cat([logits[:, :1], torch.zeros(30, 1, dtype=torch.float64), logits[:, 1:]], 1)
    moved = torch.where(labels > 0, labels + 1, labels)  # class 1 has no sample
    for kind in ("ova", "mu"):
        torch.testing.assert_close(
            multiclass_auc_loss(wider, moved, kind=kind, scores="raw"),
            multiclass_auc_loss(logits, labels, kind=kind, scores="raw"),
        )


@pytest.mark.parametrize("options", KINDS, ids=lambda options: "-".join(str(v)[:8] for v in options.values()))
def test_integer_weights_are_repetitions(options: dict[str, Any]) -> None:
    logits, labels, _ = draw_classes(8, size=30, ties=True)
    times = torch.randint(0, 4, labels.shape, generator=torch.Generator().manual_seed(1))
    weighted = multiclass_auc_loss(logits, labels, weight=times, **options)
    repeated = multiclass_auc_loss(logits.repeat_interleave(times, dim=0), labels.repeat_interleave(times), **options)
    torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["ova", "mu"])
def test_margin_one_bounds_the_error_from_above(kind: str) -> None:
    for seed in range(60):
        logits, labels, weight = draw_classes(seed, size=20, weighted=seed % 2 == 0)
        for scores in ("softmax", "raw"):
            settings: dict[str, Any] = {"kind": kind, "scores": scores, "weight": weight}
            loss = multiclass_auc_loss(logits, labels, **settings).item()
            error = multiclass_auc_loss(logits, labels, **settings, surrogate="ramp", margin=1e-9).item()
            assert loss >= error - 1e-6


@pytest.mark.parametrize("options", [KINDS[0], KINDS[3], KINDS[5]], ids=["ova", "mu", "partition"])
@pytest.mark.parametrize("scores", ["softmax", "raw"])
def test_free_scores_reach_the_optimum(options: dict[str, Any], scores: str) -> None:
    for seed in range(2):
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


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kind": "ovo"}, InputError, "`kind`"),
        ({"scores": "sigmoid"}, InputError, "`scores`"),
        ({"average": "pair"}, InputError, "`average`.*macro"),
        ({"kind": "mu", "average": "macro"}, InputError, "`average`.*pair"),
        ({"margin": -1.0}, InputError, "`margin`"),
        ({"margin": 0.0, "surrogate": "ramp"}, InputError, "`margin`"),
        ({"surrogate": "logistic"}, InputError, "`surrogate`"),
        ({"partition": PARTITION}, InputError, "`partition`.*ova"),
        ({"kind": "mu", "partition": [[0, 1], [1, 0]]}, TypeError, "`partition`.*list"),
        ({"kind": "mu", "partition": torch.ones(2, 3)}, InputError, r"`partition`.*square.*\(2, 3\)"),
        ({"kind": "mu", "partition": torch.zeros(3, 3)}, InputError, r"`partition`.*apart.*\(0, 1\)"),
        ({"kind": "mu", "partition": torch.full((3, 3), float("nan"))}, InputError, "`partition`.*finite"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], error: type[Exception], message: str) -> None:
    logits, labels, _ = draw_classes(0, size=6)
    with pytest.raises(error, match=message):
        MulticlassAUCLoss(**options)
    for face in (multiclass_auc_loss, multiclass_auc_exact):
        with pytest.raises(error, match=message):
            face(logits, labels, **options)


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


def test_every_option_matters() -> None:
    logits, labels, weight = draw_classes(0, size=40, weighted=True)
    options: list[dict[str, Any]] = [{"scores": "raw"}, {"average": "sum"}, {"margin": 0.1}, {"surrogate": "ramp"}]
    for kind in ("ova", "mu"):
        base = multiclass_auc_loss(logits, labels, kind=kind)
        extra: dict[str, Any] = {"partition": PARTITION} if kind == "mu" else {"average": "weighted"}
        for option in [*options, extra, {"weight": weight}]:
            assert not torch.equal(base, multiclass_auc_loss(logits, labels, **{"kind": kind, **option})), option
    assert not torch.equal(base, multiclass_auc_loss(logits, labels, kind="ova"))
