"""A pipeline as data: stages, what each needs, and the parameters that decide its result.

`training.py` turns this into TFX components; `tandem why` compares two of them. Nothing heavy is imported here.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping

from components.core.contracts import FRAMEWORKS, Champion, Framework
from components.core.errors import ConfigError
from pipelines.config import PipelineConfig
from pipelines.fingerprint import code_fingerprint, lock_digest, model_sources, shared_sources, stage_fingerprint

Parameters = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class StagePlan:
    """One stage.

    Attributes:
        name: node id.
        upstream: stages whose outputs it takes.
        parameters: name -> text; with the upstream outputs they decide the result.
        always_runs: never taken from the cache.
    """

    name: str
    upstream: tuple[str, ...]
    parameters: Parameters
    always_runs: bool = False

    def digest(self) -> str:
        """SHA-256 of the parameters."""
        return hashlib.sha256(json.dumps(dict(self.parameters), sort_keys=True).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class PipelinePlan:
    """All stages in the order of the data."""

    stages: tuple[StagePlan, ...]

    def names(self) -> tuple[str, ...]:
        """Stage names in the order of the data."""
        return tuple(stage.name for stage in self.stages)

    def __getitem__(self, name: str) -> StagePlan:
        return next(stage for stage in self.stages if stage.name == name)

    def parameters(self, name: str) -> Parameters:
        """Parameters of one stage."""
        return self[name].parameters

    def between(self, first: str | None, last: str | None) -> tuple[str, ...]:
        """Stages at or after `first` and at or before `last`, by the flow of data.

        Raises:
            ConfigError: an unknown stage, or nothing lies between.
        """
        for name in (first, last):
            if name is not None and name not in self.names():
                raise ConfigError(f"no stage {name!r}; stages: {', '.join(self.names())}")
        after = self.closure([first], downstream=True) if first else set(self.names())
        before = self.closure([last], downstream=False) if last else set(self.names())
        chosen = tuple(name for name in self.names() if name in after & before)
        if not chosen:
            raise ConfigError(f"no stage lies between {first!r} and {last!r}; the order is {', '.join(self.names())}")
        return chosen

    def closure(self, names: Iterable[str], *, downstream: bool) -> set[str]:
        """`names` and everything that takes their outputs (or that they take outputs of)."""
        found = set(names)
        order = self.stages if downstream else tuple(reversed(self.stages))
        for stage in order:
            if downstream and found.intersection(stage.upstream):
                found.add(stage.name)
            if not downstream and stage.name in found:
                found.update(stage.upstream)
        return found


def plan_training(config: PipelineConfig, *, data_digest: str, champion: Champion | None = None) -> PipelinePlan:
    """Plans the training pipeline of a use case.

    Args:
        config: the checked configuration.
        data_digest: SHA-256 of the input (components.ingest.digest).
        champion: the production model that relative checks compare with, when there is one.
    """
    stages = [*_data_stages(config, data_digest)]
    for framework in FRAMEWORKS:
        stages += _candidate_stages(config, framework, data_digest, champion)
    stages.append(_pusher(config))
    order = {stage.name: number for number, stage in enumerate(stages)}
    kinds = ("trainer", "exporter", "xla-compiler", "auditor", "registrar", "pusher")
    rank = {stage.name: next((i for i, kind in enumerate(kinds) if stage.name.endswith(kind)), -1) for stage in stages}
    return PipelinePlan(tuple(sorted(stages, key=lambda stage: (rank[stage.name], order[stage.name]))))


def _data_stages(config: PipelineConfig, data_digest: str) -> list[StagePlan]:
    spec = config.data_spec.to_json()
    return [
        StagePlan(
            "ingest",
            (),
            {
                "data_path": str(config.data_path),
                "data_spec": spec,
                "input_digest": data_digest,
                "code_fingerprint": stage_fingerprint("components/ingest"),
            },
        ),
        StagePlan("statistics", ("ingest",), {}),
        StagePlan("schema", ("statistics",), {}),
        StagePlan("validation", ("statistics", "schema"), {}),
        StagePlan(
            "transform",
            ("ingest", "schema"),
            {
                "preprocessing_fn": f"{config.use_case.module('features')}.preprocessing_fn",
                "code_fingerprint": code_fingerprint(*shared_sources(config.use_case)),
            },
        ),
    ]


def _candidate_stages(config: PipelineConfig, framework: Framework, data_digest: str, champion: Champion | None) -> list[StagePlan]:
    common = {"framework": framework, "tracking": config.tracking.to_json()}
    contracts = {**common, "data_spec": config.data_spec.to_json(), "serving_spec": config.serving_spec.to_json()}
    trainer, exporter, compiler, auditor = (f"{framework}-{kind}" for kind in ("trainer", "exporter", "xla-compiler", "auditor"))
    audit = {"audit_spec": config.audit_spec.to_json(), "champion": champion.to_json() if champion else ""}
    registration = {
        "name": config.name,
        "dataset_digest": data_digest,
        "source_root": str(config.use_case.folder),
        "lock_digest": lock_digest(),
    }
    return [
        StagePlan(trainer, ("transform", "schema"), {**common, **_training(config, framework, data_digest)}),
        StagePlan(exporter, (trainer, "transform", "ingest"), {**contracts, **_code("components/exporter")}),
        StagePlan(compiler, (exporter, "ingest"), {**contracts, "model_name": config.name, **_code("components/xla_compiler")}),
        StagePlan(auditor, (compiler, exporter, trainer, "ingest"), {**contracts, **audit, **_code("components/auditor")}),
        StagePlan(
            f"{framework}-registrar",
            (auditor, compiler, exporter, trainer),
            {**common, **registration, **_code("components/registrar")},
        ),
    ]


def _code(*places: str) -> dict[str, str]:
    return {"code_fingerprint": stage_fingerprint(*places)}


def _training(config: PipelineConfig, framework: Framework, data_digest: str) -> dict[str, str]:
    label = config.data_spec.label
    sources = stage_fingerprint("trainers") + code_fingerprint(*model_sources(config.use_case, framework))
    return {
        "training": config.training_spec.to_json(),
        "module": config.use_case.module(f"{framework}_model"),
        "label": label.name,
        "classes": json.dumps(list(label.classes)),
        "positive": label.positive,
        "checkpoint_root": str(config.home / "checkpoints"),
        "dataset_name": config.data_path.name,
        "dataset_digest": data_digest,
        "code_fingerprint": hashlib.sha256(sources.encode()).hexdigest(),
    }


def _pusher(config: PipelineConfig) -> StagePlan:
    kinds = ("xla-compiler", "auditor", "registrar")
    return StagePlan(
        "pusher",
        tuple(f"{framework}-{kind}" for kind in kinds for framework in FRAMEWORKS),
        {
            "name": config.name,
            "audit_spec": config.audit_spec.to_json(),
            "serving_root": str(config.serving_root),
            "tracking": config.tracking.to_json(),
            "code_fingerprint": stage_fingerprint("components/pusher"),
        },
        always_runs=True,
    )
