"""Makes the final SavedModel of a candidate: XLA twins, their measurements, warm-up files, and last its identity."""

import dataclasses
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.core.contracts import DataSpec, Framework, ServingSpec, finite_or_none
from components.core.files import sync_directory, sync_tree, tree_digest, tree_size_bytes, write_json
from components.core.measurements import COMPILE_FILE, PARITY_FILE, BucketReport, CompileReport, ParityReport, read_measurement
from components.core.served_model import (
    EDGE_ROWS_FILE,
    SCORES,
    SERVING_DEFAULT,
    SERVING_RAW,
    XLA_SUFFIX,
    raw_batches,
    raw_inputs,
    read_examples,
)
from components.xla_compiler.hlo import Compilations, read_facts, watch_compilations
from components.xla_compiler.isolation import plain_answers_without_xla
from components.xla_compiler.measure import Scores, ask_examples, batches, largest_difference, measure_latency
from components.xla_compiler.twins import bucket_function_name, read_signatures, save_twins
from components.xla_compiler.warmup import write_warmup

NUMERICS_CALLS = 8
"""Calls a bucket in which XLA is held against plain on the eval split; all edge rows are asked, and the largest bucket sees all rows."""
PROBE_ROWS = 7


@dataclasses.dataclass(frozen=True)
class CompileInputs:
    """What a compilation starts from.

    Attributes:
        model: folder of the exporter's SavedModel.
        parity: folder of its `parity.json` and edge rows.
        examples: folder of the eval split (gzip TFRecord of tf.Example).
        framework: of the candidate.
        model_name: name in the warm-up requests: that of the served model.
        data: raw features.
        serving: buckets, service level, tolerance.
    """

    model: Path
    parity: Path
    examples: Path
    framework: Framework
    model_name: str
    data: DataSpec
    serving: ServingSpec


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Rows for measuring: real ones of the eval split and the synthetic edge rows."""

    eval: list[bytes]
    edge: list[bytes]

    def repeated(self, count: int) -> list[bytes]:
        """Exactly `count` rows of the eval split."""
        return (self.eval * (count // len(self.eval) + 1))[:count]


def compile_candidate(inputs: CompileInputs, model_folder: Path, *, report_folder: Path) -> CompileReport:
    """Writes the final SavedModel to `model_folder` and `compile.json` to `report_folder`.

    The tree digest is taken once, over the folder as it stays: from here on bytes are copied, never saved again. A candidate whose parity
    failed is copied as it is; nothing is compiled or checked.

    Raises:
        CompileError: the SavedModel does not follow the contract or XLA did not do what was asked.
    """
    parity = read_measurement(ParityReport, str(inputs.parity), PARITY_FILE)
    temporary = model_folder.with_name(f".{model_folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        if parity.passed:
            report = _compile(inputs, temporary)
        else:
            shutil.copytree(inputs.model, temporary)
            report = _report(inputs, compiled=False, reason=f"not compiled, since parity failed: {parity.reason}")
        sync_tree(temporary)
        shutil.rmtree(model_folder, ignore_errors=True)
        temporary.rename(model_folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_directory(model_folder.parent)
    report = report.model_copy(update={"tree_digest": tree_digest(model_folder), "size_bytes": tree_size_bytes(model_folder)})
    write_json(report_folder / COMPILE_FILE, report.model_dump(mode="json"))
    return report


def _report(inputs: CompileInputs, **found: Any) -> CompileReport:
    machine = f"{platform.machine()}, {os.cpu_count()} processors, TensorFlow {tf.__version__}"
    return CompileReport(
        framework=inputs.framework,
        tree_digest="",
        size_bytes=0,
        xla_tolerance=inputs.serving.xla_tolerance,
        slo_p99_ms=inputs.serving.p99_ms,
        machine=machine,
        **found,
    )


def _compile(inputs: CompileInputs, folder: Path) -> CompileReport:
    save_twins(inputs.model, folder, classes=inputs.data.label.classes, buckets=inputs.serving.batch_buckets)
    rows = _Rows(read_examples(inputs.examples), read_examples(inputs.parity / EDGE_ROWS_FILE))
    write_warmup(
        folder, inputs.model_name, buckets=inputs.serving.batch_buckets, examples=rows.edge, raw=raw_inputs(inputs.data, rows.edge)
    )
    loaded = tf.saved_model.load(str(folder))  # what is measured is what was written
    compile_s, compilations = _first_calls(loaded, inputs, rows)
    differences = [_numerics(loaded, inputs, rows, bucket=bucket) for bucket in inputs.serving.batch_buckets]
    reports = tuple(
        _bucket_report(loaded, inputs, rows.repeated(bucket), compilations=compilations, difference=difference, compile_s=seconds)
        for bucket, difference, seconds in zip(inputs.serving.batch_buckets, differences, compile_s, strict=True)
    )
    probed = [*rows.eval[:PROBE_ROWS], *rows.edge]
    deviation = plain_answers_without_xla(
        folder, signatures=read_signatures(folder), loaded=loaded, examples=probed, raw=raw_inputs(inputs.data, probed)
    )
    judged = [report.within_slo for report in reports if report.within_slo is not None]
    return _report(
        inputs,
        compiled=True,
        buckets=reports,
        xla_numerics_passed=all(difference <= inputs.serving.xla_tolerance for difference in differences),
        slo_passed=all(judged) if judged else None,
        plain_without_xla_passed=not deviation,
        compilations=compilations.count,
        reason=_reason(inputs, reports, compilations=compilations.count, deviation=deviation),
    )


def _first_calls(loaded: Any, inputs: CompileInputs, rows: _Rows) -> tuple[list[float], Compilations]:
    """Makes the first calls, which compile: seconds a bucket, and what XLA did. Later sizes and the second twin must compile nothing."""
    seconds: list[float] = []
    twin = loaded.signatures[SERVING_DEFAULT + XLA_SUFFIX]
    raw_twin = loaded.signatures[SERVING_RAW + XLA_SUFFIX]
    buckets = inputs.serving.batch_buckets

    def run() -> None:
        for bucket in buckets:
            start = time.perf_counter()
            ask_examples(twin, rows.repeated(bucket))
            seconds.append(time.perf_counter() - start)
        for size in sorted({size for bucket in buckets for size in (bucket - 1, bucket + 1) if size > 0}):
            ask_examples(twin, rows.repeated(size))
            raw_twin(**raw_inputs(inputs.data, rows.repeated(size)))

    return seconds, watch_compilations(run)


def _numerics(loaded: Any, inputs: CompileInputs, rows: _Rows, *, bucket: int) -> float:
    """Largest absolute difference of XLA and plain scores over eval and edge rows in batches of a bucket, both signatures."""
    limit = NUMERICS_CALLS if bucket < inputs.serving.batch_buckets[-1] else len(rows.eval)
    found = []
    for examples in (rows.edge, rows.eval):
        raw = raw_batches(inputs.data, examples)

        def by_example(part: slice, examples: Sequence[bytes] = examples) -> tuple[Scores, Scores]:
            plain, xla = (ask_examples(loaded.signatures[SERVING_DEFAULT + suffix], examples[part]) for suffix in ("", XLA_SUFFIX))
            return plain, xla

        def by_feature(part: slice, raw: Callable[[slice], dict[str, Any]] = raw) -> tuple[Scores, Scores]:
            given = raw(part)
            plain, xla = (loaded.signatures[SERVING_RAW + suffix](**given)[SCORES].numpy() for suffix in ("", XLA_SUFFIX))
            return plain, xla

        ranges = list(batches(len(examples), bucket, limit=len(examples) if examples is rows.edge else limit))
        found += [largest_difference(by_example, ranges), largest_difference(by_feature, ranges[:NUMERICS_CALLS])]
    return float(np.max(found))  # NaN stays NaN


def _bucket_report(
    loaded: Any, inputs: CompileInputs, examples: Sequence[bytes], *, compilations: Compilations, difference: float, compile_s: float
) -> BucketReport:
    bucket = len(examples)
    latency = measure_latency(
        loaded.signatures[SERVING_DEFAULT],
        loaded.signatures[SERVING_DEFAULT + XLA_SUFFIX],
        examples,
        enough_ms=inputs.serving.p99_ms if bucket <= inputs.serving.slo_max_batch else math.inf,
    )
    facts = read_facts(compilations.module(bucket_function_name(bucket)))
    return BucketReport(
        batch=bucket,
        **dataclasses.asdict(latency),
        compile_s=compile_s,
        faster="xla" if latency.xla_p50_ms < latency.plain_p50_ms else "plain",
        within_slo=latency.plain_p99_ms <= inputs.serving.p99_ms if bucket <= inputs.serving.slo_max_batch else None,
        largest_absolute_difference=finite_or_none(difference),
        **dataclasses.asdict(facts),
    )


def _reason(inputs: CompileInputs, reports: Sequence[BucketReport], *, compilations: int, deviation: str) -> str:
    """Returns what did not pass, one line; empty when all did."""
    serving = inputs.serving
    reasons = [deviation] if deviation else []
    for report in reports:
        difference = report.largest_absolute_difference
        if difference is None or difference > serving.xla_tolerance:
            shown = "not finite" if difference is None else f"{difference:.3g}"
            reasons.append(f"XLA differs from plain by {shown} at batch {report.batch}, allowed {serving.xla_tolerance:g}")
        if report.within_slo is False:
            reasons.append(f"plain p99 is {report.plain_p99_ms:.1f} ms at batch {report.batch}, allowed {serving.p99_ms:g} ms")
    if compilations != len(reports):
        reasons.append(f"XLA compiled {compilations} times for {len(reports)} buckets")
    return "; ".join(reasons)
