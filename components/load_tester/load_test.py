"""Measures a SavedModel as a stock model server runs it: TensorFlow's C++ loader, a fresh process, XLA off, warm-up requests."""

import base64
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.core.errors import GateError
from components.core.files import tree_digest
from components.core.isolated_session import ask, request
from components.core.promotion import LoadBatch, LoadReport, ProductionSpec
from components.core.served_model import EXAMPLES, EXTRA_ASSETS, SERVING_DEFAULT, WARMUP_FILE

CALLS = 400
ROUNDS = 3
"""A machine that is busy with something else shows in the p99: the calmest of so many rounds is taken, and their number is told."""


def load_test(saved_model: Path, *, digest: str, production: ProductionSpec) -> LoadReport:
    """Loads the bytes, asks each of their warm-up requests many times, and holds the answers against the service level.

    Args:
        saved_model: folder.
        digest: that it has to have.
        production: the limits.

    Raises:
        GateError: other bytes, or no warm-up requests to measure with.
        StageError: it does not load.
    """
    if tree_digest(saved_model) != digest:
        raise GateError(f"the SavedModel in {saved_model} is not the approved one ({digest}); nothing was measured")
    questions = list(_questions(saved_model))
    if not questions:
        raise GateError(f"{saved_model / EXTRA_ASSETS / WARMUP_FILE} holds no requests: nothing to measure with; export the model again")
    answers, batches, faults = _measure(saved_model, questions, production)
    example, scores = _first_example(questions, answers)
    slow = [batch for batch in batches if batch.judged and batch.p99_ms > production.p99_ms]
    faults += [f"{batch.signature} at batch {batch.batch}: p99 {batch.p99_ms:.2f} ms, limit {production.p99_ms:g} ms" for batch in slow]
    rare = [batch for batch in batches if batch.batch == 1 and batch.requests_per_s < production.min_requests_per_s]
    limit = production.min_requests_per_s
    faults += [f"{batch.signature} answers {batch.requests_per_s:.1f} requests/s, at least {limit:g} are asked for" for batch in rare]
    return LoadReport(
        digest=digest,
        passed=not faults,
        reason="; ".join(faults),
        batches=tuple(batches),
        p99_limit_ms=production.p99_ms,
        min_requests_per_s=limit,
        machine=f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        example=example,
        scores=scores,
    )


def _questions(saved_model: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(signature, input name -> values [N]) of each warm-up request."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path = saved_model / EXTRA_ASSETS / WARMUP_FILE
    if not path.is_file():
        return
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        asked = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        yield asked.model_spec.signature_name, {name: tf.make_ndarray(tensor) for name, tensor in asked.inputs.items()}


def _measure(
    saved_model: Path, questions: Sequence[tuple[str, Mapping[str, Any]]], production: ProductionSpec
) -> tuple[list[Any], list[LoadBatch], list[str]]:
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString((saved_model / "saved_model.pb").read_bytes()).meta_graphs[0]
    asked = [request(graph.signature_def[key], inputs, repeats=CALLS) for key, inputs in questions]
    rows = [len(next(iter(inputs.values()))) for _, inputs in questions]
    best: list[LoadBatch | None] = [None] * len(questions)
    answers: list[Any] = []
    faults: list[str] = []
    for number in range(1, ROUNDS + 1):
        answers = ask(saved_model, asked)
        faults = [f"{key}: {said['error'][:300]}" for (key, _), said in zip(questions, answers, strict=True) if "error" in said]
        faults += [
            f"{key}: a score is not finite"
            for (key, _), said in zip(questions, answers, strict=True)
            if not np.isfinite(said.get("scores", 0.0)).all()
        ]
        if faults:
            break
        for place, ((key, _), said) in enumerate(zip(questions, answers, strict=True)):
            batch = _batch(key, rows[place], said["latencies_ms"], judged=rows[place] <= production.max_batch, number=number)
            kept = best[place]
            if kept is None or batch.p99_ms < kept.p99_ms:
                best[place] = batch
        if all(batch is not None and (not batch.judged or batch.p99_ms <= production.p99_ms) for batch in best):
            break
    return answers, [batch for batch in best if batch is not None], faults


def _batch(signature: str, rows: int, latencies_ms: Sequence[float], *, judged: bool, number: int) -> LoadBatch:
    p50, p99 = np.percentile(latencies_ms, [50, 99])
    rate = 1000 * len(latencies_ms) / math.fsum(latencies_ms)
    return LoadBatch(
        signature=signature,
        batch=rows,
        calls=len(latencies_ms),
        rounds=number,
        p50_ms=round(float(p50), 4),
        p99_ms=round(float(p99), 4),
        requests_per_s=round(rate, 2),
        judged=judged,
    )


def _first_example(questions: Sequence[tuple[str, Mapping[str, Any]]], answers: Sequence[Any]) -> tuple[str, tuple[float, ...]]:
    """The first row of `serving_default` and what the model answered to it; empty where it answered nothing."""
    for (key, inputs), said in zip(questions, answers, strict=True):
        if key == SERVING_DEFAULT and "scores" in said and np.isfinite(said["scores"]).all():
            return base64.b64encode(inputs[EXAMPLES][0]).decode(), tuple(said["scores"][0])
    return "", ()
