"""The two kinds of models of a comparison, behind the same three calls: learn, check the weights, score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.experiments import boosting, learning, scoring
from setwise.experiments.model_file import BOOSTER
from setwise.experiments.problem import initial_network, make_network
from setwise.training.ensemble import network_of

if TYPE_CHECKING:
    from setwise.experiments.constraints import Constraints
    from setwise.experiments.problem import Draw
    from setwise.experiments.settings import ComparisonSettings


def learn(
    drawn: Draw,
    settings: ComparisonSettings,
    constraints: Constraints,
    *,
    seed: int,
    baseline: bool,
    folder: Path,
    on_epoch: Callable[[int, float], None],
) -> scoring.Fit:
    """One training.

    Args:
        drawn: The sets.
        settings: Settings of the comparison.
        constraints: Its constraints.
        seed: Seed of the repetition.
        baseline: Whether cross-entropy is minimized.
        folder: For checkpoints.
        on_epoch: Told the epochs done and the last validation measure.
    """
    if settings.model == "boosting":
        return boosting.learn_trees(drawn, settings, seed=seed, baseline=baseline, on_epoch=on_epoch)
    recipe = settings.recipe(baseline=baseline)
    course = learning.Course(recipe, baseline, constraints, seed, settings.epochs, settings.patience)
    network = recipe.network(initial_network(drawn, settings, seed))
    return learning.learn(network, drawn, course, folder, on_epoch)


def score_sets(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings) -> dict[str, NDArray[Any]]:
    """Scores, labels, weights and groups of the validation and the test set, by a model with these weights."""
    if settings.model == "boosting":
        return boosting.score_tree_sets(weights, drawn) | scoring.beside_arrays(drawn)
    network = network_of(weights, lambda: make_network(drawn.train.tensors[0], settings.width))
    network.load_state_dict(dict(weights))
    return scoring.score_sets(network, drawn.validation, drawn.test) | scoring.beside_arrays(drawn)


def check_weights(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings, path: Path) -> None:
    """Refuse weights that are not those of the run's model."""
    if settings.model == "boosting":
        if BOOSTER not in weights:
            raise InputError(f"Expected {path} to hold trees of LightGBM, but it holds {', '.join(weights)}.")
        return
    expected = network_of(weights, lambda: make_network(drawn.train.tensors[0], settings.width)).state_dict()
    if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in expected.items()}:
        raise InputError(f"Expected {path} to hold weights of this run's network, but their names or shapes differ.")
