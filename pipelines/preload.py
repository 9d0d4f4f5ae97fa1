"""What the forkserver imports once, so that each stage starts in a fraction of a second."""

import importlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

MODULES = (
    "tfx.orchestration.portable.launcher",
    "tfx.dsl.compiler.compiler",
    "tensorflow_transform",
    "tensorflow_model_analysis",
    "torch.export",
    "mlflow.tracking",
    "pipelines.training",
)

for name in MODULES:
    importlib.import_module(name)
