"""Equal quality over groups: weights by hand, training that closes a gap, errors of maps, bad input."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise import InputError, metrics
from setwise.lagrangian import EqualQuality
from setwise.lagrangian.equal_quality import example_quality


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_before_any_step_it_is_the_mean_loss() -> None:
    loss, group = torch.rand(50), torch.arange(50) % 3
    for form in ("constraint", "worst"):
        assert EqualQuality(3, form=form)(loss, group).item() == pytest.approx(loss.mean().item())


def test_weights_by_hand() -> None:
    quality = EqualQuality(2, tolerance=0.1, dual_learning_rate=1.0, damping=2.0, cap=100.0, warm_up=0)
    quality(torch.ones(40), torch.arange(40) % 4 // 3)  # a quarter in group 1
    quality.step(torch.tensor([0.2, 0.6]), torch.tensor([0, 1]))
    violation = (0.6 - 0.4 - 0.05) / 0.4  # relative to the mean of the groups' errors
    a = violation + 2.0 * violation
    raw = [1.0, math.exp(a)]
    mean = 0.75 * raw[0] + 0.25 * raw[1]
    assert quality.duals().tolist() == pytest.approx([0.0, violation])
    assert quality.weights().tolist() == pytest.approx([r / mean for r in raw])
    loss, group = torch.rand(10), torch.arange(10) % 2
    expected = (torch.tensor([r / mean for r in raw])[group] * loss).mean()
    assert quality.eval()(loss, group).item() == pytest.approx(expected.item(), rel=1e-5)


def test_within_the_tolerance_nothing_is_weighed() -> None:
    quality = EqualQuality(2, tolerance=0.5, warm_up=0)
    quality.step(torch.tensor([0.2, 0.6]), torch.tensor([0, 1]))
    assert quality.weights().tolist() == [1.0, 1.0]


def test_weights_stay_within_the_cap() -> None:
    for form in ("constraint", "worst"):
        quality = EqualQuality(3, 0.0, form=form, cap=2.0, warm_up=0)
        for _ in range(50):
            quality.step(torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0, 1, 2]))
        weights = quality.weights()
        assert float(weights.max()) == 2.0
        assert float(weights.min()) == 0.5
        assert bool(quality.duals().isfinite().all())


def test_worst_is_exponentiated_gradient() -> None:
    quality = EqualQuality(2, form="worst", dual_learning_rate=0.5, cap=100.0, warm_up=0)
    for _ in range(3):
        quality.step(torch.tensor([0.1, 0.3]), torch.tensor([0, 1]))
    ratio = quality.weights()[1] / quality.weights()[0]
    steps = sum(0.5 / math.sqrt(t) for t in (1, 2, 3))
    assert ratio.item() == pytest.approx(math.exp(steps * (0.3 - 0.1) / 0.2))


def test_max_is_the_worst_group_of_the_batch() -> None:
    loss = torch.tensor([1.0, 2.0, 5.0, 0.0, 0.5], requires_grad=True)
    value = EqualQuality(3, form="max")(loss, torch.tensor([0, 0, 1, 1, 1]))
    assert value.item() == pytest.approx(5.5 / 3)
    value.backward()
    assert loss.grad is not None
    assert loss.grad.tolist() == pytest.approx([0.0, 0.0, 1 / 3, 1 / 3, 1 / 3])


def test_the_first_steps_only_watch() -> None:
    quality = EqualQuality(2, warm_up=2)
    for k in range(3):
        assert quality.weights().tolist() == [1.0, 1.0], k
        quality.step(torch.tensor([0.2, 0.6]), torch.tensor([0, 1]))
    assert quality.weights()[1] > 1


def test_errors_of_the_batches_since_the_last_step() -> None:
    quality = EqualQuality(2, warm_up=0)
    quality(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), error=torch.tensor([0.0, 1.0]))
    quality(torch.tensor([1.0, 2.0]), torch.tensor([0, 1]), error=torch.tensor([1.0, 1.0]))
    quality.step()
    assert quality.errors.tolist() == [0.5, 1.0]
    quality(torch.tensor([3.0]), torch.tensor([0]))  # losses are compared where no error is given
    quality.step()
    assert quality.errors.tolist() == [3.0, 1.0]  # of group 1 nothing new is known


def test_nothing_moves_while_a_group_is_unknown_or_nobody_errs() -> None:
    quality = EqualQuality(2, warm_up=0)
    quality.step(torch.tensor([0.7]), torch.tensor([1]))
    assert quality.duals().tolist() == [0.0, 0.0]
    quality.step(torch.tensor([0.0, 0.0]), torch.tensor([0, 1]))
    assert quality.weights().tolist() == [1.0, 1.0]


def test_evaluation_and_empty_batches_leave_no_trace() -> None:
    quality = EqualQuality(2)
    assert quality(torch.zeros(0), torch.zeros(0, dtype=torch.long)).item() == 0.0
    assert EqualQuality(2, form="max")(torch.zeros(0), torch.zeros(0, dtype=torch.long)).item() == 0.0
    quality.eval()
    quality(torch.ones(2), torch.tensor([0, 1]))
    assert float(quality.counts.sum()) == 0


def conflict(n: int = 1500) -> tuple[Tensor, Tensor, Tensor]:
    """A fifth of the examples follow another line than the others."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=generator)
    group = (torch.arange(n) % 5 == 0).long()
    return x, group, (x[:, 0] + 2.0 * group * x[:, 1] > 0).long()


