"""The binary metrics of the contract as a TFMA metric; an EvalConfig names it by class and module, and TFX's Evaluator takes it too.

Why not TFMA's own: its AUC counts scores in 10,000 buckets and gives 0.0 for one class; its BinaryCrossEntropy is NaN for a score of
exactly 0 or 1, which a float32 softmax reaches; its confusion matrix counts a NaN score as a negative in silence; and each of them reads
every row again in every slice. This one reads a row once, before the slices, and is exact; it holds the rows of all slices in memory.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from components.auditor import formulas
from components.core.contracts import METRICS

_Rows = list[tuple[float, float]]


class LabelAndScore(metric_types.Preprocessor):
    """Turns an example's extracts into (label, score) of one class, by TFMA's own look-up of the label among the model's `classes`."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any) -> None:
        super().__init__(name=f"label_and_score:{key.model_name}:{key.sub_key}")
        self._key = key
        self._eval_config = eval_config

    def process(self, extracts: dict[str, Any]) -> Iterator[tuple[float, float]]:
        """One pair an example: label 0.0 or 1.0, score 0 to 1."""
        for label, score, _ in metric_util.to_label_prediction_example_weight(
            metric_util.to_standard_metric_inputs(extracts),
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            sub_key=self._key.sub_key,
        ):
            yield float(label.item()), float(score.item())


class RowsCombiner(beam.CombineFn):
    """Collects (label, score) of every row of a slice and takes all metrics from them; all NaN if a score is not finite."""

    def __init__(self, keys: dict[str, metric_types.MetricKey], threshold: float) -> None:
        self._keys = keys
        self._threshold = threshold

    def create_accumulator(self) -> _Rows:
        """No row."""
        return []

    def add_input(self, accumulator: _Rows, element: tuple[float, float]) -> _Rows:
        """Adds one row."""
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Rows]) -> _Rows:
        """Joins the rows of parts."""
        return [row for rows in accumulators for row in rows]

    def extract_output(self, accumulator: _Rows) -> dict[metric_types.MetricKey, float]:
        """Metric -> value, NaN where undefined."""
        labels, scores = np.array(accumulator, dtype=np.float64).reshape(-1, 2).T
        if not len(scores) or not np.isfinite(scores).all():
            return dict.fromkeys(self._keys.values(), float("nan"))
        values = formulas.resampled_metrics(scores, labels > 0, np.ones((1, len(scores))), threshold=self._threshold)
        return {key: float(values[name][0]) for name, key in self._keys.items()}


def _computations(
    name: str,
    threshold: float = 0.5,
    eval_config: Any = None,
    model_name: str = "",
    sub_key: Any = None,
) -> list[Any]:
    del name  # every metric of the model comes from the same pass
    where = {"model_name": model_name, "sub_key": sub_key, "example_weighted": False}
    keys = {metric: metric_types.MetricKey(name=metric, **where) for metric in METRICS}
    row = LabelAndScore(keys[METRICS[0]], eval_config)
    # TFMA drops computations that are alike, so the metrics of one model share one pass.
    return [metric_types.MetricComputation(keys=list(keys.values()), preprocessors=[row], combiner=RowsCombiner(keys, threshold))]


class BinaryMetric(metric_types.Metric):
    """One metric of `contracts.METRICS` on the class that the MetricsSpec binarizes to.

    Args:
        name: the metric.
        threshold: score from which a row counts as positive; the same for all metrics of an EvalConfig.
    """

    def __init__(self, name: str, threshold: float = 0.5) -> None:
        super().__init__(metric_util.merge_per_key_computations(_computations), name=name, threshold=threshold)


metric_types.register_metric(BinaryMetric)
