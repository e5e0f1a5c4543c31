"""What a comparison does with its networks: learn, check stored weights, score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, all_finite
from setwise.app.files import contents_of
from setwise.experiments import learning, scoring
from setwise.experiments.problem import initial_network, make_network
from setwise.training.ensemble import network_of

if TYPE_CHECKING:
    from setwise.app.constraints import Constraints
    from setwise.experiments.problem import Draw
    from setwise.experiments.settings import ComparisonSettings

MOST_MEMBERS = 64  # networks of an ensemble; the settings allow no more


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
    recipe = settings.recipe(baseline=baseline)
    course = learning.Course(recipe, baseline, constraints, seed, settings.epochs, settings.patience)

    def start() -> nn.Module:
        return recipe.network(initial_network(drawn, settings, seed))

    return learning.learn(start, drawn, course, folder, on_epoch, on_note)


def score_sets(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings) -> dict[str, NDArray[Any]]:
    """Scores and labels of the validation and the test set, by a network with these weights."""
    network = network_of(weights, lambda: make_network(drawn.train.tensors[0], settings.width))
    network.load_state_dict(dict(weights))
    return scoring.score_sets(network, drawn.validation, drawn.test) | scoring.beside_arrays(drawn)


def check_weights(weights: Mapping[str, Tensor], drawn: Draw, settings: ComparisonSettings, path: Path) -> None:
    """Refuse weights that are not finite, or not of the run's network or an ensemble of such, before it is built.

    Args:
        weights: A ``state_dict``.
        drawn: The sets; their inputs decide the network.
        settings: Settings of the run.
        path: The file of the weights, for messages.
    """
    inputs = drawn.train.tensors[0]
    with contents_of(path, "it is of another run, or not written by setwise"):
        members = {name.split(".")[1] for name in weights if name.startswith("networks.")}
        if len(members) > MOST_MEMBERS:
            raise InputError(f"Expected weights of at most {MOST_MEMBERS} networks, but got {len(members)}.")
        with torch.device("meta"):  # where tensors take no memory
            wanted = network_of(weights, lambda: make_network(inputs, settings.width)).state_dict()
        _check_alike(weights, wanted)
        for name, tensor in weights.items():
            all_finite(name, tensor)


def _check_alike(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    for name in sorted(wanted.keys() ^ weights.keys()):
        has = "lack" if name in wanted else "also hold"
        raise InputError(
            f"Expected the weights of the network, but their names or shapes differ: they {has} {name!r:.80}."
        )
    for name, tensor in weights.items():
        if (tensor.shape, tensor.dtype) != (wanted[name].shape, wanted[name].dtype):
            raise InputError(
                f"Expected the weights of the network, but their names or shapes differ: {name} is "
                f"{tuple(tensor.shape)}, {tensor.dtype}, and not {tuple(wanted[name].shape)}, {wanted[name].dtype}."
            )