def fitted(quality: EqualQuality, x: Tensor, group: Tensor, labels: Tensor, *, held_out: bool = False) -> list[float]:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam([*model.parameters(), *quality.parameters()], lr=0.05)
    for step in range(150):
        optimizer.zero_grad()
        quality(model(x), group, labels=labels).backward()
        optimizer.step()
        if step % 5 == 4 and held_out:
            with torch.no_grad():
                quality.step((model(x).argmax(1) != labels).float(), group)
        elif step % 5 == 4:
            quality.step()
    wrong = (model(x).argmax(1) != labels).float()
    return [float(wrong[group == k].mean()) for k in (0, 1)]


@pytest.mark.parametrize("settings", [{}, {"held_out": True}])
def test_a_gap_is_closed_to_the_tolerance(settings: dict[str, bool]) -> None:
    x, group, labels = conflict()
    free = fitted(EqualQuality(2, tolerance=1.0), x, group, labels)
    equal = fitted(EqualQuality(2, tolerance=0.05), x, group, labels, **settings)
    assert free[1] - free[0] > 0.15
    assert abs(equal[1] - equal[0]) < 0.07


def test_the_worst_group_gets_better_under_every_form() -> None:
    x, group, labels = conflict()
    free = fitted(EqualQuality(2, tolerance=1.0), x, group, labels)
    for form in ("worst", "max"):
        assert max(fitted(EqualQuality(2, form=form, dual_learning_rate=0.2), x, group, labels)) < max(free) - 0.05


def test_state_resumes() -> None:
    x, group, labels = conflict()
    quality = EqualQuality(2, tolerance=0.02)
    fitted(quality, x, group, labels)
    again = EqualQuality(2, tolerance=0.02)
    again.load_state_dict(copy.deepcopy(quality.state_dict()))
    loss = torch.rand(1500)
    assert torch.equal(quality(loss, group), again(loss, group))
    for one in (quality, again):
        one.step()
    assert all(
        torch.equal(a, b) for a, b in zip(quality.state_dict().values(), again.state_dict().values(), strict=True)
    )


