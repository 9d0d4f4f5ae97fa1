"""All checks of one candidate."""

import dataclasses
from pathlib import Path
from typing import Any

from components.auditor.checks.calibration import calibration_checks
from components.auditor.checks.fairness import fairness_checks, groups_of
from components.auditor.checks.graph import graph_checks
from components.auditor.checks.leakage import MAX_TRAIN_ROWS, leakage_checks, rows_of
from components.auditor.checks.parameters import parameter_checks
from components.auditor.checks.robustness import robustness_checks, sample_of
from components.auditor.predictions import LoadedModel, Predictions, read_serialized
from components.core.contracts import AuditSpec, DataSpec
from components.core.measurements import TrainingFacts


@dataclasses.dataclass(frozen=True)
class Material:
    """What is looked at beside the predictions.

    Attributes:
        saved_model: folder of the candidate.
        model: the candidate, loaded.
        examples: serialized tf.Examples of the eval split, in the order of the predictions.
        train_split: folder of raw tf.Examples.
        training: what its training wrote down.
    """

    saved_model: Path
    model: LoadedModel
    examples: tuple[bytes, ...]
    train_split: Path
    training: TrainingFacts


def gather(scored: Predictions, data: DataSpec, audit: AuditSpec, material: Material) -> dict[str, Any]:
    """Looks at everything; blesses nothing.

    Returns:
        `checks`, `reliability` and `groups` of the AuditReport.
    """
    own, positives = scored.scores[:, scored.positive], scored.positives
    calibrated, bins = calibration_checks(own, positives)
    groups = groups_of(own, positives, scored.slices, threshold=audit.operating_threshold, min_size=audit.min_slice_size)
    positive = scored.classes[scored.positive]
    negative = " or ".join(name for name in scored.classes if name != positive)
    sample = sample_of(data, material.examples, positives=positives, scores=own, threshold=audit.operating_threshold, seed=audit.seed)
    train = read_serialized(material.train_split, at_most=MAX_TRAIN_ROWS)
    checks = (
        *calibrated,
        *fairness_checks(groups, classes=(negative, positive)),
        *leakage_checks(rows_of(train, data), rows_of(material.examples, data)),
        *robustness_checks(sample, material.model.score_raw, data, seed=audit.seed),
        *parameter_checks(material.training),
        *graph_checks(material.saved_model),
    )
    return {"checks": checks, "reliability": bins, "groups": groups}
