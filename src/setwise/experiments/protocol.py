"""The protocol of a comparison in sentences: how its models were trained, chosen and evaluated, for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from setwise.experiments.problem import is_table

if TYPE_CHECKING:
    from setwise.experiments.judging import Results
    from setwise.experiments.settings import ComparisonSettings


def judged_sentences(results: Results, level: float) -> list[str]:
    """How the comparison was made, in sentences.

    Args:
        results: The comparison.
        level: Of its intervals.
    """
    settings, measure = results.settings, results.settings.parsed_measure()
    share = "Training, validation and test sets have the data's own share of positives."
    if settings.minority is not None:
        share = f"""Positives were dropped at random until they are {100 * settings.minority:g} % of the training,
            validation and test sets alike: the models are judged on the distribution they were trained on."""
    recipe = settings.recipe()
    blend = f"{recipe.blend:g} of it plus {1 - recipe.blend:g} of cross-entropy" if recipe.blend < 1 else "it alone"
    if recipe.warm_up:
        blend += f", after {100 * recipe.warm_up:g} % of the training with cross-entropy alone"
    batches = f"""Each of its batches has at least {100 * settings.batch_positives:g} % positives, repeated within an
        epoch where there are too few; the cross-entropy model sees the classes in their natural share."""
    sentences = [
        f"""For each seed both methods have the same training, validation and test sets, the same model with the same
            start, and the same {settings.epochs} {_round_name(settings)}s at most.""",
        share,
        f"""After each {_round_name(settings)} {measure.title} is computed on the whole validation
            set{", at the best threshold there" if measure.at_threshold else ""}. The best is kept, and training stops
            after {settings.patience} without a better one, for both methods alike.""",
        f"""The model of the {measure.title} loss minimizes {blend}.""",
        batches if settings.model == "network" else "Each tree is grown on the whole training set at once.",
        f"""The threshold for decisions maximizes {measure.maximize_threshold} on the validation
            set{f" subject to {measure.subject_to}" if measure.subject_to else ""}. The test set is used for the final
            numbers only.""",
        """AUROC and average precision need no threshold; F1 is taken at the one from the validation set; precision at
            recall 0.9 is the best precision on the test curve at a recall of 0.9 or more.""",
        f"""Intervals of {100 * level:g} % cover seeds (splits, initial weights, order of the batches) and the sampling
            of the test set, with what the test sets of several seeds share counted as shared; they are wide with few
            seeds. The difference is taken within each seed, on the same test rows.""",
        *_table_sentences(results),
    ]
    return [" ".join(sentence.split()) for sentence in sentences]


def _table_sentences(results: Results) -> list[str]:
    """What holds for tables, or for some of them."""
    settings, sentences = results.settings, []
    if is_table(settings.data):
        sentences.append(
            "Medians for missing numbers, categories and scales of the columns come from the training rows alone."
        )
    if settings.split is not None:
        sentences.append(f"The sets are those of the column {settings.split}; what it does not name is drawn by seed.")
    if settings.weight is not None:
        sentences.append(f"Losses, thresholds, measures and counts are weighted by the column {settings.weight}.")
    if settings.subject_to:
        trained = "is trained under the constraints, and for" if settings.model == "network" else "and"
        sentences.append(
            f"The {results.methods[1].title} model {trained} both methods the threshold has to meet "
            "them on the validation set, if any does; else it is the one that misses them least."
        )
    if settings.certifies:
        sentences.append(
            f"Constraints are certified with {100 * settings.confidence:.10g} % confidence on half of the validation "
            "set, which chooses nothing else, if that can certify them; the other half chooses the epoch."
        )
    if results.model is not None:
        sentences.append(
            f"The stored model is that of seed {results.model['seed']}, the best on its validation set among those "
            "trained on the measure."
        )
    return sentences


def _round_name(settings: ComparisonSettings) -> str:
    return "epoch" if settings.model == "network" else "round"
