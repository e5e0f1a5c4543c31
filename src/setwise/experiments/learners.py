"""The two kinds of models of a comparison, behind the same three calls: learn, check the weights, score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import Tensor, nn

from setwise.app import model_file
from setwise.app.files import contents_of
from setwise.experiments import boosting, learning, scoring
from setwise.experiments.problem import initial_network, make_network
from setwise.training.ensemble import network_of

if TYPE_CHECKING:
    from setwise.app.constraints import Constraints
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
    on_note: Callable[[str], object],
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
        on_note: Told in a sentence that the checkpoint is damaged, and the training begins anew.
    """
    if settings.model == "boosting":
        return boosting.learn_trees(drawn, settings, seed=seed, baseline=baseline, on_epoch=on_epoch)
    recipe = settings.recipe(baseline=baseline)
    course = learning.Course(recipe, baseline, constraints, seed, settings.epochs, settings.patience)

    def start() -> nn.Module:
        return recipe.network(initial_network(drawn, settings, seed))

    return learning.learn(start, drawn, course, folder, on_epoch, on_note)


def score_sets(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings) -> dict[str, NDArray[Any]]:
    """Scores, labels, weights and groups of the validation and the test set, by a model with these weights."""
    if settings.model == "boosting":
        return boosting.score_tree_sets(weights, drawn) | scoring.beside_arrays(drawn)
    network = network_of(weights, lambda: make_network(drawn.train.tensors[0], settings.width))
    network.load_state_dict(dict(weights))
    return scoring.score_sets(network, drawn.validation, drawn.test) | scoring.beside_arrays(drawn)


def check_weights(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings, path: Path) -> None:
    """Refuse weights that are not those of the run's model, before it is built."""
    inputs = drawn.train.tensors[0]
    with contents_of(path, "it is of another run, or not written by setwise"):
        if settings.model == "boosting":
            model_file.check_trees(weights, inputs.shape[1])
        else:
            model_file.check_weights(weights, lambda: make_network(inputs, settings.width))