def test_classification_loss_and_error() -> None:
    logits, labels = torch.randn(20, 4), torch.randint(4, (20,))
    labels[3] = -100
    loss, error = example_quality(logits, labels)
    assert torch.equal(loss, F.cross_entropy(logits, labels, reduction="none"))
    assert error.tolist() == [float(y >= 0 and z.argmax() != y) for z, y in zip(logits, labels, strict=True)]
    group = torch.arange(20) % 2
    total = EqualQuality(2)(logits, group, labels=labels)
    assert total.item() == pytest.approx(loss.mean().item())


@pytest.mark.parametrize("ignore", [-100, 255, 1])
def test_segmentation_error_is_one_less_the_judges_iou(ignore: int) -> None:
    torch.manual_seed(0)
    logits, maps = torch.randn(6, 3, 5, 4), torch.randint(3, (6, 5, 4))
    maps[:, 0] = ignore
    maps[5] = ignore
    loss, error = example_quality(logits, maps, ignore_index=ignore)
    judged = [
        metrics.jaccard(z.unsqueeze(0), y.unsqueeze(0), average="macro", ignore_index=ignore, zero_division=math.nan)
        for z, y in zip(logits[:5], maps[:5], strict=True)
    ]
    assert error[:5].tolist() == pytest.approx([1 - iou for iou in judged])
    assert error[5].item() == 0.0
    assert loss[5].item() == 0.0
    plain = torch.stack(
        [F.cross_entropy(z[None], y[None], ignore_index=ignore) for z, y in zip(logits[:5], maps[:5], strict=True)]
    )
    assert loss[:5].tolist() == pytest.approx(plain.tolist())


def test_segmentation_trains_on_maps_with_groups_by_image() -> None:
    torch.manual_seed(0)
    images = torch.randn(8, 2, 6, 6)
    maps = (images[:, 0] > 0).long()
    group = torch.arange(8) % 2
    head = nn.Conv2d(2, 2, 1)
    quality = EqualQuality(2, tolerance=0.0, warm_up=0)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        value = quality(head(images), group, labels=maps)
        value.backward()
        optimizer.step()
        quality.step()
        values.append(value.item())
    assert values[-1] < 0.5 * values[0]
    assert bool(quality.errors.isfinite().all())


def test_low_precision_logits_are_widened() -> None:
    logits, labels = torch.randn(10, 3), torch.randint(3, (10,))
    assert example_quality(logits.bfloat16(), labels).loss.dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_groups": 1}, "num_groups"),
        ({"num_groups": 2.0}, "num_groups"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"form": "best"}, "form"),
        ({"dual_learning_rate": -1.0}, "dual_learning_rate"),
        ({"damping": -1.0}, "damping"),
        ({"cap": 0.5}, "cap"),
        ({"warm_up": -1}, "warm_up"),
    ],
)
def test_bad_settings(settings: dict[str, Any], named: str) -> None:
    with pytest.raises((InputError, TypeError), match=f"`{named}`"):
        EqualQuality(**{"num_groups": 2, **settings})


def test_bad_calls() -> None:
    quality = EqualQuality(2)
    group = torch.tensor([0, 1])
    with pytest.raises(InputError, match="0 to 1, but got 2"):
        quality(torch.rand(2), group + 1)
    with pytest.raises(InputError, match="`group`"):
        quality(torch.rand(3), group)
    with pytest.raises(InputError, match="one loss per example"):
        quality(torch.rand(2, 3), group)
    with pytest.raises(TypeError, match="`input`"):
        quality(torch.tensor([1, 2]), group)
    with pytest.raises(InputError, match="`error`"):
        quality(torch.rand(2), group, error=torch.rand(3))
    with pytest.raises(InputError, match="`error` and `group` together"):
        quality.step(torch.rand(2))
    with pytest.raises(InputError, match="`error` to be finite"):
        quality.step(torch.tensor([math.nan, 0.0]), group)
    with pytest.raises(InputError, match="`labels` to have the shape"):
        example_quality(torch.rand(2, 3), torch.zeros(3, dtype=torch.long))
