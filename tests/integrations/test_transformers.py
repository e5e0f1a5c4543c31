from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import setwise
from setwise import InputError
from setwise.integrations.transformers import compute_loss_func, compute_metrics
from setwise.metrics import auroc

transformers = pytest.importorskip("transformers")

ROWS, LENGTH = 48, 6


def model(labels: int = 2) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=labels,
    )
    return transformers.BertForSequenceClassification(config)


def rows() -> list[dict[str, Tensor]]:
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 20, (ROWS, LENGTH), generator=random)
    labels = (tokens == 7).any(1).long()
    return [{"input_ids": t, "labels": y} for t, y in zip(tokens, labels, strict=True)]


def trainer(path: Any, loss: Any, *, batch: int, accumulate: int = 1, steps: int = 1, labels: int = 2) -> Any:
    settings = transformers.TrainingArguments(
        output_dir=str(path),
        per_device_train_batch_size=batch,
        per_device_eval_batch_size=20,
        gradient_accumulation_steps=accumulate,
        max_steps=steps,
        optim="sgd",
        learning_rate=0.5,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        seed=3,
    )
    return transformers.Trainer(
        model=model(labels),
        args=settings,
        train_dataset=rows(),
        eval_dataset=rows(),
        compute_loss_func=compute_loss_func(loss),
        compute_metrics=compute_metrics("auc"),
    )


@pytest.mark.parametrize("labels", [1, 2])
def test_training_on_a_measure(tmp_path: Any, labels: int) -> None:
    fitted = trainer(tmp_path, "auc", batch=ROWS, steps=30, labels=labels)
    before = fitted.evaluate()
    fitted.train()
    after = fitted.evaluate()
    assert after["eval_auc"] > before["eval_auc"]
    inputs = torch.stack([row["input_ids"] for row in rows()])
    target = torch.stack([row["labels"] for row in rows()])
    with torch.no_grad():
        logits = fitted.model(inputs).logits
    scores = logits[:, 0] if labels == 1 else logits[:, 1] - logits[:, 0]
    assert after["eval_auc"] == pytest.approx(auroc(scores, target), abs=1e-6)


def step_by_hand(batches: list[list[dict[str, Tensor]]], loss: nn.Module) -> dict[str, Tensor]:
    """One step of descent on the micro-batches' losses, each a set of its own, by their share of items."""
    network = model()
    total = sum(len(batch) for batch in batches)
    for batch in batches:
        logits = network(torch.stack([row["input_ids"] for row in batch])).logits
        target = torch.stack([row["labels"] for row in batch])
        (loss(logits[:, 1] - logits[:, 0], target.float()) * len(batch) / total).backward()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=0.5)
    weights: dict[str, Tensor] = network.state_dict()
    return weights


@pytest.mark.parametrize("loss", [setwise.AUCLoss(), nn.BCEWithLogitsLoss()], ids=["set", "items"])
def test_each_micro_batch_is_a_set_of_its_own(tmp_path: Any, loss: nn.Module) -> None:
    fitted = trainer(tmp_path, loss, batch=20, accumulate=3)  # 20, 20 and 8 rows make one step
    order: list[list[dict[str, Tensor]]] = []
    own = fitted.compute_loss

    def watched(network: Any, inputs: dict[str, Tensor], **options: Any) -> Any:
        order.append(
            [{"input_ids": t, "labels": y} for t, y in zip(inputs["input_ids"], inputs["labels"], strict=True)]
        )
        return own(network, inputs, **options)

    fitted.compute_loss = watched
    fitted.train()
    assert [len(batch) for batch in order] == [20, 20, 8]
    accumulated = fitted.model.state_dict()
    expected = step_by_hand(order, loss)
    for name, value in expected.items():
        torch.testing.assert_close(accumulated[name], value, rtol=1e-4, atol=1e-6)
    union = step_by_hand([[row for batch in order for row in batch]], loss)
    same = all(torch.allclose(union[name], value, rtol=1e-4, atol=1e-6) for name, value in expected.items())
    assert same == isinstance(loss, nn.BCEWithLogitsLoss)  # only a mean over items is the loss of the union


def outputs(logits: Any) -> Any:
    return SimpleNamespace(logits=torch.as_tensor(logits))


def test_layouts_and_ignored_items() -> None:
    loss, target = setwise.AUCLoss(), torch.tensor([1, 0, 1, 0])
    scores = torch.tensor([0.3, 0.1, -0.2, 0.5])
    expected = loss(scores, target)
    f = compute_loss_func(loss)
    assert f(outputs(scores), target) == expected
    assert f(outputs(scores[:, None]), target) == expected
    assert f(outputs(scores[:, None]), target[:, None]) == expected
    assert f({"logits": torch.stack([torch.ones(4), 1 + scores], 1)}, target) == pytest.approx(float(expected))
    tokens = torch.stack([torch.zeros(2, 3), torch.tensor([[0.3, 9.0, 0.1], [-0.2, 0.5, 9.0]])], -1)
    labels = torch.tensor([[1, -100, 0], [1, 0, -100]])
    assert f(outputs(tokens), labels) == pytest.approx(float(expected))
    assert f(outputs(scores), target, num_items_in_batch=torch.tensor(8)) == expected / 2
    assert compute_loss_func(loss, ignore_index=0)(outputs(scores), target) == 0  # one class is left


def test_several_classes() -> None:
    logits, target = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    loss = setwise.MulticlassAUCLoss(kind="mu")
    assert compute_loss_func(loss)(outputs(logits), target) == loss(logits, target)
    blended = (nn.functional.cross_entropy(logits, target) + loss(logits, target)) / 2
    assert compute_loss_func("auc_mu")(outputs(logits), target) == pytest.approx(float(blended))
    two = setwise.MulticlassAUCLoss(kind="ova")
    binary = target % 2
    assert compute_loss_func(two, layout="classes")(outputs(logits[:, :2]), binary) == two(logits[:, :2], binary)
    prediction = SimpleNamespace(predictions=(logits.numpy(), None), label_ids=target.numpy())
    found = compute_metrics("auc_mu", setwise.parse("f1[macro]"))(prediction)
    assert found.keys() == {"auc_mu", "f1[macro]"}
    assert found["auc_mu"] == pytest.approx(setwise.parse("auc_mu").metric(logits, target))


def test_refusals() -> None:
    f = compute_loss_func("auc")
    with pytest.raises(InputError, match=r"`labels`.*none"):
        f(outputs(torch.zeros(3)), None)
    with pytest.raises(InputError, match=r"`labels`.*\(3,\).*\(2,\)"):
        f(outputs(torch.zeros(3, 2)), torch.zeros(2))
    with pytest.raises(InputError, match=r"two logits.*3"):
        f(outputs(torch.zeros(2, 3)), torch.zeros(2))
    with pytest.raises(InputError, match="`logits`"):
        f(SimpleNamespace(scores=1), torch.zeros(2))
    with pytest.raises(TypeError, match=r"`loss`.*type"):
        compute_loss_func(setwise.AUCLoss)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`layout`"):
        compute_loss_func("auc", layout="two")
    with pytest.raises(InputError, match="`measures`"):
        compute_metrics()
    assert compute_metrics("auc")(SimpleNamespace(predictions=np.array([0.1, 0.9]), label_ids=np.array([0, 1]))) == {
        "auc": 1.0
    }
