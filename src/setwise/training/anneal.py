"""Annealing of a loss, whose settings change while training goes on: a margin that shrinks, a temperature that cools.

A wide margin asks every sample to move and is close to linear; a narrow one is closer to the measure and looks at the
samples near the threshold. Starting wide and ending narrow takes the easy gradient first and the right one last.

>>> import torch, setwise
>>> from setwise.training import Anneal
>>> loss = Anneal(setwise.AUCLoss(), "margin", 1.0, 0.2)
>>> loss.set_progress(0.5)
>>> loss.loss.margin
0.6
>>> loss(torch.tensor([0.0, 0.0]), torch.tensor([0, 1]))
tensor(0.6000)
"""

from __future__ import annotations

from torch import Tensor, nn

from setwise import _checks
from setwise.measures._base import promote_dtype
from setwise.training._call import call_loss, is_module
from setwise.training.progress import KeepsProgress, PassesProgress
from setwise.training.schedules import Schedule


class Anneal(KeepsProgress):
    """A loss one of whose settings follows the training; call it like the loss.

    Tell it how far the training is by :meth:`set_progress`, before each batch or each epoch. Under ``torch.compile``
    every new value is compiled anew, so there once per epoch is enough. The progress is part of the ``state_dict``, so
    that a run that is resumed goes on with the same values.

    Args:
        loss: Any loss.
        name: The attribute that changes: ``"margin"``, or any other number that the loss lets itself be given.
        start: Its value at the start. The loss gets it at once.
        end: Its value at the end.
        shape: ``"linear"``, ``"cosine"`` or ``"geometric"``; see :class:`~setwise.training.Schedule`.
        begin: Share of the training at which it starts to change.
        finish: Share at which it has reached ``end``.
    """

    def __init__(
        self,
        loss: nn.Module,
        name: str,
        start: float,
        end: float,
        *,
        shape: str = "linear",
        begin: float = 0.0,
        finish: float = 1.0,
    ) -> None:
        super().__init__()
        is_module("loss", loss)
        self.loss = loss
        self.name = name
        self.schedule = Schedule(shape, start, end, begin, finish)
        self._check_attribute()
        for value in (float(end), self.value):  # the end first, so that a loss that refuses it does so now
            setattr(loss, name, value)

    @property
    def value(self) -> float:
        """The value now."""
        return self.schedule(self.progress)

    def take_progress(self, done: float) -> None:
        """Give the loss the value of this stage of the training."""
        super().take_progress(done)
        setattr(self.loss, self.name, self.value)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss with the value of now."""
        return call_loss(self.loss, input, target, weight)

    def extra_repr(self) -> str:
        """The setting and its schedule, for ``repr``."""
        return f"name={self.name!r}, schedule={self.schedule}"

    def _check_attribute(self) -> None:
        kind = type(self.loss).__name__
        if not hasattr(self.loss, self.name):
            raise _checks.InputError(f"Expected `name` to be an attribute of {kind}, but it has no {self.name!r}.")
        found = getattr(self.loss, self.name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise _checks.InputError(
                f"Expected `name` to be a number that {kind} holds, but its {self.name!r} is a {type(found).__name__}."
            )
        described = getattr(type(self.loss), self.name, None)
        if isinstance(described, property) and described.fset is None:
            raise _checks.InputError(f"Expected `name` to be settable, but {self.name!r} of {kind} can only be read.")


class Temperature(PassesProgress):
    """A loss of logits divided by a temperature: below 1 its ramp or sigmoid is steeper, above 1 it is flatter.

    The gradient by the logits is divided by it too. It does not change a ranking: for AUC it is a larger or smaller
    margin.

    Args:
        loss: Any loss.
        temperature: What the logits are divided by, positive; it may be set, as :class:`Anneal` does.

    >>> import torch, setwise
    >>> from setwise.training import Anneal, Temperature
    >>> loss = Anneal(Temperature(setwise.AUCLoss()), "temperature", 1.0, 0.25, shape="geometric")
    >>> loss.set_progress(0.5)
    >>> loss.value
    0.5
    >>> loss(torch.tensor([0.25, 0.0]), torch.tensor([1, 0]))  # 1 - 0.25 / 0.5
    tensor(0.5000)
    """

    def __init__(self, loss: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        is_module("loss", loss)
        self.loss = loss
        self.temperature = temperature

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        _checks.in_range("temperature", value, 0.0, open_low=True, open_high=True)
        self._temperature = float(value)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of ``input / temperature``."""
        return call_loss(
            self.loss, promote_dtype(input) / self.temperature, target, weight
        )  # half precision might overflow

    def extra_repr(self) -> str:
        """The temperature, for ``repr``."""
        return f"temperature={self.temperature}"
