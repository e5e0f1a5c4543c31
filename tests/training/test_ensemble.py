"""Several networks whose mean is the score."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import setwise
from setwise import InputError
from setwise.training import Anneal, EachMember, Ensemble, Recipe
from setwise.training.ensemble import network_of


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))


X = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
Y = (torch.arange(50) % 5 == 0).float()


def test_members_differ_and_the_first_is_the_network_itself() -> None:
    torch.manual_seed(0)
    alone = network()
    before = copy.deepcopy(alone.state_dict())
    made = Ensemble(alone, 3)
    assert made.networks[0] is alone
    assert all(torch.equal(before[name], value) for name, value in alone.state_dict().items())
    starts = [torch.cat([each.flatten() for each in member.parameters()]) for member in made.networks]
    assert not torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[1], starts[2])


def test_scores_of_all_in_training_and_their_mean_in_evaluation() -> None:
    model = Ensemble(network(), 3)
    assert model(X).shape == (50, 3)
    model.eval()
    torch.testing.assert_close(model(X), torch.stack([member(X) for member in model.networks]).mean(0))


def test_each_learns_as_it_would_alone() -> None:
    torch.manual_seed(1)
    model = Ensemble(network(), 3)
    apart = copy.deepcopy(model)
    loss = setwise.AUCLoss()
    (3 * EachMember(loss)(model(X), Y)).backward()
    for member in apart.networks:
        loss(member(X), Y).backward()
    for found, expected in zip(model.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


def test_the_loss_takes_weights_and_plain_scores() -> None:
    weight = torch.rand(50, generator=torch.Generator().manual_seed(2))
    loss = EachMember(nn.BCEWithLogitsLoss())
    scores = X[:, 0]
    expected = (weight * nn.functional.binary_cross_entropy_with_logits(scores, Y, reduction="none")).sum()
    torch.testing.assert_close(loss(scores, Y, weight=weight), expected / weight.sum())
    torch.testing.assert_close(loss(torch.stack([scores, scores], -1), Y, weight=weight), expected / weight.sum())


def test_progress_goes_through() -> None:
    inner = Anneal(setwise.AUCLoss(margin=1.0), "margin", 1.0, 0.0)
    EachMember(inner).set_progress(0.5)
    assert inner.value == pytest.approx(0.5)


def test_the_network_of_a_state() -> None:
    for made in (network(), Ensemble(network(), 3)):
        other = network_of(made.state_dict(), network)
        other.load_state_dict(made.state_dict())
        torch.testing.assert_close(other.eval()(X), made.eval()(X))


def test_the_recipe_makes_it() -> None:
    alone = network()
    assert Recipe.for_measure("auc", members=1).network(alone) is alone
    made = Recipe.for_measure("auc").network(alone)
    assert isinstance(made, Ensemble)
    assert len(made.networks) == Recipe.members > 1


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.slope


def test_refuses() -> None:
    with pytest.raises(InputError, match=r"`reset_parameters`.*0.slope does not"):
        Ensemble(nn.Sequential(Own()), 2)
    assert Ensemble(Own(), 1)(X).shape == (50, 1)
    with pytest.raises(InputError, match="`members`"):
        Ensemble(network(), 0)
    with pytest.raises(TypeError, match="`network`"):
        Ensemble(network, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`loss`"):
        EachMember(setwise.AUCLoss)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"shape of `target`, \(50,\).*\(3, 50\)"):
        EachMember(setwise.AUCLoss())(torch.zeros(3, 50), Y)
