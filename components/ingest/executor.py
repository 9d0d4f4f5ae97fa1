"""Runs the stage `ingest`: parameters and artifacts to one call of `ingest_csv`."""

import json
from typing import Any

from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_executor
from tfx.proto import example_gen_pb2
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils

from components.core.contracts import DataSpec
from components.core.errors import DataError
from components.core.execution import execution_output
from components.ingest.digest import data_digest
from components.ingest.ingest_csv import SPLITS, IngestSummary, ingest_csv


class IngestExecutor(base_executor.BaseExecutor):
    """Executor of `Ingest`."""

    def Do(
        self, input_dict: dict[str, list[types.Artifact]], output_dict: dict[str, list[types.Artifact]], exec_properties: dict[str, Any]
    ) -> execution_result_pb2.ExecutorOutput:
        """Writes the splits and describes them on the artifact and on the execution.

        Raises:
            DataError: see `ingest_csv`; or the data is no longer what `input_digest` says.
        """
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        path, digest = exec_properties["data_path"], exec_properties["input_digest"]
        spec = DataSpec.from_json(exec_properties["data_spec"])
        summary = ingest_csv(path, spec, output_folder=examples.uri, batch_bytes=exec_properties["batch_bytes"])
        if data_digest(path) != digest:
            raise DataError(f"{path}: the data changed after the run was planned (its digest was {digest[:12]}…); start the run again")
        examples.split_names = artifact_utils.encode_split_names(list(SPLITS))
        examples.set_string_custom_property("input_fingerprint", digest)
        examples_utils.set_payload_format(examples, example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE)
        examples_utils.set_file_format(examples, "tfrecords_gzip")
        return execution_output(output_dict, _properties(summary))


def _properties(summary: IngestSummary) -> dict[str, str | int]:
    return {
        "rows": summary.rows,
        **{f"rows_{split}": rows for split, rows in summary.split_rows.items()},
        "class_rows": json.dumps(summary.class_rows, ensure_ascii=False),
        "missing_cells": json.dumps(summary.missing_cells, ensure_ascii=False),
        "skipped_files": json.dumps(summary.skipped_files, ensure_ascii=False),
        "notes": json.dumps(summary.notes, ensure_ascii=False),
    }
