"""A linear head that predicts the group from any network: a layer on features that the network computes anyway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from setwise._checks import InputError, is_count, is_floating, is_real, is_tensor


class _Scores(nn.LazyLinear):
    """A linear layer that learns its width from the first input, with a start of its own."""

    def reset_parameters(self) -> None:
        """See :func:`_start`; before the first input there is nothing to start."""
        # LazyLinear calls this before it knows its width, too.
        if self.in_features and not self.has_uninitialized_params():
            _start(self)


class GroupHead(nn.Module):
    r"""Scores of the group, linear in the features of a network: :math:`q(x) = w \cdot \bar a(x) + b`.

    The mean :math:`\bar a` depends on what comes in: feature vectors (B, K) are taken as they are, maps (B, K, H, W)
    (or volumes) are averaged over their pixels, token sequences (B, T, K) over their tokens.

    Weights and biases start at zero: the network gets no gradient from the head before the head itself has learned
    something, so that a term on its scores, however heavy, does not throw the features about in the first steps.

    Args:
        in_features: Number of features K; None takes it from the first features that come.
        num_groups: Number of groups p. Two of them have one score, positive for group 1: (B,); more have one each:
            (B, p).

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
        >>> head = GroupHead.attached(network, "1")  # after the ReLU
        >>> optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], lr=0.1)
        >>> logits = network(torch.rand(4, 3, 16, 16))
        >>> logits.shape, head().shape
        (torch.Size([4, 10]), torch.Size([4]))
    """

    def __init__(self, in_features: int | None = None, num_groups: int = 2) -> None:
        super().__init__()
        is_count("num_groups", num_groups, 2)
        if in_features is not None:
            is_count("in_features", in_features)
        outputs = 1 if num_groups == 2 else num_groups
        self.num_groups = num_groups
        self.linear = _Scores(outputs) if in_features is None else _start(nn.Linear(in_features, outputs))
        self._features: Tensor | None = None  # what an attached head keeps of the network's last forward
        self._layer: str | None = None

    @classmethod
    def attached(
        cls,
        network: nn.Module,
        layer: str,
        *,
        in_features: int | None = None,
        num_groups: int = 2,
        name: str | None = None,
    ) -> GroupHead:
        """A head on what one layer of a network gives, without a change to the network's code.

        After each forward of the network, ``head()`` gives the scores of its batch, differentiable into the network.
        The head's parameters are its own: give them to the optimizer beside the network's. Copies and pickles of
        network and head together keep them attached; :meth:`detach` takes the head off.

        Args:
            network: Any network.
            layer: Name of the layer as in ``network.named_modules()``, such as ``"layer4"``; "" is the network itself.
                Of a tuple or a mapping that the layer gives, the first entry counts.
            in_features: Number of features; None takes it from the first forward. Give it where something needs
                parameters of known size before, as ``DistributedDataParallel`` does.
            num_groups: Number of groups.
            name: Make the head a submodule of the network under this name, so that the network's ``parameters``,
                ``state_dict`` and ``to`` include it. Not for ``nn.Sequential``, which would call it as its last layer.
        """
        if not isinstance(network, nn.Module):
            raise TypeError(f"Expected `network` to be a torch.nn.Module, but got {type(network).__name__}.")
        watched = _find(network, layer)
        if name is not None:
            _check_name(network, name)
        head = cls(in_features, num_groups)
        # The head has to be where the features will be, and of their type.
        example = next((p for p in network.parameters() if p.is_floating_point()), None)
        if example is not None:
            head.to(device=example.device, dtype=example.dtype)
        head._layer = layer
        # No handle is kept: it would not survive a copy of the network, the hook object does.
        watched.register_forward_hook(_Keep(head))
        if name is not None:
            network.add_module(name, head)
        return head

    def forward(self, features: Tensor | None = None, *, mask: Tensor | None = None) -> Tensor:
        """The scores of features, or without any those of the batch the network has seen last.

        Args:
            features: Shape (B, K), (B, K, H, W) or (B, T, K).
            mask: Which tokens count, shape (B, T), for token sequences of different lengths.

        Returns:
            Shape (B,) for two groups, (B, p) for more.
        """
        if features is None:
            features = self._kept()
        scores = self.linear(_pool(features, mask))  # shape: (B, 1) or (B, p)
        result: Tensor = scores.squeeze(1) if self.num_groups == 2 else scores
        return result

    def detach(self, network: nn.Module) -> None:
        """Take the head off a network it was attached to: the hook, the submodule and the features kept."""
        found = False
        for module in network.modules():
            for key, hook in list(module._forward_hooks.items()):  # noqa: SLF001 (a handle would not survive copies)
                if isinstance(hook, _Keep) and hook.head is self:
                    del module._forward_hooks[key]  # noqa: SLF001 (the same)
                    found = True
        if not found:
            raise InputError("Expected `network` to be the one this head is attached to, but it is another.")
        # A list, because children are deleted while we go.
        for name, module in list(network.named_children()):
            if module is self:
                delattr(network, name)
        self._features = self._layer = None

    def extra_repr(self) -> str:
        """The settings that the linear layer does not show."""
        where = "" if self._layer is None else f", attached to {self._layer!r}"
        return f"num_groups={self.num_groups}{where}"

    def __getstate__(self) -> dict[str, Any]:
        # The features belong to a graph, which can be neither copied nor pickled.
        return self.__dict__ | {"_features": None}

    def _kept(self) -> Tensor:
        if self._layer is None:
            raise InputError("Expected `features`, since this head is attached to no network, but got none.")
        if self._features is None:
            raise InputError(
                f"Expected a forward pass of the network before the scores of its layer {self._layer!r} are asked for, "
                "but there was none since the head was attached, copied or loaded."
            )
        return self._features


class _Keep:
    """A forward hook that hands a layer's output to a head. An object, so that copies of a network keep the link."""

    def __init__(self, head: GroupHead) -> None:
        self.head = head

    def __call__(self, _module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        features = _first_tensor(output)
        # With its graph: the term's gradient is to reach the network through the head.
        self.head._features = features  # noqa: SLF001 (its own head)
        if isinstance(self.head.linear, _Scores):  # the first forward tells the width
            with torch.no_grad():
                self.head(features)


def _start(linear: nn.Linear) -> nn.Linear:
    """At zero, see :class:`GroupHead`."""
    # At zero the head passes no gradient on, so it learns before it pulls at the features.
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _check_name(network: nn.Module, name: str) -> None:
    if not name.isidentifier() or hasattr(network, name):
        raise InputError(f"Expected `name` to be a new name for a submodule of the network, but got {name!r}.")
    if isinstance(network, nn.Sequential):
        raise InputError("Expected no `name` for an nn.Sequential, which would call the head as its last layer.")


def _find(network: nn.Module, layer: str) -> nn.Module:
    modules: dict[str, nn.Module] = dict(network.named_modules())
    if layer not in modules:
        shown = ", ".join(name for name in modules if name)
        raise InputError(f"Expected `layer` to be a layer of the network ({shown:.400}), but got {layer!r}.")
    return modules[layer]


def _first_tensor(output: Any) -> Tensor:
    if isinstance(output, Mapping):
        output = next(iter(output.values()), None)
    elif isinstance(output, tuple | list):
        output = output[0] if output else None
    if not isinstance(output, Tensor):
        raise TypeError(
            f"Expected the layer to give a tensor, or a tuple or mapping that starts with one, "
            f"but it gives {type(output).__name__}."
        )
    return output


def _pool(features: Tensor, mask: Tensor | None) -> Tensor:
    """One feature vector per example, shape (B, K)."""
    is_floating("features", features)
    if mask is not None and features.ndim != 3:
        raise InputError(f"Expected no `mask` but for tokens (B, T, K), but the features are {tuple(features.shape)}.")
    if features.ndim == 2:
        return features
    if features.ndim == 3:
        return features.mean(dim=1) if mask is None else _masked_mean(features, mask)
    if features.ndim > 3:
        # Global average pooling, as class activation maps need it.
        return features.flatten(2).mean(dim=2)
    raise InputError(
        f"Expected `features` of shape (B, K), (B, K, H, W) or (B, T, K), but got {tuple(features.shape)}."
    )


def _masked_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    is_tensor("mask", mask)
    is_real("mask", mask)
    if mask.shape != tokens.shape[:2]:
        raise InputError(f"Expected `mask` of shape {tuple(tokens.shape[:2])}, but got {tuple(mask.shape)}.")
    counted = (mask != 0).to(tokens.dtype).unsqueeze(2)  # shape: (B, T, 1)
    # A sequence of which nothing counts has the mean zero.
    return (tokens * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
