"""Cross-fitting: every candidate on the same folds, so that each row has a score from a model that has not seen it.

Fits run side by side in threads (LightGBM, scikit-learn's trees and BLAS work outside Python's lock), each of them on
one thread, so that the machine is not oversubscribed and the result does not depend on the number of workers. What a
fit finds depends on the rows, the candidate, the fold and the seed alone; so a fit that a store returns from an earlier
run is as good as one made again, to the last bit.

With several classes every candidate is fitted for each of them against the others, all on the same folds.

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
from setwise.app.reproducible import torch_threads
from setwise.app.scorers import Scorer, mean_score
from setwise.measures import Measure, parse

__all__ = [
    "CandidateFit",
    "CrossFit",
    "Event",
    "FoldResult",
    "FoldStore",
    "OneAgainstRest",
    "candidates_of",
    "cross_fit",
    "cross_fit_classes",
    "gathered",
    "make_folds",
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


@dataclass(frozen=True, eq=False)
class OneAgainstRest:
    """One class against the others.

    Attributes:
        rows: All rows, label 1 those of the class.
        title: What the class is called in progress; empty for the only one.
        store: Keeps finished fits.
    """

    rows: Rows
    title: str = ""
    store: FoldStore | None = None


@dataclass(frozen=True)
class Event:
    """Something to show as progress.

    Attributes:
        kind: ``"begun"``, ``"done"``, ``"restored"`` or ``"skipped"``.
        candidate: Title of the candidate, and of the class where there are several.
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
    head: int  # the class that is told from the others; 0 where there is only one problem


_Results = dict[tuple[int, str, int], FoldResult]  # by class, candidate and fold


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
    heads = [OneAgainstRest(rows, store=store)]
    return cross_fit_classes(
        heads, folds, measure, candidates, seed=seed, workers=workers, time_limit=time_limit, progress=progress
    )[0]


def cross_fit_classes(
    heads: Sequence[OneAgainstRest],
    folds: Folds,
    measure: str | Measure,
    candidates: Sequence[Candidate],
    *,
    seed: int = 0,
    workers: int = 1,
    time_limit: float | None = None,
    progress: Callable[[Event], None] | None = None,
) -> list[CrossFit]:
    """Fit every candidate to every fold for every class against the others.

    Args:
        heads: The classes; the rows differ in their labels alone.
        folds: As in :func:`cross_fit`, like all that follow.
        measure: For the candidates that are trained on it.
        candidates: What to fit.
        seed: Of the fits; the same for each class.
        workers: Fits side by side.
        time_limit: A candidate that lacks a fold of any class is left out for all.
        progress: Told of every fit.

    Returns:
        For each class what :func:`cross_fit` returns, with the same candidates.
    """
    is_count("workers", workers)
    if time_limit is not None:
        in_range("time_limit", time_limit, 0)
    if not candidates:
        raise InputError("Expected at least one candidate, but got none.")
    chosen = parse(measure) if isinstance(measure, str) else measure
    run = _Run(heads, folds, chosen, progress, len(candidates) * len(heads) * len(folds))
    results, jobs = run.restore(
        [job for each in candidates for head in range(len(heads)) for job in _jobs(each, len(folds), seed, head)]
    )
    # A clock that is set by hand or by the network meanwhile must not end the run, so the monotonic one.
    deadline = None if time_limit is None else time.monotonic() + time_limit
    for found in run.work(jobs, workers, deadline, always=candidates[0]):
        results |= found
    skipped, whole = {}, []
    for each in candidates:
        keys = [(head, each.name, k) for head in range(len(heads)) for k in range(len(folds))]
        # The mean of some folds' models is not what the out-of-fold scores are of: a part of a candidate is left out.
        lacking = sum(key not in results for key in keys)
        if lacking:
            what = "folds" if len(heads) == 1 else "fits"
            skipped[each.name] = f"{lacking} of {len(keys)} {what} had not begun after {time_limit:g} s"
        else:
            whole.append(each)
    return [
        CrossFit(
            one.rows,
            folds,
            {
                each.name: gathered(each, [results[head, each.name, k] for k in range(len(folds))], folds)
                for each in whole
            },
            skipped,
        )
        for head, one in enumerate(heads)
    ]


