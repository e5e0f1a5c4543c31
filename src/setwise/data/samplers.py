"""Mini-batches in which every class has its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.utils.data import Sampler

from setwise._checks import InputError, all_binary, all_non_negative, in_range, is_count, to_numpy
from setwise._types import Index
from setwise.data.imbalance import Labels, whole_labels

_T = TypeVar("_T")


class StratifiedBatchSampler(Sampler[list[int]]):
    r"""Batches with a fixed number of samples of each class, for ``DataLoader(dataset, batch_sampler=...)``.

    A measure such as AUC or recall is undefined on a batch without positives; here every batch has some. Class
    :math:`c` with :math:`n_c` samples has a quota :math:`q_c` per batch. The class with the largest :math:`n_c / q_c`
    (the majority, unless the quotas give it more than its share) sets the length of an epoch:

    - It is visited exactly once per epoch, in :math:`\lceil n_c / q_c \rceil` batches.
    - The other classes are visited at least once: each is drawn without replacement until exhausted, then reshuffled
      and drawn again. A sample comes twice in one batch only where its class has fewer samples than its quota.
    - The last batch is smaller where the leading class does not divide evenly; the others then give the same part of
      their quota, rounded up, so that every class is still there. ``drop_last`` leaves that batch out.

    The order depends on ``(seed, epoch)`` only, so rounds of the smaller classes do not carry over to the next epoch.
    Each pass starts the next epoch by itself, also after a pass that was left early; :meth:`set_epoch` sets it. A data
    set of one class gives plain batches.

    Where there are several processes, all draw the same batches of ``batch_size`` samples and each gets its share of
    every one: of each class as many as the others or one more or less, so that a loss that gathers sees the whole batch
    (:mod:`setwise.distributed`). All have the same number of batches. A last batch with fewer samples than there are
    processes is filled up with some of them again, so that none goes without. The batches, and so the state to resume
    from, do not depend on how many processes there are.

    Args:
        labels: Classes, shape (n,).
        batch_size: Samples per batch; at least the number of classes.
        positives: Samples of class 1 per batch; labels must be 0 and 1.
        fraction: The same as a share of the batch, in (0, 1); rounded, at least one sample of either class.
        balanced: As many samples of each class as of any other, whatever the shares of the data set; where the batch
            does not divide evenly, the largest classes have one more. Without ``positives``, ``fraction`` or this,
            quotas follow the shares of the data set, with at least one sample per class, rounded so that an epoch has
            as few batches as possible.
        weight: Weights of the samples, shape (n,). A class's draws are then independent, with replacement, in
            proportion to the weights of its samples: epochs have the same number of batches, but no sample is sure to
            be visited.
        shuffle: False visits the samples of each class in their order, the classes one after the other in each batch.
        drop_last: Leave out the smaller last batch.
        seed: Seed of the order.
        rank: Which process this is, from 0 on; by default its rank in the default process group, where there is one
            when a pass begins.
        num_replicas: How many processes there are; with ``rank``. ``rank=0, num_replicas=1`` keeps whole batches
            whatever the process group.

    Example:
        >>> sampler = StratifiedBatchSampler([0] * 90 + [1] * 10, batch_size=16, positives=4)
        >>> len(sampler), [sum(i >= 90 for i in batch) for batch in sampler]
        (8, [4, 4, 4, 4, 4, 4, 4, 2])
        >>> shares = [StratifiedBatchSampler(range(8), 8, rank=r, num_replicas=2) for r in range(2)]
        >>> sorted(i for share in shares for batch in share for i in batch)
        [0, 1, 2, 3, 4, 5, 6, 7]
        >>> StratifiedBatchSampler([0] * 60 + [1] * 30 + [2] * 10, batch_size=10, balanced=True).quotas
        {0: 4, 1: 3, 2: 3}
    """

    _epoch: int
    _handed_out: int
    _at_start: bool  # whether the next pass takes up (epoch, handed_out) as they stand
    _returned: tuple[int, int] | None  # epoch and batches that a tracked loader has returned

    def __init__(
        self,
        labels: Labels,
        batch_size: int,
        *,
        positives: int | None = None,
        fraction: float | None = None,
        balanced: bool = False,
        weight: Labels | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
    ) -> None:
        is_count("batch_size", batch_size)
        is_count("seed", seed, 0)
        self._replica = _read_replica(rank, num_replicas, batch_size)
        self.labels = whole_labels("labels", labels)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        classes = [int(c) for c in np.unique(self.labels)]
        self._members = {c: np.flatnonzero(self.labels == c) for c in classes}
        self.quotas = _quotas(self.labels, batch_size, positives, fraction, balanced=balanced)
        self._chances = None if weight is None else self._class_chances(weight)
        self._draws = self._plan()
        self._stand_at(0)

    def __len__(self) -> int:
        """Batches in a whole epoch, also while one is resumed in its middle."""
        return len(next(iter(self._draws.values())))

    def __iter__(self) -> Iterator[list[int]]:
        # A generator, so that nothing moves before the first batch: loaders with workers call `iter` twice per pass.
        if not self._at_start:  # the pass before was left early
            self._epoch, self._handed_out = self._epoch + 1, 0
        self._at_start = False
        self._returned = None
        epoch, batches = self._epoch, self._batches(self._epoch)
        for k in range(self._handed_out, len(batches)):
            self._epoch, self._handed_out = epoch, k + 1
            if k + 1 == len(batches):  # so that a state saved after the last batch starts the next epoch
                self._epoch, self._handed_out, self._at_start = epoch + 1, 0, True
            yield batches[k].tolist()

    @property
    def epoch(self) -> int:
        """The epoch that is under way, or the next one where none is."""
        return self._epoch if self._returned is None else self._returned[0]

    @property
    def replica(self) -> tuple[int, int]:
        """Which process this is and how many there are: as given, or by the default process group of now."""
        if self._replica is not None:
            return self._replica
        if dist.is_available() and dist.is_initialized():
            return _read_replica(dist.get_rank(), dist.get_world_size(), self.batch_size) or (0, 1)
        return 0, 1

    def _stand_at(self, epoch: int, handed_out: int = 0) -> None:
        """Let the next pass begin there."""
        self._epoch, self._handed_out, self._at_start, self._returned = epoch, handed_out, True, None

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be this epoch, from its start; a resumed epoch of the same number keeps its place."""
        is_count("epoch", epoch, 0)
        self._stand_at(epoch, self._handed_out if self._at_start and epoch == self._epoch else 0)

    def track(self, loader: Iterable[_T]) -> Iterator[_T]:
        """The batches of a loader over this sampler, counted as they are returned, so that its state is exact.

        A ``DataLoader`` with workers asks for ``num_workers * prefetch_factor`` batches ahead of those it returns. Only
        with this around it does :meth:`state_dict` say after each batch what has been returned, not what was asked for:

            for x, y in sampler.track(loader): ...

        Taking up an epoch in its middle leaves torch's random numbers as they are, so that dropout goes on as well as
        the batches do.

        Args:
            loader: A ``DataLoader`` whose ``batch_sampler`` this is.
        """
        if getattr(loader, "batch_sampler", self) is not self:
            raise InputError("Expected `loader` to have this sampler as its `batch_sampler`, but it has another.")
        epoch, first = (self._epoch, self._handed_out) if self._at_start else (self._epoch + 1, 0)
        random = torch.get_rng_state()
        batches = iter(loader)  # draws a seed for its workers from torch's random numbers
        if first:  # which the pass that is resumed has drawn before
            torch.set_rng_state(random)
        for count, batch in enumerate(batches, first + 1):
            self._returned = (epoch, count) if count < len(self) else (epoch + 1, 0)
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands: the epoch, and how many of its batches have been handed out.

        With workers wrap the loader in :meth:`track`: otherwise batches that were asked for ahead are counted as well.
        """
        epoch, batch = (self._epoch, self._handed_out) if self._returned is None else self._returned
        return {"epoch": epoch, "batch": batch, "seed": self.seed, "batches": len(self)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called; the seed is taken over as well."""
        lacking = {"epoch", "batch", "seed", "batches"} - state.keys()
        if lacking:
            raise InputError(f"Expected `state` to come from `state_dict`, but it lacks {', '.join(sorted(lacking))}.")
        if state["batches"] != len(self):
            raise InputError(
                f"Expected `state` of a sampler with {len(self)} batches per epoch, but it had {state['batches']}: "
                "the labels or the batch size differ."
            )
        is_count("state['epoch']", state["epoch"], 0)
        in_range("state['batch']", state["batch"], 0, len(self))
        self.seed = int(state["seed"])
        epoch, batch = int(state["epoch"]), int(state["batch"])
        self._stand_at(epoch + 1, 0) if batch == len(self) else self._stand_at(epoch, batch)

    def _batches(self, epoch: int) -> list[Index]:
        """All batches of an epoch, or this process's shares of them."""
        rng = np.random.default_rng([self.seed, epoch])
        parts = [self._class_batches(c, rng) for c in self._members]
        batches = [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        rank, replicas = self.replica
        if replicas > 1:  # dealt out class by class, so that every process has its share of each
            batches = [np.resize(batch, max(batch.size, replicas))[rank::replicas] for batch in batches]
        return [rng.permutation(batch) for batch in batches] if self.shuffle else batches

    def _class_batches(self, c: int, rng: np.random.Generator) -> list[Index]:
        """What one class gives to each batch."""
        members = self._members[c]
        if self._chances is not None:
            drawn = rng.choice(members, size=sum(self._draws[c]), p=self._chances[c])
            return np.split(drawn, np.cumsum(self._draws[c])[:-1])
        batches = []
        left = rng.permutation(members) if self.shuffle else members
        for count in self._draws[c]:
            taken = left[:count]
            left = left[count:]
            while taken.size < count:
                fresh = rng.permutation(members) if self.shuffle else members
                if count <= members.size:  # what the batch already holds goes to the end of the new round
                    held = np.isin(fresh, taken)
                    fresh = np.concatenate([fresh[~held], fresh[held]])
                need = count - taken.size
                taken, left = np.concatenate([taken, fresh[:need]]), fresh[need:]
            batches.append(taken)
        return batches

    def _plan(self) -> dict[int, list[int]]:
        """How many samples each class gives to each batch of an epoch."""
        lead = max(self._members, key=lambda c: self._members[c].size / self.quotas[c])
        n, q = self._members[lead].size, self.quotas[lead]
        whole, rest = divmod(n, q)
        if self.drop_last and whole == 0:
            raise InputError(
                f"Expected `batch_size` to be small enough for one whole batch where `drop_last` is set, "
                f"but class {lead} has {n} samples and a quota of {q}."
            )
        last = 0 if self.drop_last else rest
        return {c: [quota] * whole + [-(-quota * last // q)] * bool(last) for c, quota in self.quotas.items()}

    def _class_chances(self, weight: Labels) -> dict[int, NDArray[np.float64]]:
        weights = to_numpy("weight", weight).astype(np.float64)
        if weights.shape != self.labels.shape:
            raise InputError(
                f"Expected `weight` to have the shape of `labels`, {self.labels.shape}, got {weights.shape}."
            )
        if not self.shuffle:
            raise InputError("Expected `shuffle` to be True where `weight` is given, since weighted draws are random.")
        all_non_negative("weight", weights)
        chances = {}
        for c, members in self._members.items():
            total = weights[members].sum()
            if total == 0:
                raise InputError(f"Expected `weight` to be positive for some sample of class {c}, but all are zero.")
            chances[c] = weights[members] / total
        return chances


class GroupBalancedBatchSampler(StratifiedBatchSampler):
    r"""Batches with equally many examples of each group: a :class:`StratifiedBatchSampler` with ``balanced=True``.

    Every batch has :math:`B^+` examples of :math:`S^+` and :math:`B^-` of :math:`S^-`, each drawn alike from its set,
    so that :math:`\frac{|S^+|}{B^+} \sum_{i \in B^+} f_i` is an unbiased estimate of the sum over :math:`S^+`, and the
    same for :math:`S^-`. That is what ``SMeasure(..., sampling="balanced")`` counts on, with the numbers that each
    batch really has. In an epoch the largest group is visited exactly once and every example at least once, so that
    multipliers and remembered scores of all examples are brought up to date; only ``drop_last`` or ``weight`` give
    that up.

    Args:
        groups: Group of each example, (n,): 0..p-1, or -1 and 1.
        batch_size: Examples per batch; at least the number of groups.
        weight: As for :class:`StratifiedBatchSampler`.
        shuffle: As there.
        drop_last: As there.
        seed: As there.
        rank: As there.
        num_replicas: As there.

    Example:
        >>> sampler = GroupBalancedBatchSampler([0] * 90 + [1] * 10, batch_size=16)
        >>> sampler.quotas, len(sampler)
        ({0: 8, 1: 8}, 12)
    """

    def __init__(
        self,
        groups: Labels,
        batch_size: int,
        *,
        weight: Labels | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
    ) -> None:
        super().__init__(
            whole_labels("groups", groups),
            batch_size,
            balanced=True,
            weight=weight,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=seed,
            rank=rank,
            num_replicas=num_replicas,
        )


def _read_replica(rank: int | None, num_replicas: int | None, batch_size: int) -> tuple[int, int] | None:
    if rank is None and num_replicas is None:
        return None
    if rank is None or num_replicas is None:
        raise InputError(f"Expected `rank` and `num_replicas` to be given together, but got {rank} and {num_replicas}.")
    is_count("num_replicas", num_replicas)
    is_count("rank", rank, 0)
    in_range("rank", rank, 0, num_replicas - 1)
    if batch_size < num_replicas:
        raise InputError(
            f"Expected `batch_size` to be at least {num_replicas}, the number of processes that share each batch, "
            f"but got {batch_size}."
        )
    return int(rank), int(num_replicas)


def _quotas(
    labels: Index, size: int, positives: int | None, fraction: float | None, *, balanced: bool
) -> dict[int, int]:
    """Samples of each class in a whole batch."""
    classes, counts = np.unique(labels, return_counts=True)
    if positives is not None or fraction is not None:
        if balanced:
            raise InputError("Expected `balanced`, or `positives` or `fraction`, but got both.")
        return _binary_quotas(labels, size, positives, fraction)
    if classes.size > size:
        raise InputError(f"Expected `batch_size` to be at least the number of classes, {classes.size}, but got {size}.")
    quotas = np.full_like(counts, size // classes.size if balanced else 1)
    if balanced:
        quotas[np.argsort(-counts, kind="stable")[: size % classes.size]] += 1
    for _ in range(size - quotas.sum()):  # each further place to the class that would need most batches: Adams' method
        quotas[np.argmax(counts / quotas)] += 1
    return {int(c): int(q) for c, q in zip(classes, quotas, strict=True)}


def _binary_quotas(labels: Index, size: int, positives: int | None, fraction: float | None) -> dict[int, int]:
    if positives is not None and fraction is not None:
        raise InputError("Expected `positives` or `fraction`, but got both.")
    all_binary("labels", labels)
    if labels.min() == labels.max():
        raise InputError(f"Expected `labels` to hold 0 and 1 for a quota of positives, but all are {labels[0]}.")
    if size < 2:
        raise InputError(f"Expected `batch_size` to be at least 2, one sample per class, but got {size}.")
    if fraction is not None:
        in_range("fraction", fraction, 0, 1, open_low=True, open_high=True)
        positives = min(max(round(fraction * size), 1), size - 1)
    if positives is not None:
        is_count("positives", positives)
        in_range("positives", positives, 1, size - 1)
        return {0: size - int(positives), 1: int(positives)}
    return {}
