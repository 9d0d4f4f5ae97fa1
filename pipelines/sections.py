"""The tables of pipeline.toml. Each becomes a contract that stages receive; unknown keys and wrong types are refused."""

from typing import Self

from pydantic import Field, model_validator

from components.core.approval import ApprovalRule
from components.core.contracts import AuditSpec, Band, Contract, DataSpec, Feature, FeatureKind, Label, ServingSpec, TrainingSpec
from components.core.rollout import RolloutRule

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


class DataSection(Contract):
    """`[data]`: where the rows are.

    Attributes:
        path: file or folder of CSV files, from the folder of pipeline.toml.
        null_tokens: cells that mean "missing" beside the empty cell.
        ignored_columns: columns of the file that nothing uses.
        split: weights of train and eval.
    """

    path: str = Field(min_length=1)
    null_tokens: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    split: dict[str, int] = {"train": 2, "eval": 1}


class FeaturesSection(Contract):
    """`[features]`: raw feature names by kind.

    Attributes:
        integer: whole numbers (int64, exact to 2^53).
        number: decimal numbers (float32).
        category: text.
        optional: names from above whose cells may be missing.
    """

    integer: tuple[str, ...] = ()
    number: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = {*self.integer, *self.number, *self.category}
        if not known:
            raise ValueError("at least one feature is needed under integer, number or category")
        unknown = sorted(set(self.optional) - known)
        if unknown:
            raise ValueError(f"optional names features that are not listed: {', '.join(unknown)}")
        return self

    def features(self) -> tuple[Feature, ...]:
        """Features in the order of the file: integer, number, category."""
        kinds: tuple[tuple[FeatureKind, tuple[str, ...]], ...] = (
            ("integer", self.integer),
            ("number", self.number),
            ("category", self.category),
        )
        return tuple(Feature(name=name, kind=kind, optional=name in self.optional) for kind, names in kinds for name in names)


class BandSection(Contract):
    """`[slices.bands.<name>]`: a slice key made from a numeric feature; edges in the feature's unit."""

    feature: str
    edges: tuple[float, ...] = Field(min_length=1)


class SlicesSection(Contract):
    """`[slices]`: by category features, and bands of numeric ones."""

    by: tuple[str, ...] = ()
    bands: dict[str, BandSection] = {}


class ServingSection(Contract):
    """`[serving]`: see ServingSpec."""

    batch_buckets: tuple[int, ...] = (1, 8, 64)
    parity_tolerance: float = Field(default=1e-5, gt=0, le=1e-5)
    xla_tolerance: float = Field(default=1e-5, gt=0, le=1e-4)


class SloSection(Contract):
    """`[slo]`: service level: p99 of one call in milliseconds, for batches up to `max_batch` rows."""

    p99_ms: float = Field(default=50.0, gt=0)
    max_batch: int = Field(default=64, ge=1)


class ProductionSection(Contract):
    """`[production]`: the model server that serves `<serving>/production`.

    Attributes:
        server: its REST address; promotion waits there until a version is available.
        base_path: where the server sees `<serving>/production`, e.g. a container's mount; empty = the same path.
        timeout_s: seconds that a version may take to become available.
        min_requests_per_s: of single-row requests in the load test before a promotion, one client.
    """

    server: str = Field(default="http://127.0.0.1:8501", pattern=r"^https?://[^/\s]+$")
    base_path: str = ""
    timeout_s: float = Field(default=120.0, gt=0)
    min_requests_per_s: float = Field(default=50.0, gt=0)


class DirectoriesSection(Contract):
    """`[directories]`: from the folder where tandem is called.

    Attributes:
        home: ML Metadata, MLflow, artifacts, runs, logs.
        serving: model-server folders.
    """

    home: str = Field(default=".tandem", min_length=1)
    serving: str = Field(default="serving", min_length=1)


class PipelineToml(Contract):
    """The whole file."""

    name: str = Field(pattern=NAME_PATTERN)
    data: DataSection
    label: Label
    features: FeaturesSection
    slices: SlicesSection = SlicesSection()
    training: TrainingSpec = TrainingSpec()
    audit: AuditSpec
    serving: ServingSection = ServingSection()
    slo: SloSection = SloSection()
    approval: ApprovalRule = ApprovalRule()
    rollout: RolloutRule = RolloutRule()
    production: ProductionSection = ProductionSection()
    directories: DirectoriesSection = DirectoriesSection()

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.data_spec()
        self.serving_spec()
        return self

    def data_spec(self) -> DataSpec:
        """What ingest, exporter and auditor are told about the data."""
        bands = tuple(Band(name=name, feature=band.feature, edges=band.edges) for name, band in self.slices.bands.items())
        values = {
            "features": [feature.model_dump() for feature in self.features.features()],
            "label": self.label.model_dump(),
            "slices": list(self.slices.by),
            "bands": [band.model_dump() for band in bands],
            "null_tokens": list(self.data.null_tokens),
            "ignored_columns": list(self.data.ignored_columns),
            "split_weights": self.data.split,
        }
        return DataSpec.model_validate(values, strict=False)

    def serving_spec(self) -> ServingSpec:
        """What exporter, compiler and auditor are told about serving."""
        return ServingSpec(
            batch_buckets=self.serving.batch_buckets,
            parity_tolerance=self.serving.parity_tolerance,
            xla_tolerance=self.serving.xla_tolerance,
            p99_ms=self.slo.p99_ms,
            slo_max_batch=self.slo.max_batch,
        )
