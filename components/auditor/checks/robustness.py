"""What the exported model does with rows that are a little different: a feature left out or shuffled, or a little noise on numbers.

Permutation importance is that of Breiman, Random Forests, Machine Learning 45 (2001): the loss of AUC when the values of one feature are
shuffled.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditor import formulas
from components.auditor.predictions import Score
from components.core.contracts import DataSpec, Feature
from components.core.measurements import Check

MAX_ROWS = 1000
NOISE = 0.01
"""Of a feature's standard deviation."""
_SHOWN = 3
_NUMBERS = ("integer", "number")


@dataclasses.dataclass(frozen=True)
class Sample:
    """Rows that are asked again and again.

    Attributes:
        examples: serialized tf.Examples.
        positives: bool[N].
        scores: float[N] of the positive class, as the rows are.
        threshold: score from which a row is decided positive.
    """

    examples: tuple[bytes, ...]
    positives: npt.NDArray[np.bool_]
    scores: npt.NDArray[Any]
    threshold: float

    def flips(self, scores: npt.NDArray[Any]) -> float:
        """Share of rows that are decided otherwise."""
        return float(np.mean((scores >= self.threshold) != (self.scores >= self.threshold)))


def sample_of(
    examples: Sequence[bytes], positives: npt.NDArray[np.bool_], scores: npt.NDArray[Any], *, threshold: float, seed: int
) -> Sample:
    """At most 1,000 rows, drawn without replacement."""
    chosen = np.arange(len(examples))
    if len(examples) > MAX_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(len(examples), MAX_ROWS, replace=False))
    return Sample(tuple(examples[row] for row in chosen.tolist()), positives[chosen], scores[chosen], threshold)


def robustness_checks(sample: Sample, score: Score, data: DataSpec, *, seed: int) -> tuple[Check, ...]:
    """Decisions that flip, and the importance of every feature.

    Args:
        sample: of `sample_of`.
        score: serialized tf.Examples -> float32[N, C].
        data: names features and the positive class.
        seed: of noise and shuffling.
    """
    if not np.isfinite(sample.scores).all():
        names = ("robustness/noise", "robustness/missing_feature", *(f"importance/{feature.name}" for feature in data.features))
        return tuple(Check(name=name, outcome="not checked", detail="a score is not finite") for name in names)
    positive = data.label.positive_index
    rows = _parsed(sample.examples)
    chance = np.random.default_rng(seed)

    def asked(changed: Sequence[bytes]) -> npt.NDArray[Any]:
        return score(changed)[:, positive]

    numbers = [feature for feature in data.features if feature.kind in _NUMBERS]
    return (
        _noise(sample, asked, rows, numbers, chance=chance),
        _left_out(sample, asked, rows, [feature for feature in data.features if feature.optional]),
        *_importance(sample, asked, rows, data.features, chance=chance),
    )


_Asked = Callable[[Sequence[bytes]], npt.NDArray[Any]]


def _parsed(examples: Sequence[bytes]) -> list[Any]:
    import tensorflow as tf

    return [tf.train.Example.FromString(example) for example in examples]


def _noise(sample: Sample, asked: _Asked, rows: list[Any], numbers: Sequence[Feature], *, chance: np.random.Generator) -> Check:
    name = "robustness/noise"
    if not numbers:
        return Check(name=name, outcome="not checked", detail="there is no numeric feature")
    spread = {feature.name: _spread(rows, feature.name) for feature in numbers}
    changed = []
    for row in rows:
        copy = type(row)()
        copy.CopyFrom(row)
        for feature in numbers:
            _disturb(copy, feature, NOISE * spread[feature.name] * chance.normal())
        changed.append(copy.SerializeToString())
    scores = asked(changed)
    shift = float(np.max(np.abs(scores.astype(np.float64) - sample.scores)))
    detail = f"rows decided otherwise when every number moves by {NOISE:.0%} of its spread; largest change of a score {shift:.3f}"
    return Check(name=name, outcome="measured", value=sample.flips(scores), detail=detail)


def _spread(rows: list[Any], name: str) -> float:
    values = [value for row in rows for value in _values(row, name)]
    return float(np.std(values)) if values else 0.0


def _values(row: Any, name: str) -> Sequence[float]:
    if name not in row.features.feature:
        return ()  # to look at a key of this map makes it
    feature = row.features.feature[name]
    found: Sequence[float] = feature.int64_list.value or feature.float_list.value
    return found


def _disturb(row: Any, feature: Feature, by: float) -> None:
    if feature.name not in row.features.feature:
        return
    cell = row.features.feature[feature.name]
    if feature.kind == "integer":
        # A whole number moves by whole ones, at least by one: less cannot be sent.
        step = int(np.sign(by)) * max(1, round(abs(by)))
        cell.int64_list.value[:] = [value + step for value in cell.int64_list.value]
    else:
        cell.float_list.value[:] = [value + by for value in cell.float_list.value]


def _left_out(sample: Sample, asked: _Asked, rows: list[Any], optional: Sequence[Feature]) -> Check:
    name = "robustness/missing_feature"
    if not optional:
        return Check(name=name, outcome="not checked", detail="no feature may be left out")
    flips = {}
    for feature in optional:
        changed = []
        for row in rows:
            copy = type(row)()
            copy.CopyFrom(row)
            copy.features.feature.pop(feature.name, None)
            changed.append(copy.SerializeToString())
        flips[feature.name] = sample.flips(asked(changed))
    worst = sorted(flips, key=lambda feature: (-flips[feature], feature))
    told = ", ".join(f"{feature} {flips[feature]:.1%}" for feature in worst[:_SHOWN])
    detail = f"rows decided otherwise when one optional feature is left out of all: {told}"
    return Check(name=name, outcome="measured", value=flips[worst[0]], detail=detail)


def _importance(sample: Sample, asked: _Asked, rows: list[Any], features: Sequence[Feature], *, chance: np.random.Generator) -> list[Check]:
    names = [f"importance/{feature.name}" for feature in features]
    if sample.positives.all() or not sample.positives.any():
        return [Check(name=name, outcome="not checked", detail="the rows are of one class only") for name in names]
    before = _auc(sample.scores, sample.positives)
    checks = []
    for feature, name in zip(features, names, strict=True):
        order = chance.permutation(len(rows))
        changed = []
        for row, other in zip(rows, order, strict=True):
            copy = type(row)()
            copy.CopyFrom(row)
            copy.features.feature.pop(feature.name, None)
            if feature.name in rows[other].features.feature:
                copy.features.feature[feature.name].CopyFrom(rows[other].features.feature[feature.name])
            changed.append(copy.SerializeToString())
        loss = before - _auc(asked(changed), sample.positives)
        detail = f"loss of AUC ({before:.4f}) when its values are shuffled among {len(rows)} rows"
        checks.append(Check(name=name, outcome="measured", value=loss, detail=detail))
    return checks


def _auc(scores: npt.NDArray[Any], positives: npt.NDArray[np.bool_]) -> float:
    ranking = formulas.Ranking.of(scores, positives)
    weights = ranking.group_weights(np.ones((1, len(scores))))
    return float(formulas.area_under_roc(*weights)[0])
