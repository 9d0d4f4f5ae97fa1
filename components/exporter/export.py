"""Exports one native model to the served-model contract and checks it against the native model."""

import dataclasses
import shutil
from pathlib import Path

import tensorflow as tf

from components.core.contracts import DataSpec, Framework, ServingSpec
from components.core.errors import ExportError
from components.core.files import sync_directory, sync_tree, write_json
from components.core.measurements import PARITY_FILE, ParityReport
from components.core.served_model import EDGE_ROWS_FILE, read_examples, write_examples
from components.exporter.edge_rows import make_edge_rows
from components.exporter.native import framework_of, load_native
from components.exporter.parity import check_parity, edge_rows, eval_rows
from components.exporter.plain_ops import count_ops
from components.exporter.serving import ServedModel, TransformGraph, save_served_model


@dataclasses.dataclass(frozen=True)
class ExportInputs:
    """What an export starts from.

    Attributes:
        native: folder with `native.json` and the weights.
        transform: folder of the transform graph.
        examples: folder of the eval split (gzip TFRecord of tf.Example).
        framework: of the native model.
        data: raw features and label.
        serving: tolerances.
    """

    native: Path
    transform: Path
    examples: Path
    framework: Framework
    data: DataSpec
    serving: ServingSpec


def export(inputs: ExportInputs, model_folder: Path, *, report_folder: Path) -> ParityReport:
    """Writes the SavedModel to `model_folder` and `parity.json` with the edge rows to `report_folder`.

    A model that does not agree with its native form is written all the same, and its report says passed=false: that candidate is
    stopped by what comes after.

    Raises:
        ExportError: the model cannot be brought to the contract at all.
    """
    native = load_native(inputs.native)
    framework_of(native, inputs.framework)
    if native.description.spec.classes != inputs.data.label.classes:
        raise ExportError(
            f"the native model was trained for classes {list(native.description.spec.classes)}, "
            f"the data has {list(inputs.data.label.classes)}; train again"
        )
    transform = TransformGraph(inputs.transform, inputs.data)
    model = ServedModel(transform, native.scorer, data=inputs.data, model=native.description.spec)
    save_whole(model, model_folder)
    ops = count_ops(model_folder)
    examples = read_examples(inputs.examples)
    edges = make_edge_rows(inputs.data, examples)
    report = check_parity(
        native,
        transform,
        tf.saved_model.load(str(model_folder)),
        data=inputs.data,
        rows=[eval_rows(examples), edge_rows(edges)],
        tolerance=inputs.serving.parity_tolerance,
    ).model_copy(update={"ops": ops})
    write_examples(report_folder / EDGE_ROWS_FILE, [edge.example for edge in edges])
    write_json(report_folder / PARITY_FILE, report.model_dump(mode="json"))
    return report


def save_whole(model: ServedModel, folder: Path) -> None:
    """Saves to a temporary name beside `folder`, syncs and renames, so that no half SavedModel is ever seen."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        save_served_model(model, temporary)
        sync_tree(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_directory(folder.parent)
