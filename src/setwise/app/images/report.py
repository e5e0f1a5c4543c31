"""Content of the page of a comparison: results, curves, and the protocol in sentences."""

from __future__ import annotations

from setwise.app.images.evaluation import LEVEL, number, row_of, threshold_of
from setwise.app.images.results import Results
from setwise.app.images.training_store import TrainingStore
from setwise.report import Report, Training


def report_of(results: Results, store: TrainingStore) -> Report:
    """The page's content: results, and the stored scores for the plots."""
    settings, measure = results.settings, results.settings.parsed_measure()
    trainings = []
    for run in results.runs:
        scores = store.scores(run["seed"], run["method"])
        history = {name: [number(value) for value in values] for name, values in run["history"].items()}
        tested = scores["test_scores"], scores["test_labels"]
        trainings.append(Training(run["method"], run["seed"], *tested, threshold_of(run), history))
    shown: dict[str, object] = settings.to_dict() | {"positive": results.data["positive"]}
    # None would read as no positives.
    if settings.minority is None:
        shown["minority"] = "as it is"
    return Report(
        title=f"{measure.title} against cross-entropy on {results.data['name']}: {results.data['positive']} or not",
        measure=row_of(measure),
        methods=results.methods,
        rows=results.rows,
        trainings=trainings,
        settings=shown,
        procedure=protocol_sentences(results),
        certificate=results.certificate_lines(),
        facts=_facts(results),
        constraints=results.constraint_rows(),
    )


def _facts(results: Results) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name in ("train", "validation", "test"):
        part = results.draws[0][name]
        facts[f"{name} set, first seed"] = f"{part['size']} examples, {part['positives']} positive"
    for run in results.runs:
        facts[f"epochs, seed {run['seed']}, {run['method']}"] = f"{run['epochs']} (best {run['best_epoch']})"
    facts["training time"] = f"{sum(run['seconds'] for run in results.runs):.0f} s"
    return facts | {f"{name} version": version for name, version in results.versions.items()}


def protocol_sentences(results: Results) -> list[str]:
    """How the networks were trained, chosen and evaluated, in sentences."""
    settings, measure = results.settings, results.settings.parsed_measure()
    share = "Training, validation and test sets have the data's own share of positives."
    if settings.minority is not None:
        share = f"""Positives were dropped at random until they are {100 * settings.minority:g} % of the training,
            validation and test sets alike: the models are evaluated on the distribution they were trained on."""
    recipe = settings.recipe()
    blend = f"{recipe.blend:g} of it plus {1 - recipe.blend:g} of cross-entropy" if recipe.blend < 1 else "it alone"
    if recipe.warm_up:
        blend += f", after {100 * recipe.warm_up:g} % of the training with cross-entropy alone"
    sentences = [
        f"""For each seed both methods have the same training, validation and test sets, the same model with the same
            start, and the same {settings.epochs} epochs at most.""",
        share,
        f"""After each epoch {measure.title} is computed on the whole validation
            set{", at the best threshold there" if measure.at_threshold else ""}. The best is kept, and training stops
            after {settings.patience} without a better one, for both methods alike.""",
        f"""The model of the {measure.title} loss minimizes {blend}.""",
        f"""Each of its batches has at least {100 * settings.batch_positives:g} % positives, repeated within an
            epoch where there are too few; the cross-entropy model sees the classes in their natural share.""",
        f"""The threshold for decisions maximizes {measure.maximize_threshold} on the validation
            set{f" subject to {measure.subject_to}" if measure.subject_to else ""}. The test set is used for the final
            numbers only.""",
        """AUROC and average precision need no threshold; F1 is taken at the one from the validation set; precision at
            recall 0.9 is the best precision on the test curve at a recall of 0.9 or more.""",
        f"""Intervals of {100 * LEVEL:g} % cover seeds (splits, initial weights, order of the batches) and the sampling
            of the test set, with what the test sets of several seeds share counted as shared; they are wide with few
            seeds. The difference is taken within each seed, on the same test rows.""",
    ]
    if settings.certifies:
        sentences.append(
            f"""Constraints are certified with {100 * settings.confidence:.10g} % confidence on half of the validation
            set, which chooses nothing else, if that can certify them; the other half chooses the epoch."""
        )
    return [" ".join(sentence.split()) for sentence in sentences]
