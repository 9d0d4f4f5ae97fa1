"""Whether the label leaks into the features, or training rows into the eval split.

Each feature alone predicts the label of the eval split by the class shares that its values have in the train split. A feature that does
so almost perfectly usually knows what happened afterwards.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.auditor import formulas
from components.core.contracts import DataSpec
from components.core.measurements import Check
from components.core.served_model import input_name, raw_inputs

AUC_LIMIT, LABEL_AUC = 0.95, 0.999
DUPLICATES_LIMIT = 0.01
MAX_TRAIN_ROWS = 200_000
"""Of the train split that are read: class shares of 20 bins do not get better by more."""
_BINS, _PRIOR_ROWS = 20, 10.0
_SHOWN = 3
_Column = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Raw rows of a split.

    Attributes:
        columns: feature -> float64[N] with NaN for missing, or object[N] of text with "" for missing.
        positives: bool[N].
    """

    columns: Mapping[str, _Column]
    positives: npt.NDArray[np.bool_]

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """A row's features as text: equal rows have equal keys."""
        return list(zip(*(column.astype(str) for column in self.columns.values()), strict=True))


def rows_of(examples: Sequence[bytes], data: DataSpec) -> Rows:
    """Columns of serialized tf.Examples, as `serving_raw` takes them, and their labels."""
    import tensorflow as tf

    inputs = raw_inputs(data, examples)
    columns = {feature.name: _column(inputs[input_name(feature.name)].numpy()) for feature in data.features}
    wanted = {data.label.name: tf.io.FixedLenFeature([], tf.string, default_value="")}
    labels = tf.io.parse_example(tf.constant(list(examples), tf.string), wanted)[data.label.name].numpy()
    return Rows(columns, labels == data.label.classes[data.label.positive_index].encode())


def _column(values: _Column) -> _Column:
    if values.dtype == object:
        return np.array([text.decode("utf-8", "replace") for text in values], object)
    return values.astype(np.float64)


def leakage_checks(train: Rows, held_out: Rows) -> tuple[Check, ...]:
    """Single-feature AUC, label in features, and rows of the eval split that are in the train split too.

    Args:
        train: rows of the train split.
        held_out: rows of the eval split.
    """
    if not len(train.positives) or held_out.positives.all() or not held_out.positives.any():
        reason = "the train split has no row" if not len(train.positives) else "the eval split has one class only"
        names = ("leakage/single_feature_auc", "leakage/label_in_features")
        return (*(Check(name=name, outcome="not checked", detail=reason) for name in names), _duplicates(train, held_out))
    alone = {name: feature_auc(column, train, held_out.columns[name], held_out.positives) for name, column in train.columns.items()}
    best = sorted(alone, key=lambda name: (-alone[name], name))
    told = ", ".join(f"{name} {alone[name]:.3f}" for name in best[:_SHOWN])
    known = [name for name in best if alone[name] >= LABEL_AUC]
    return (
        Check(
            name="leakage/single_feature_auc",
            outcome="failed" if alone[best[0]] > AUC_LIMIT else "passed",
            value=alone[best[0]],
            limit=AUC_LIMIT,
            detail=f"best alone: {told}",
            remedy=f"see whether {best[0]} is known before the decision; if not, leave it out" if alone[best[0]] > AUC_LIMIT else "",
        ),
        Check(
            name="leakage/label_in_features",
            outcome="failed" if known else "passed",
            value=len(known),
            limit=0,
            detail=f"features that give the label away alone (AUC from {LABEL_AUC}): {', '.join(known) or 'none'}",
            remedy="leave them out: they are the label in another form" if known else "",
        ),
        _duplicates(train, held_out),
    )


def feature_auc(known: _Column, train: Rows, column: _Column, positives: npt.NDArray[np.bool_]) -> float:
    """AUC on the eval split of one feature, each value replaced by its class share in the train split.

    Numbers go into at most 20 bins of equal size; a missing value is a bin of its own; shares are drawn to the whole's by 10 rows.
    """
    codes, others = _codes(known, column)
    overall = float(train.positives.mean())
    sizes: collections.Counter[Any] = collections.Counter(codes)
    hits: collections.Counter[Any] = collections.Counter(code for code, positive in zip(codes, train.positives, strict=True) if positive)
    shares = {code: (hits[code] + _PRIOR_ROWS * overall) / (size + _PRIOR_ROWS) for code, size in sizes.items()}
    scores = np.array([shares.get(code, overall) for code in others])
    ranking = formulas.Ranking.of(scores, positives)
    weights = ranking.group_weights(np.ones((1, len(scores))))
    return float(formulas.area_under_roc(*weights)[0])


def _codes(known: _Column, column: _Column) -> tuple[Sequence[Any], Sequence[Any]]:
    if known.dtype == object:
        return known.tolist(), column.tolist()
    present = known[~np.isnan(known)]
    edges = np.unique(np.quantile(present, np.linspace(0, 1, _BINS + 1)[1:-1])) if len(present) else np.empty(0)

    def binned(values: _Column) -> Sequence[Any]:
        return [
            -1 if np.isnan(value) else int(code) for value, code in zip(values, np.searchsorted(edges, values, side="right"), strict=True)
        ]

    return binned(known), binned(column)


def _duplicates(train: Rows, held_out: Rows) -> Check:
    there = set(train.keys)
    count = sum(key in there for key in held_out.keys)
    share = count / max(1, len(held_out.positives))
    return Check(
        name="leakage/rows_in_both_splits",
        outcome="failed" if share > DUPLICATES_LIMIT else "passed",
        value=share,
        limit=DUPLICATES_LIMIT,
        detail=f"{count} of {len(held_out.positives)} eval rows have the features of a row among {len(train.positives)} train rows",
        remedy="rows of one person or event belong into one split; drop repeated rows" if share > DUPLICATES_LIMIT else "",
    )
