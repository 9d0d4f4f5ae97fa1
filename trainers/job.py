"""One training, typed: read from what TFX's Trainer hands to `run_fn`."""

import dataclasses
import glob
import hashlib
import importlib
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any, Self

import pydantic

from components.core.contracts import Contract, Framework, ModelSpec, TrackingSpec, TrainingSpec
from components.core.errors import TrainingError
from components.core.files import file_digest, tree_digest
from trainers.model_spec import read_model_spec

EXECUTION_KEY = "execution"
_EVAL_ROWS = 512
_DISTRIBUTIONS: dict[Framework, tuple[str, ...]] = {
    "keras": ("tensorflow", "keras", "numpy"),
    "lightning": ("torch", "pytorch-lightning", "tensorflow", "numpy"),
}


def other_trainer_threads() -> int:
    """Threads that leave half of the cores to the other trainer, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


class TrainerConfig(Contract):
    """The `custom_config` of a Trainer.

    Attributes:
        framework: whose trainer it is.
        module: dotted path of the module that holds `build_model(spec, hparams)`.
        label: name of the label among the transformed features (int64 class index).
        classes: class names in the order of the index.
        positive: class on which `val/auc` is taken.
        training: how the model is fitted.
        tracking: where the MLflow run goes.
        code_fingerprint: digest of the use case's and the trainers' sources; part of the cache key and of the input fingerprint.
        checkpoint_root: folder below which an unfinished training waits, outside the pipeline's artifacts.
        dataset_name, dataset_digest: the same in both frameworks, so that MLflow shows that the runs saw the same data; without a
            digest that of the transformed examples is taken.
        threads: threads of one operation.
        cache_bytes: a split up to this size is kept in memory after the first epoch.
        execution: which pipeline run and execution this is; the executor fills it in.
    """

    framework: Framework
    module: str
    label: str
    classes: tuple[str, ...]
    positive: str
    training: TrainingSpec
    tracking: TrackingSpec
    code_fingerprint: str
    checkpoint_root: str
    dataset_name: str
    dataset_digest: str = ""
    threads: int = pydantic.Field(default_factory=other_trainer_threads, ge=1)
    cache_bytes: int = pydantic.Field(default=256 * 1024 * 1024, ge=0)
    execution: dict[str, str] = {}

    def to_custom_config(self) -> dict[str, Any]:
        """The dict for TFX's Trainer; `training` and `tracking` are JSON text in it."""
        plain = json.loads(self.to_json())
        return {**plain, "training": self.training.to_json(), "tracking": self.tracking.to_json()}

    @classmethod
    def from_custom_config(cls, custom_config: dict[str, Any]) -> Self:
        """Reads what `to_custom_config` made.

        Raises:
            TrainingError: a key is missing, unknown or of the wrong kind; the message lists them.
        """
        try:
            nested = {key: json.loads(custom_config[key]) for key in ("training", "tracking") if key in custom_config}
            config = cls.from_json(json.dumps({**custom_config, **nested}))
        except (ValueError, TypeError) as error:
            raise TrainingError(f"the trainer's custom_config cannot be used: {' '.join(str(error).split())}") from error
        if config.positive not in config.classes:
            raise TrainingError(f"custom_config: positive must be one of {list(config.classes)}, not {config.positive!r}")
        return config


@dataclasses.dataclass(frozen=True)
class TrainingJob:
    """Everything that one fit needs.

    Attributes:
        config: the checked `custom_config`.
        spec: features and classes that the model is built from.
        train_files, eval_files: transformed examples, gzip TFRecord, sorted.
        native_folder: where the native model goes.
        facts_folder: where `training_facts.json` goes.
        dataset_digest: of the raw data, or of the transformed examples where that is not known.
        input_fingerprint: 64 hex digits over everything that decides the result: the examples' and the transform graph's bytes, the
            training specification, the code, the framework and its versions. Hardware and thread counts are not in it.
    """

    config: TrainerConfig
    spec: ModelSpec
    train_files: tuple[str, ...]
    eval_files: tuple[str, ...]
    native_folder: Path
    facts_folder: Path
    dataset_digest: str
    input_fingerprint: str

    @classmethod
    def of(cls, fn_args: Any) -> Self:
        """Reads TFX's FnArgs.

        Raises:
            TrainingError: the configuration, the transform graph or the examples cannot be used.
        """
        config = TrainerConfig.from_custom_config(fn_args.custom_config or {})
        if not fn_args.transform_graph_path:
            raise TrainingError("the trainer got no transform graph; give transform_graph=transform.outputs['transform_graph']")
        train_files = _find_files("train", fn_args.train_files)
        eval_files = _find_files("eval", fn_args.eval_files)
        examples = hashlib.sha256("".join(file_digest(path) for path in (*train_files, *eval_files)).encode()).hexdigest()
        return cls(
            config=config,
            spec=read_model_spec(fn_args.transform_graph_path, label=config.label, classes=config.classes),
            train_files=train_files,
            eval_files=eval_files,
            native_folder=Path(fn_args.serving_model_dir),
            facts_folder=Path(fn_args.model_run_dir),
            dataset_digest=config.dataset_digest or examples,
            input_fingerprint=_fingerprint(config, examples, tree_digest(fn_args.transform_graph_path)),
        )

    @property
    def training(self) -> TrainingSpec:
        """How the model is fitted."""
        return self.config.training

    @property
    def stage(self) -> str:
        """Node id, e.g. `keras-trainer`; the framework where no pipeline gave one."""
        return self.config.execution.get("stage") or f"{self.config.framework}-trainer"

    @property
    def eval_batch_size(self) -> int:
        """Rows a batch of the eval split: it has no influence on the result, and fewer calls are faster."""
        return max(_EVAL_ROWS, self.training.batch_size)

    @property
    def positive_index(self) -> int:
        """Class index of the positive class."""
        return self.config.classes.index(self.config.positive)

    @property
    def hparams(self) -> dict[str, Any]:
        """What `build_model(spec, hparams)` receives: the use case's values and `learning_rate`."""
        return {**self.training.model, "learning_rate": self.training.learning_rate}

    def build_model(self) -> Any:
        """Calls the use case's `build_model(spec, hparams)`.

        Raises:
            TrainingError: the module has no such function.
        """
        module = importlib.import_module(self.config.module)
        build = getattr(module, "build_model", None)
        if build is None:
            raise TrainingError(f"{self.stage}: {module.__file__} has no function build_model(spec, hparams); add it")
        return build(self.spec, self.hparams)

    def versions(self) -> dict[str, str]:
        """Distribution -> installed version of what this framework's training rests on."""
        return {name: importlib.metadata.version(name) for name in _DISTRIBUTIONS[self.config.framework]}


def _find_files(split: str, patterns: list[str] | None) -> tuple[str, ...]:
    files = tuple(sorted(path for pattern in patterns or () for path in glob.glob(pattern)))  # noqa: PTH207 - TFX gives patterns
    if not files:
        raise TrainingError(f"no transformed examples for split {split!r} at {patterns}; run the transform stage again")
    return files


def _fingerprint(config: TrainerConfig, examples: str, transform_graph: str) -> str:
    versions = {name: importlib.metadata.version(name) for name in _DISTRIBUTIONS[config.framework]}
    decisive = {
        "code": config.code_fingerprint,
        "examples": examples,
        "framework": config.framework,
        "label": [config.label, *config.classes, config.positive],
        "module": config.module,
        "training": json.loads(config.training.to_json()),
        "transform_graph": transform_graph,
        "versions": versions,
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
