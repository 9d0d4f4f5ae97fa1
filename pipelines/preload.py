"""What the forkserver imports once, so that each stage starts in a fraction of a second.

Nothing here may run a TensorFlow operation: threads that it starts would not be there in the children.
"""

import importlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

MODULES = (
    "tfx.orchestration.portable.launcher",
    "tfx.dsl.compiler.compiler",
    "tensorflow_transform",
    "tensorflow_model_analysis",
    "tensorflow_data_validation",
    "apache_beam.runners.portability.fn_api_runner",
    "torch.export",
    "torch._dynamo",
    "pytorch_lightning",
    "mlflow.artifacts",
    "mlflow.models",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.model_registry.sqlalchemy_store",
    "pyarrow.parquet",
    "pipelines.training",
    "trainers.keras.fit",
    "trainers.lightning.fit",
    "components.exporter.export",
    "components.xla_compiler.compile",
    "components.auditor.audit",
    "components.registrar.register",
    "components.pusher.push",
)

for name in MODULES:
    importlib.import_module(name)
