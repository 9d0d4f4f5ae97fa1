"""TFMA over predictions that are there already: point metrics, slices, thresholds and the ModelEvaluation artifact.

TFMA does not call the models again: each row's extract holds what its predictions extractor would put there, so the same EvalConfig also
runs in TFX's Evaluator on the SavedModels themselves, with the same numbers.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from components.auditor import tfma_metrics
from components.auditor.predictions import Predictions
from components.auditor.slices import WHOLE, Points, SliceId
from components.core.contracts import LOWER_IS_BETTER, METRICS, AuditSpec, DataSpec, slice_feature
from components.core.errors import AuditError

CANDIDATE = "candidate"
CHAMPION = "champion"


def build_eval_config(
    data: DataSpec, audit: AuditSpec, *, judged: Iterable[tuple[str, str, str]] = (), with_champion: bool = False
) -> config_pb2.EvalConfig:
    """The EvalConfig of an audit; it names no framework and no model.

    Args:
        data: gives label, positive class and slice keys.
        audit: gives thresholds.
        judged: (metric, slice key, slice value) on which a slice floor holds; TFMA alone would hold it on slices of any size.
        with_champion: a second model, the baseline, and change thresholds.

    Raises:
        AuditError: there is no absolute threshold.
    """
    if not audit.floors and not audit.ceilings:
        raise AuditError("auditor: the audit has no floors and no ceilings, so it would audit nothing; set [audit.floors] in pipeline.toml")
    judged_slices: dict[str, list[config_pb2.SlicingSpec]] = {}
    for metric, key, value in judged:
        judged_slices.setdefault(metric, []).append(config_pb2.SlicingSpec(feature_values={slice_feature(key): value}))
    models = [config_pb2.ModelSpec(name=CANDIDATE, label_key=data.label.name, signature_name="serving_default")]
    if with_champion:
        models.append(
            config_pb2.ModelSpec(name=CHAMPION, label_key=data.label.name, signature_name="serving_default", is_baseline=True),
        )
    metrics = [_metric_config(name, audit, judged_slices.get(name, []), with_champion=with_champion) for name in METRICS]
    config = config_pb2.EvalConfig(
        model_specs=models,
        slicing_specs=[config_pb2.SlicingSpec(), *(config_pb2.SlicingSpec(feature_keys=[slice_feature(key)]) for key in data.slice_keys)],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=metrics, binarize=config_pb2.BinarizationOptions(class_ids={"values": [data.label.positive_index]})
            ),
            config_pb2.MetricsSpec(metrics=[config_pb2.MetricConfig(class_name="ExampleCount")]),
        ],
    )
    return tfma.utils.update_eval_config_with_defaults(config, has_baseline=with_champion, rubber_stamp=False)


def _metric_config(name: str, audit: AuditSpec, judged: list[config_pb2.SlicingSpec], *, with_champion: bool) -> config_pb2.MetricConfig:
    options = {"name": name, "threshold": audit.operating_threshold}
    config = config_pb2.MetricConfig(class_name="BinaryMetric", module=tfma_metrics.__name__, config=json.dumps(options))
    whole = config_pb2.MetricThreshold()
    if name in audit.floors:
        whole.value_threshold.lower_bound.value = audit.floors[name]
    if name in audit.ceilings:
        whole.value_threshold.upper_bound.value = audit.ceilings[name]
    if with_champion and name in audit.change:
        lower_is_better = name in LOWER_IS_BETTER
        whole.change_threshold.absolute.value = -audit.change[name] if lower_is_better else audit.change[name]
        whole.change_threshold.direction = (
            config_pb2.MetricDirection.LOWER_IS_BETTER if lower_is_better else config_pb2.MetricDirection.HIGHER_IS_BETTER
        )
    if whole.ByteSize():
        config.per_slice_thresholds.add(slicing_specs=[config_pb2.SlicingSpec()], threshold=whole)
    if judged:
        floor = config_pb2.MetricThreshold()
        floor.value_threshold.lower_bound.value = audit.slice_floors[name]
        config.per_slice_thresholds.add(slicing_specs=judged, threshold=floor)
    return config


def run_tfma(
    predictions: Predictions,
    eval_config: config_pb2.EvalConfig,
    pipeline: contextlib.AbstractContextManager[beam.Pipeline],
    *,
    output_path: str,
) -> None:
    """Evaluates `predictions` and writes TFMA's result files below `output_path`.

    Args:
        predictions: the candidate's scores, and the champion's when the EvalConfig has it.
        eval_config: from `build_eval_config`.
        pipeline: a Beam pipeline that runs when its context ends.
        output_path: folder of the ModelEvaluation artifact.
    """
    # A pipeline this small costs what its graph costs: no input counters, and no writers of plots and attributions that nobody asked for.
    slices = tfma.extractors.SliceKeyExtractor(eval_config=eval_config, materialize=False)
    evaluator = tfma.evaluators.MetricsPlotsAndValidationsEvaluator(eval_config=eval_config)
    output_paths = {name: str(Path(output_path) / name) for name in (tfma.METRICS_KEY, tfma.VALIDATIONS_KEY)}
    writers = [
        tfma.writers.EvalConfigWriter(output_path, eval_config=eval_config),
        tfma.writers.MetricsPlotsAndValidationsWriter(output_paths, eval_config=eval_config, output_file_format="tfrecord"),
    ]
    with pipeline as running:
        # Beam would look into every row to guess the type, an eighth of the whole cost.
        create = beam.Create(list(_extracts(predictions, eval_config)), reshuffle=False).with_output_types(tfma.Extracts)
        rows = running | "Predictions" >> create
        results = rows | slices.stage_name >> slices.ptransform | evaluator.stage_name >> evaluator.ptransform
        _ = results | "Write" >> tfma.WriteResults(writers=writers)


def _extracts(predictions: Predictions, eval_config: config_pb2.EvalConfig) -> Iterator[dict[str, Any]]:
    classes = np.array([name.encode() for name in predictions.classes], dtype=object)
    labels = np.array([name.encode() for name in predictions.labels], dtype=object).reshape(-1, 1)
    slices = {
        slice_feature(key): np.array([value.encode() for value in values], dtype=object).reshape(-1, 1)
        for key, values in predictions.slices.items()
    }
    for row in range(predictions.size):
        outputs = {CANDIDATE: {"scores": predictions.scores[row], "classes": classes}}
        if predictions.champion_scores is not None:
            outputs[CHAMPION] = {"scores": predictions.champion_scores[row], "classes": classes}
        yield {
            tfma.FEATURES_KEY: {name: values[row] for name, values in slices.items()},
            tfma.LABELS_KEY: labels[row],
            tfma.PREDICTIONS_KEY: outputs if len(eval_config.model_specs) > 1 else outputs[CANDIDATE],
        }


def read_points(output_path: str, *, champion: bool = False) -> Points:
    """Reads TFMA's metrics of the candidate, or of the champion, from a ModelEvaluation folder.

    Args:
        output_path: folder that `run_tfma` or TFX's Evaluator wrote.
        champion: read the baseline's values.
    """
    prefix = len(slice_feature(""))
    points: Points = {}
    for proto in tfma.load_metrics(output_path):
        columns = [(column.column[prefix:], column.bytes_value.decode()) for column in proto.slice_key.single_slice_keys]
        values = points.setdefault(columns[0] if columns else WHOLE, {})
        for pair in proto.metric_keys_and_values:
            if pair.key.is_diff or (pair.key.model_name == CHAMPION) != champion:
                continue
            if pair.key.name in METRICS or pair.key.name == "example_count":
                values[pair.key.name] = pair.value.double_value.value
    return points


def read_failures(output_path: str) -> set[tuple[SliceId, str]]:
    """(slice, metric) of every threshold that TFMA's own validation found broken."""
    prefix = len(slice_feature(""))
    failures: set[tuple[SliceId, str]] = set()
    for validation in tfma.load_validation_result(output_path).metric_validations_per_slice:
        columns = [(column.column[prefix:], column.bytes_value.decode()) for column in validation.slice_key.single_slice_keys]
        failures |= {(columns[0] if columns else WHOLE, failure.metric_key.name) for failure in validation.failures}
    return failures
