"""Cross-fitting: every candidate on the same folds, so that each row has a score from a model that has not seen it.

Fits run side by side in threads (LightGBM, scikit-learn's trees and BLAS work outside Python's lock), each of them on
one thread, so that the machine is not oversubscribed and the result does not depend on the number of workers. What a
fit finds depends on the rows, the candidate, the fold and the seed alone; so a fit that a store returns from an earlier
run is as good as one made again, to the last bit.

>>> import numpy as np
>>> x = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
>>> rows = Rows.of(x, x[:, 0] > 1)
>>> found = cross_fit(rows, make_folds(rows.y), "ap", candidates_of(["logistic"]))
>>> found["logistic"].logits.shape, len(found["logistic"].scorers)
((200,), 5)
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from setwise._checks import InputError, extra, in_range, is_count
from setwise.app.candidates import Candidate, Rows, candidates_of
from setwise.app.folds import Folds, make_folds
from setwise.app.scorers import Scorer
from setwise.measures import Measure, parse

__all__ = [
    "CandidateFit",
    "CrossFit",
    "Event",
    "FoldResult",
    "FoldStore",
    "candidates_of",
    "cross_fit",
    "make_folds",
    "mean_score",
]


@dataclass(frozen=True, eq=False)
class FoldResult:
    """One candidate fitted for one fold.

    Attributes:
        candidate: Name of the candidate.
        fold: Number of the fold.
        scorer: What was fitted.
        logits: Of the rows that the fold holds out, in their order.
        seconds: CPU time of the fit and of these scores.
    """

    candidate: str
    fold: int
    scorer: Scorer
    logits: NDArray[np.float32]
    seconds: float


class FoldStore(Protocol):
    """Keeps finished fits, so that a run can go on where it was stopped."""

    def load(self, candidate: str, fold: int) -> FoldResult | None:
        """What was stored, or None."""

    def save(self, result: FoldResult) -> None:
        """Store a finished fit; called by one thread at a time."""


@dataclass(frozen=True)
class Event:
    """Something to show as progress.

    Attributes:
        kind: ``"begun"``, ``"done"``, ``"restored"`` or ``"skipped"``.
        candidate: Title of the candidate.
        done: Fits that are finished, restored or skipped so far.
        total: All fits.
    """

    kind: str
    candidate: str
    done: int
    total: int


@dataclass(frozen=True, eq=False)
class CandidateFit:
    """A candidate with its models of all folds.

    Attributes:
        candidate: What it is.
        logits: Out of fold; NaN for rows that no fold holds out.  # shape: (n,)
        scorers: The fold models.
        seconds: CPU time of all of them.
    """

    candidate: Candidate
    logits: NDArray[np.float64]
    scorers: tuple[Scorer, ...]
    seconds: float

    def score(self, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
        """Mean logits of the fold models."""
        return mean_score(self.scorers, inputs)


@dataclass(frozen=True, eq=False)
class CrossFit(Mapping[str, CandidateFit]):
    """All candidates that were finished, from the simplest on, by name.

    Attributes:
        rows: What they were fitted to.
        folds: The folds.
        fits: By name.
        skipped: Candidates that the time limit left out, with the reason.
    """

    rows: Rows
    folds: Folds
    fits: Mapping[str, CandidateFit]
    skipped: Mapping[str, str]

    def __getitem__(self, name: str) -> CandidateFit:
        return self.fits[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)


@dataclass(frozen=True, eq=False)
class _Job:
    """Fits that are made together: one fold of a candidate, or all of one that trains its folds side by side."""

    candidate: Candidate
    folds: tuple[int, ...]
    seed: int


def cross_fit(
    rows: Rows,
    folds: Folds,
    measure: str | Measure,
    candidates: Sequence[Candidate],
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit: float | None = None,
    store: FoldStore | None = None,
    progress: Callable[[Event], None] | None = None,
) -> CrossFit:
    """Fit every candidate to every fold.

    Args:
        rows: All rows.
        folds: Which of them are held out, see :func:`make_folds`.
        measure: The measure, for the candidates that are trained on it.
        candidates: What to fit, simple ones first.
        seed: Of the fits.
        workers: Fits that run side by side; the result is the same for any number.
        time_limit: Seconds of wall time after which no further fit begins. A candidate that lacks a fold is left out;
            the first one is always finished.
        store: Keeps finished fits.
        progress: Told of every fit that begins or ends; called by one thread at a time.

    Raises:
        InputError: When there is no candidate.
    """
    is_count("workers", workers)
    if time_limit is not None:
        in_range("time_limit", time_limit, 0)
    if not candidates:
        raise InputError("Expected at least one candidate, but got none.")
    chosen = parse(measure) if isinstance(measure, str) else measure
    run = _Run(rows, folds, chosen, store, progress, len(candidates) * len(folds))
    results, jobs = run.restore([job for each in candidates for job in _jobs(each, len(folds), seed)])
    deadline = None if time_limit is None else time.monotonic() + time_limit
    for found in run.work(jobs, workers, deadline, always=candidates[0]):
        results |= {(each.candidate, each.fold): each for each in found}
    fits, skipped = {}, {}
    for each in candidates:
        own = [results.get((each.name, k)) for k in range(len(folds))]
        whole = [result for result in own if result is not None]
        if len(whole) == len(own):
            fits[each.name] = _gathered(each, whole, folds)
        else:
            skipped[each.name] = f"{len(own) - len(whole)} of {len(own)} folds had not begun after {time_limit:g} s"
    return CrossFit(rows, folds, fits, skipped)


def mean_score(scorers: Sequence[Scorer], inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean logits of several scorers.  # shape: (n,)."""
    total = np.zeros(len(inputs))
    for scorer in scorers:
        total += scorer.score(inputs)
    return total / len(scorers)


