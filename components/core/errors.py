"""The tree of errors. Each carries one line for people: what, where, the limit, the remedy.

TandemError (exit code 2)
├── ConfigError        pipeline.toml: file, key, allowed
├── DataError          a cell, row or file of the input: file, line, column, value
├── EnvironmentFault   this machine: Python, C library, disk, a port
├── StoreError         ML Metadata, MLflow or the artifact folders cannot be used
├── StageError         a stage failed: stage, cause, remedy
│   ├── TrainingError  a model class that raises, a loss that is not finite
│   ├── ExportError    a model that cannot be turned into the served-model contract
│   ├── CompileError   XLA twins cannot be made
│   ├── AuditError     an evaluation that cannot be made or was asked for nothing
│   ├── PushError      a version that may not or cannot be written to a model server
│   └── GateError      a promotion that the ledger does not cover, or whose bytes are others
├── DecisionError      a decision that would not count, a ledger that does not hold
├── ServingError       a model server or router that does not do what it was asked for
└── RegistryError      the model registry refuses or does not know
Interrupted (exit code 130)
"""

EXIT_FAULT = 2
EXIT_NOTHING_BLESSED = 3
EXIT_INTERRUPTED = 130


class TandemError(Exception):
    """A fault that is explained in one line; `str(error)` is that line."""

    exit_code = EXIT_FAULT


class ConfigError(TandemError):
    """A configuration that cannot be used."""


class DataError(TandemError):
    """Input data that cannot be used."""


class EnvironmentFault(TandemError):
    """This machine or its Python environment lacks something."""


class StoreError(TandemError):
    """A store (ML Metadata, MLflow, artifact folders) cannot be used."""


class StageError(TandemError):
    """A stage of the pipeline failed."""


class TrainingError(StageError):
    """A model could not be fitted."""


class ExportError(StageError):
    """A model could not be exported to the served-model contract."""


class CompileError(StageError):
    """XLA twins could not be compiled."""


class AuditError(StageError):
    """A candidate could not be audited."""


class PushError(StageError):
    """A version could not be pushed to a model server's directory."""


class GateError(StageError):
    """A promotion was refused."""


class DecisionError(TandemError):
    """A decision cannot be entered."""


class ServingError(TandemError):
    """A model server or a router does not do what it was asked for."""


class RegistryError(TandemError):
    """The model registry refused, or does not know what was asked for."""


class Interrupted(TandemError):
    """The user ended the run."""

    exit_code = EXIT_INTERRUPTED