class _Run:
    """The work of one call: what all threads see, and what one of them does at a time."""

    def __init__(
        self,
        heads: Sequence[OneAgainstRest],
        folds: Folds,
        measure: Measure,
        progress: Callable[[Event], None] | None,
        total: int,
    ) -> None:
        self.heads, self.folds, self.measure, self.progress = heads, folds, measure, progress
        self.total, self.done = total, 0
        self.turn = threading.Lock()

    def restore(self, jobs: Sequence[_Job]) -> tuple[_Results, list[_Job]]:
        """What is stored, and the jobs that are left; fits that are made together are restored together."""
        found: _Results = {}
        left = []
        for job in jobs:
            store = self.heads[job.head].store
            # One fit call makes all folds of such a job: where one is missing, all of them are made again.
            stored = [store.load(job.candidate.name, fold) if store else None for fold in job.folds]
            whole = _named(job, [each for each in stored if each is not None])
            if len(whole) == len(job.folds):
                found |= whole
                self.tell("restored", job)
            else:
                left.append(job)
        return found, left

    def work(
        self, jobs: Sequence[_Job], workers: int, deadline: float | None, *, always: Candidate
    ) -> Iterator[_Results]:
        """Results of the jobs as they are finished, each stored already."""
        # One thread for each fit: several would wait for the same cores, and their number would decide the last digits.
        with one_thread(), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            futures: list[Future[_Results]] = [
                # The first candidate is exempt from the limit, so that there is a model however short the time.
                pool.submit(self._run, job, None if job.candidate is always else deadline)
                for job in jobs
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:  # an error or an interruption: what has not begun does not begin
                pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: _Job, deadline: float | None) -> _Results:
        if deadline is not None and time.monotonic() >= deadline:
            self.tell("skipped", job)
            return {}
        head = self.heads[job.head]
        self.tell("begun", job)
        # Of this thread alone: wall time would count the fits side by side.
        begin = time.thread_time()
        scorers = self._fit(job)
        logits = [
            scorer.score(head.rows.x[self.folds.held[fold]]) for scorer, fold in zip(scorers, job.folds, strict=True)
        ]
        seconds = (time.thread_time() - begin) / len(job.folds)
        found = [
            FoldResult(job.candidate.name, fold, scorer, scores, seconds)
            for fold, scorer, scores in zip(job.folds, scorers, logits, strict=True)
        ]
        with self.turn:
            # One at a time, so that a store need not care for threads.
            for each in found:
                if head.store is not None:
                    head.store.save(each)
        self.tell("done", job)
        return _named(job, found)

    def _fit(self, job: _Job) -> list[Scorer]:
        rows = self.heads[job.head].rows
        if job.candidate.every is not None:
            return job.candidate.fit_folds(rows, ~self.folds.train, self.measure, seed=job.seed)
        train = self.folds.train[job.folds[0]]
        return [job.candidate.fit(rows.take(train), self.measure, seed=job.seed)]

    def tell(self, kind: str, job: _Job) -> None:
        """Report progress."""
        with self.turn:
            self.done += 0 if kind == "begun" else len(job.folds)
            if self.progress is not None:
                own = self.heads[job.head].title
                title = f"{job.candidate.title}, {own}" if own else job.candidate.title
                self.progress(Event(kind, title, self.done, self.total))


def _named(job: _Job, found: Sequence[FoldResult]) -> _Results:
    return {(job.head, each.candidate, each.fold): each for each in found}


def _jobs(candidate: Candidate, folds: int, seed: int, head: int) -> list[_Job]:
    """The fits of a candidate for one class; its seeds do not depend on which other candidates there are."""
    # A checksum of the name, since Python's hash of a text differs from process to process.
    first = int(np.random.SeedSequence([seed, zlib.crc32(candidate.name.encode())]).generate_state(1)[0]) % 2**30
    if candidate.every is not None:
        return [_Job(candidate, tuple(range(folds)), first, head)]
    return [_Job(candidate, (k,), first + k, head) for k in range(folds)]


def gathered(candidate: Candidate, results: Sequence[FoldResult], folds: Folds) -> CandidateFit:
    """The fits of all folds of a candidate, in their order."""
    # In order of time no fold holds the first rows out.
    logits = np.full(folds.held.shape[1], np.nan)
    for result in results:
        logits[folds.held[result.fold]] = result.logits
    return CandidateFit(
        candidate, logits, tuple(each.scorer for each in results), sum(each.seconds for each in results)
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and torch on one thread each while the fits run side by side; as before afterwards."""
    # OpenMP and BLAS too, which torch's own setting does not reach.
    with extra("threadpoolctl", "sklearn").threadpool_limits(1), torch_threads(1):
        yield