class _Run:
    """The work of one call: what all threads see, and what one of them does at a time."""

    def __init__(
        self,
        rows: Rows,
        folds: Folds,
        measure: Measure,
        store: FoldStore | None,
        progress: Callable[[Event], None] | None,
        total: int,
    ) -> None:
        self.rows, self.folds, self.measure = rows, folds, measure
        self.store, self.progress = store, progress
        self.total, self.done = total, 0
        self.turn = threading.Lock()

    def restore(self, jobs: Sequence[_Job]) -> tuple[dict[tuple[str, int], FoldResult], list[_Job]]:
        """What is stored, and the jobs that are left; fits that are made together are restored together."""
        found: dict[tuple[str, int], FoldResult] = {}
        left = []
        for job in jobs:
            stored = [self.store.load(job.candidate.name, fold) if self.store else None for fold in job.folds]
            whole = {(each.candidate, each.fold): each for each in stored if each is not None}
            if len(whole) == len(job.folds):
                found |= whole
                self.tell("restored", job)
            else:
                left.append(job)
        return found, left

    def work(
        self, jobs: Sequence[_Job], workers: int, deadline: float | None, *, always: Candidate
    ) -> Iterator[list[FoldResult]]:
        """Results of the jobs as they are finished, each stored already."""
        with one_thread(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures: list[Future[list[FoldResult]]] = [
                pool.submit(self._run, job, None if job.candidate is always else deadline) for job in jobs
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:  # an error or an interruption: what has not begun does not begin
                pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: _Job, deadline: float | None) -> list[FoldResult]:
        if deadline is not None and time.monotonic() >= deadline:
            self.tell("skipped", job)
            return []
        self.tell("begun", job)
        begin = time.thread_time()
        scorers = self._fit(job)
        logits = [
            scorer.score(self.rows.x[self.folds.held[fold]]) for scorer, fold in zip(scorers, job.folds, strict=True)
        ]
        seconds = (time.thread_time() - begin) / len(job.folds)
        found = [
            FoldResult(job.candidate.name, fold, scorer, scores, seconds)
            for fold, scorer, scores in zip(job.folds, scorers, logits, strict=True)
        ]
        with self.turn:
            for each in found:
                if self.store is not None:
                    self.store.save(each)
        self.tell("done", job)
        return found

    def _fit(self, job: _Job) -> list[Scorer]:
        if job.candidate.every is not None:
            return job.candidate.fit_folds(self.rows, ~self.folds.train, self.measure, seed=job.seed)
        train = self.folds.train[job.folds[0]]
        return [job.candidate.fit(self.rows.take(train), self.measure, seed=job.seed)]

    def tell(self, kind: str, job: _Job) -> None:
        """Report progress."""
        with self.turn:
            self.done += 0 if kind == "begun" else len(job.folds)
            if self.progress is not None:
                self.progress(Event(kind, job.candidate.title, self.done, self.total))


def _jobs(candidate: Candidate, folds: int, seed: int) -> list[_Job]:
    """The fits of a candidate; its seeds do not depend on which other candidates there are."""
    first = int(np.random.SeedSequence([seed, zlib.crc32(candidate.name.encode())]).generate_state(1)[0]) % 2**30
    if candidate.every is not None:
        return [_Job(candidate, tuple(range(folds)), first)]
    return [_Job(candidate, (k,), first + k) for k in range(folds)]


def _gathered(candidate: Candidate, results: Sequence[FoldResult], folds: Folds) -> CandidateFit:
    logits = np.full(folds.held.shape[1], np.nan)
    for result in results:
        logits[folds.held[result.fold]] = result.logits
    return CandidateFit(
        candidate, logits, tuple(each.scorer for each in results), sum(each.seconds for each in results)
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and torch on one thread each while the fits run side by side; as before afterwards."""
    before = torch.get_num_threads()
    limits = extra("threadpoolctl", "sklearn").threadpool_limits(1)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        limits.restore_original_limits()
