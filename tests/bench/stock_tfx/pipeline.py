"""The peer of the bench: credit_risk as a stock TFX pipeline with Keras alone, as TFX's own documentation teaches it.

TFX's components and runner with their defaults, preprocessing and training given as `module_file`. What it does less than Tandem: one
framework, no tracking, export checks, XLA, slices, intervals or registry. Call: `python pipeline.py FOLDER`; FOLDER/data holds the CSV
file, everything is written below FOLDER.
"""

import sys
from pathlib import Path

import columns
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2
from tfx import v1 as tfx

HERE = Path(__file__).resolve().parent
STEPS_PER_EPOCH = 46
"""The train split has about 2,970 rows: 46 batches of 64."""
EPOCHS = 20
EVAL_STEPS = 23
AUC_FLOOR = 0.8


def _eval_config() -> config_pb2.EvalConfig:
    threshold = config_pb2.MetricThreshold(value_threshold=config_pb2.GenericValueThreshold(lower_bound={"value": AUC_FLOOR}))
    return config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(
                signature_name="serving_default",
                label_key=columns.transformed(columns.LABEL),
                preprocessing_function_names=["transform_features"],
            )
        ],
        slicing_specs=[config_pb2.SlicingSpec()],
        metrics_specs=[config_pb2.MetricsSpec(metrics=[config_pb2.MetricConfig(class_name="AUC", threshold=threshold)])],
    )


def create_pipeline(folder: Path) -> tfx.dsl.Pipeline:
    """CsvExampleGen to Pusher; artifacts, metadata and the pushed model lie below `folder`."""
    gen = tfx.components.CsvExampleGen(input_base=str(folder / "data"))
    statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    validator = tfx.components.ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    transform = tfx.components.Transform(
        examples=gen.outputs["examples"], schema=schema.outputs["schema"], module_file=str(HERE / "preprocessing.py")
    )
    trainer = tfx.components.Trainer(
        module_file=str(HERE / "training.py"),
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=STEPS_PER_EPOCH * EPOCHS),
        eval_args=tfx.proto.EvalArgs(num_steps=EVAL_STEPS),
        custom_config={"steps_per_epoch": STEPS_PER_EPOCH},
    )
    evaluator = tfx.components.Evaluator(examples=gen.outputs["examples"], model=trainer.outputs["model"], eval_config=_eval_config())
    target = tfx.proto.PushDestination(filesystem=tfx.proto.PushDestination.Filesystem(base_directory=str(folder / "serving")))
    pusher = tfx.components.Pusher(model=trainer.outputs["model"], model_blessing=evaluator.outputs["blessing"], push_destination=target)
    return tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=str(folder / "artifacts"),
        components=[gen, statistics, schema, validator, transform, trainer, evaluator, pusher],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(str(folder / "metadata.db")),
    )


def main() -> None:
    """Runs the pipeline; ends with an error when nothing was pushed, which TFX itself would pass over in silence."""
    folder = Path(sys.argv[1]).resolve()
    tfx.orchestration.LocalDagRunner().run(create_pipeline(folder))
    if not any((folder / "serving").glob("*/saved_model.pb")):
        sys.exit(f"nothing was pushed to {folder / 'serving'}: the evaluator did not bless the model")
    (evaluation,) = (folder / "artifacts" / "Evaluator" / "evaluation").iterdir()
    ((_, metrics),) = tfma.load_eval_result(str(evaluation)).slicing_metrics
    sys.stdout.write(f"auc {metrics['']['']['auc']['doubleValue']:.4f}\n")


if __name__ == "__main__":
    main()
