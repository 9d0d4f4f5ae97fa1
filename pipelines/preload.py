"""What the forkserver imports once, so that each stage starts in a fraction of a second.

Nothing here may run a TensorFlow operation: threads that it starts would not be there in the children.
"""

import importlib
import os

LOG_VARIABLE = "TANDEM_PRELOAD_LOG"

log = os.environ.get(LOG_VARIABLE)
if log:
    # What the libraries say while they load is of no use on a terminal; children send their own output to their own logs.
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
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
