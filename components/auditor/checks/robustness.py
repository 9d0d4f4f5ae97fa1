"""What the exported model does with rows that are a little different: a feature left out or shuffled, or a little noise on numbers.

Permutation importance is that of Breiman, Random Forests, Machine Learning 45 (2001): the loss of AUC when the values of one feature are
shuffled.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditor import formulas
from components.core.contracts import DataSpec, Feature
from components.core.measurements import Check
from components.core.served_model import input_name, missing_value, raw_inputs

MAX_ROWS = 1000
NOISE = 0.01
"""Of a feature's standard deviation."""
_SHOWN = 3
_Columns = Mapping[str, npt.NDArray[Any]]
Score = Callable[[_Columns], npt.NDArray[Any]]
"""Input name of `serving_raw` -> column [N], to scores float[N, C]."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows that are asked again and again.

    Attributes:
        inputs: of `serving_raw`: input name -> column [N].
        positives: bool[N].
        scores: float[N] of the positive class, as the rows are.
        threshold: score from which a row is decided positive.
    """

    inputs: _Columns
    positives: npt.NDArray[np.bool_]
    scores: npt.NDArray[Any]
    threshold: float

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.positives)

    def flips(self, scores: npt.NDArray[Any]) -> float:
        """Share of rows that are decided otherwise."""
        return float(np.mean((scores >= self.threshold) != (self.scores >= self.threshold)))


def sample_of(
    data: DataSpec,
    examples: Sequence[bytes],
    *,
    positives: npt.NDArray[np.bool_],
    scores: npt.NDArray[Any],
    threshold: float,
    seed: int,
) -> Sample:
    """At most 1,000 rows, drawn without replacement."""
    chosen = np.arange(len(examples))
    if len(examples) > MAX_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(len(examples), MAX_ROWS, replace=False))
    inputs = {name: tensor.numpy() for name, tensor in raw_inputs(data, [examples[row] for row in chosen.tolist()]).items()}
    return Sample(inputs, positives[chosen], scores[chosen], threshold)


def robustness_checks(sample: Sample, score: Score, data: DataSpec, *, seed: int) -> tuple[Check, ...]:
    """Decisions that flip, and the importance of every feature.

    Args:
        sample: of `sample_of`.
        score: of the model.
        data: names features and the positive class.
        seed: of noise and shuffling.
    """
    if not np.isfinite(sample.scores).all():
        names = ("robustness/noise", "robustness/missing_feature", *(f"importance/{feature.name}" for feature in data.features))
        return tuple(Check(name=name, outcome="not checked", detail="a score is not finite") for name in names)
    chance = np.random.default_rng(seed)

    def asked(changed: _Columns) -> npt.NDArray[Any]:
        return score({**sample.inputs, **changed})[:, data.label.positive_index]

    numbers = [feature for feature in data.features if feature.kind != "category"]
    return (
        _noise(sample, asked, numbers, chance),
        _left_out(sample, asked, [feature for feature in data.features if feature.optional]),
        *_importance(sample, asked, data.features, chance),
    )


def _noise(sample: Sample, asked: Score, numbers: Sequence[Feature], chance: np.random.Generator) -> Check:
    name = "robustness/noise"
    if not numbers:
        return Check(name=name, outcome="not checked", detail="there is no numeric feature")
    changed = {}
    for feature in numbers:
        column = sample.inputs[input_name(feature.name)]
        present = column[~np.isnan(column)].astype(np.float64)
        by = NOISE * (np.std(present) if len(present) else 0.0) * chance.normal(size=len(column))
        if feature.kind == "integer":
            # A whole number moves by whole ones, at least by one: less cannot be sent.
            by = np.sign(by) * np.maximum(1.0, np.round(np.abs(by)))
        changed[input_name(feature.name)] = (column + by).astype(column.dtype)
    scores = asked(changed)
    shift = float(np.max(np.abs(scores.astype(np.float64) - sample.scores)))
    detail = f"rows decided otherwise when every number moves by {NOISE:.0%} of its spread; largest change of a score {shift:.3f}"
    return Check(name=name, outcome="measured", value=sample.flips(scores), detail=detail)


def _left_out(sample: Sample, asked: Score, optional: Sequence[Feature]) -> Check:
    name = "robustness/missing_feature"
    if not optional:
        return Check(name=name, outcome="not checked", detail="no feature may be left out")
    flips = {}
    for feature in optional:
        key = input_name(feature.name)
        missing = missing_value(feature)
        column = np.full(sample.size, missing.encode() if isinstance(missing, str) else missing, sample.inputs[key].dtype)
        flips[feature.name] = sample.flips(asked({key: column}))
    worst = sorted(flips, key=lambda feature: (-flips[feature], feature))
    told = ", ".join(f"{feature} {flips[feature]:.1%}" for feature in worst[:_SHOWN])
    detail = f"rows decided otherwise when one optional feature is left out of all: {told}"
    return Check(name=name, outcome="measured", value=flips[worst[0]], detail=detail)


def _importance(sample: Sample, asked: Score, features: Sequence[Feature], chance: np.random.Generator) -> list[Check]:
    names = [f"importance/{feature.name}" for feature in features]
    if sample.positives.all() or not sample.positives.any():
        return [Check(name=name, outcome="not checked", detail="the rows are of one class only") for name in names]
    before = _auc(sample.scores, sample.positives)
    checks = []
    for feature, name in zip(features, names, strict=True):
        key = input_name(feature.name)
        loss = before - _auc(asked({key: chance.permutation(sample.inputs[key])}), sample.positives)
        detail = f"loss of AUC ({before:.4f}) when its values are shuffled among {sample.size} rows"
        checks.append(Check(name=name, outcome="measured", value=loss, detail=detail))
    return checks


def _auc(scores: npt.NDArray[Any], positives: npt.NDArray[np.bool_]) -> float:
    ranking = formulas.Ranking.of(scores, positives)
    weights = ranking.group_weights(np.ones((1, len(scores))))
    return float(formulas.area_under_roc(*weights)[0])
