"""How the forkserver loads what all stages share, once; `preload` and `preload_cached` say what.

Nothing here may run a TensorFlow operation: threads that it starts would not be there in the children.
"""

import contextlib
import gc
import importlib
import importlib.abc
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

LOG_VARIABLE = "TANDEM_PRELOAD_LOG"

LAUNCHING = (
    "tfx.orchestration.portable.launcher",
    "tfx.dsl.compiler.compiler",
    "pipelines.training",
    "mlflow.artifacts",
    "mlflow.store.tracking.sqlalchemy_store",
    "mlflow.store.model_registry.sqlalchemy_store",
    "components.pusher.push",
)
"""What a stage needs that is taken from the cache, and the pusher, which always runs."""

EXECUTING = (
    "tensorflow_transform",
    "tensorflow_model_analysis",
    "tensorflow_data_validation",
    "apache_beam.runners.portability.fn_api_runner",
    "torch.export",
    "torch._dynamo",
    "pytorch_lightning",
    "mlflow.models",
    "pyarrow.parquet",
    "trainers.keras.fit",
    "trainers.lightning.fit",
    "components.exporter.export",
    "components.xla_compiler.compile",
    "components.auditor.audit",
    "components.registrar.register",
)
"""What the stages that train, export, compile and audit need beside that."""


def preload(modules: Sequence[str], *, hidden: str = "") -> None:
    """Imports `modules` and makes them cheap to inherit.

    What the libraries say while they load goes to the file that TANDEM_PRELOAD_LOG names: it is of no use on a terminal. Children send
    their own output to their own logs.

    Args:
        modules: full names.
        hidden: a package that cannot be imported meanwhile.
    """
    _divert_output()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    # What is loaded here stays to the end of every stage: looking for garbage in it would cost each stage seconds and unshare its pages.
    gc.disable()
    with _hidden(hidden):
        for name in modules:
            importlib.import_module(name)
    importlib.import_module("pipelines.beam_tuning").tune()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    gc.enable()


def _divert_output() -> None:
    log = os.environ.get(LOG_VARIABLE)
    if not log:
        return
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


@contextlib.contextmanager
def _hidden(package: str) -> Iterator[None]:
    if not package:
        yield
        return
    finder = _NotFound(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _NotFound(importlib.abc.MetaPathFinder):
    """Makes a package look as if it were not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuses the package and what is in it; says nothing of others."""
        del path, target
        if fullname.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None
