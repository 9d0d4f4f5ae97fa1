"""What stages tell each other: frozen, checked descriptions that travel as JSON in execution properties and files.

They are read in strict JSON mode: unknown keys and wrong types are refused, lists become tuples.
"""

import itertools
import math
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

FeatureKind = Literal["integer", "number", "category"]
Framework = Literal["keras", "lightning"]
Precision = Literal["32", "bf16-mixed", "16-mixed"]
FRAMEWORKS: tuple[Framework, ...] = ("keras", "lightning")

PRODUCTION_SUFFIX = "-prod"
"""Of a production model's name behind that of the candidates that it is made from."""
MISSING_BAND = "(missing)"
SLICE_PREFIX = "slice_"


class Contract(BaseModel):
    """Base of everything that travels between stages."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote.

        Raises:
            pydantic.ValidationError: an unknown key, a wrong type or a value outside its range.
        """
        return cls.model_validate_json(text)

    def to_json(self) -> str:
        """One line of JSON; equal contracts give equal text."""
        return self.model_dump_json()


class Feature(Contract):
    """One raw feature.

    Attributes:
        name: column of the CSV file, key of tf.Example, and input name of `serving_raw`.
        kind: `integer` (int64), `number` (float32), `category` (bytes).
        optional: a missing cell is allowed.
    """

    name: str = Field(min_length=1)
    kind: FeatureKind
    optional: bool = False


class Label(Contract):
    """The label: a column of class names.

    Attributes:
        name: column of the CSV file.
        classes: class names; the position is the class index and the column of `scores`.
        positive: the class on which binary metrics are taken.
    """

    name: str = Field(min_length=1)
    classes: tuple[str, ...] = Field(min_length=2)
    positive: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from each other")
        if self.positive not in self.classes:
            raise ValueError(f"positive must be one of {list(self.classes)}, not {self.positive!r}")
        return self

    @property
    def positive_index(self) -> int:
        """Class index of the positive class."""
        return self.classes.index(self.positive)


class Band(Contract):
    """A slice key made from a numeric feature.

    Attributes:
        name: slice key.
        feature: integer or number feature.
        edges: ascending inner edges in the feature's unit; n edges make n + 1 half-open bands.
    """

    name: str = Field(min_length=1)
    feature: str
    edges: tuple[float, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(low >= high for low, high in itertools.pairwise(self.edges)):
            raise ValueError("edges must ascend")
        return self

    def names(self) -> tuple[str, ...]:
        """Band names from low to high, `(missing)` not among them: `<25`, `[25, 35)`, `>=35`."""
        edges = [f"{edge:.15g}" for edge in self.edges]
        inner = [f"[{low}, {high})" for low, high in itertools.pairwise(edges)]
        return (f"<{edges[0]}", *inner, f">={edges[-1]}")


class DataSpec(Contract):
    """What the input holds.

    Attributes:
        features: in the order of the served signature.
        label: the label column.
        slices: category features that are slice keys as they stand.
        bands: slice keys made from numeric features.
        null_tokens: cells that mean "missing" beside the empty cell.
        ignored_columns: columns of the CSV file that are not read; any other column without a feature is refused.
        split_weights: split name -> weight; a row's split is a hash of its content, so equal rows share a split.
    """

    features: tuple[Feature, ...] = Field(min_length=1)
    label: Label
    slices: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()
    null_tokens: tuple[str, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    split_weights: dict[str, int] = {"train": 2, "eval": 1}

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [feature.name for feature in self.features]
        if len(set(names)) != len(names) or self.label.name in names:
            raise ValueError("feature and label names must differ from each other")
        if set(self.ignored_columns) & {*names, self.label.name}:
            raise ValueError("ignored_columns may not name a feature or the label")
        if set(self.null_tokens) & set(self.label.classes):
            raise ValueError("a null token may not be the name of a class")
        kinds = {feature.name: feature.kind for feature in self.features}
        for key in self.slices:
            if kinds.get(key) != "category":
                raise ValueError(f"slice {key!r} is no category feature; numeric features are sliced by [slices.bands]")
        for band in self.bands:
            if kinds.get(band.feature) not in ("integer", "number"):
                raise ValueError(f"band {band.name!r}: {band.feature!r} is no numeric feature")
        keys = self.slice_keys
        if len(set(keys)) != len(keys):
            raise ValueError(f"slice keys must differ from each other: {list(keys)}")
        if set(map(slice_feature, keys)) & {*names, self.label.name}:
            raise ValueError(f"a feature's name begins with {SLICE_PREFIX!r} and hides a slice key; rename it")
        if set(self.split_weights) != {"train", "eval"} or any(weight < 1 for weight in self.split_weights.values()):
            raise ValueError("split weights: train and eval, whole numbers of 1 or more")
        return self

    @property
    def slice_keys(self) -> tuple[str, ...]:
        """Slice keys: category features first, then bands."""
        return (*self.slices, *(band.name for band in self.bands))


def slice_feature(key: str) -> str:
    """Name of the bytes feature of tf.Example that holds a row's value of slice key `key` (`(missing)` included)."""
    return SLICE_PREFIX + key


class TransformedFeature(Contract):
    """One dense feature that leaves Transform and enters both models.

    Attributes:
        name: key in the feature mapping.
        dtype: `float32`, or `int64` for ids.
        shape: shape of one row, without the batch dimension; () is a scalar, so a batch is [N].
        vocabulary_size: for ids, one more than the largest id that Transform can give; None for floats.
    """

    name: str
    dtype: Literal["float32", "int64"]
    shape: tuple[int, ...] = ()
    vocabulary_size: int | None = None


class ModelSpec(Contract):
    """What a model is built from, the same for both frameworks.

    A model takes `dict[str, tensor]` with these features (float32[N, *shape] or int64[N, *shape]) and gives logits float32[N, C].
    """

    features: tuple[TransformedFeature, ...]
    classes: tuple[str, ...]

    @property
    def floats(self) -> tuple[TransformedFeature, ...]:
        """The float features."""
        return tuple(feature for feature in self.features if feature.dtype == "float32")

    @property
    def ids(self) -> tuple[TransformedFeature, ...]:
        """The id features."""
        return tuple(feature for feature in self.features if feature.dtype == "int64")


class TrainingSpec(Contract):
    """How both models are fitted.

    Attributes:
        epochs: upper limit; early stopping may end before.
        batch_size: rows a step; a step is one optimizer update in both frameworks.
        learning_rate: of Adam.
        early_stopping_patience: epochs without a better `val/loss` before stopping; the best weights are kept.
        seed: of weights, shuffling and dropout.
        precision: `32`, `bf16-mixed` or `16-mixed` (with loss scaling).
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        model: free values that `build_model(spec, hparams)` receives as `hparams`.
    """

    epochs: int = Field(default=30, ge=1)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    early_stopping_patience: int = Field(default=5, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**31)
    precision: Precision = "32"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    model: dict[str, bool | int | float | str | tuple[int, ...]] = {}

    @field_validator("precision", mode="before")
    @classmethod
    def _accept_the_number(cls, value: object) -> object:
        # `--set training.precision=32` is a number to TOML, and there is only one thing that it can mean.
        return "32" if type(value) is int and value == 32 else value


METRICS = ("auc", "auc_precision_recall", "binary_accuracy", "precision", "recall", "binary_crossentropy", "brier_score", "calibration")
"""Binary metrics on the positive class; `calibration` is mean score / share of positives."""
LOWER_IS_BETTER = frozenset({"binary_crossentropy", "brier_score"})


class AuditSpec(Contract):
    """When a candidate is blessed.

    Attributes:
        floors: metric -> least allowed value on the whole eval split.
        ceilings: metric -> largest allowed value on the whole eval split.
        slice_floors: metric -> least allowed value on each slice of at least `min_slice_size` rows.
        change: metric -> least allowed value of (candidate - champion), of (champion - candidate) where lower is better; negative allows a
            loss of that size.
        min_slice_size: rows; smaller slices are shown and not judged.
        operating_threshold: score of the positive class from which a row counts as positive.
        better_metric: names the better of two blessed candidates.
        better_tie: difference in `better_metric` up to which two candidates tie; then the lower p99 latency wins, then the name.
        bootstrap_samples: resamples for the intervals.
        confidence: level of the intervals, 0 to 1.
        seed: of the bootstrap.
    """

    floors: dict[str, float] = {}
    ceilings: dict[str, float] = {}
    slice_floors: dict[str, float] = {}
    change: dict[str, float] = {}
    min_slice_size: int = Field(default=100, ge=1)
    operating_threshold: float = Field(default=0.5, gt=0, lt=1)
    better_metric: str = "auc"
    better_tie: float = Field(default=0.0, ge=0)
    bootstrap_samples: int = Field(default=500, ge=100)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for metric in (*self.floors, *self.ceilings, *self.slice_floors, *self.change, self.better_metric):
            if metric not in METRICS:
                raise ValueError(f"unknown metric {metric!r}; known: {', '.join(METRICS)}")
        if not self.floors and not self.ceilings:
            raise ValueError("an audit without an absolute threshold audits nothing; give at least one of floors or ceilings")
        return self


class ServingSpec(Contract):
    """What serving asks of a model.

    Attributes:
        batch_buckets: ascending batch sizes, each gets an XLA twin.
        p99_ms: service level: largest p99 latency of one call of `serving_default`, in milliseconds, for each bucket up to
            `slo_max_batch` rows.
        slo_max_batch: buckets above are measured and shown, not judged.
        parity_tolerance: largest allowed absolute difference of exported and native scores.
        xla_tolerance: largest allowed absolute difference of XLA and plain scores.
    """

    batch_buckets: tuple[int, ...] = (1, 8, 64)
    p99_ms: float = Field(default=50.0, gt=0)
    slo_max_batch: int = Field(default=64, ge=1)
    parity_tolerance: float = Field(default=1e-5, gt=0, le=1e-5)
    xla_tolerance: float = Field(default=1e-5, gt=0, le=1e-4)

    @model_validator(mode="after")
    def _check(self) -> Self:
        buckets = self.batch_buckets
        if not buckets or buckets[0] < 1 or any(low >= high for low, high in itertools.pairwise(buckets)):
            raise ValueError("batch_buckets must be whole numbers of 1 or more that ascend")
        return self


class Champion(Contract):
    """The production model that relative checks compare with.

    Attributes:
        name: registered model, e.g. `credit-risk-prod`.
        version: registry version.
        digest: tree digest of its SavedModel, 64 hex digits.
        path: folder of its SavedModel.
    """

    name: str
    version: str
    digest: str
    path: str


def finite_or_none(value: float) -> float | None:
    """JSON has no NaN: a number that is not finite becomes None, and the reader says "undefined"."""
    return value if math.isfinite(value) else None


class NativeModel(Contract):
    """How a native model is rebuilt (file `native.json` beside its weights).

    Attributes:
        framework: decides the weights file: `model.weights.h5` (keras) or `weights.pt` (lightning).
        module: dotted path of the use case's module that holds `build_model(spec, hparams)`.
        spec: what `build_model` receives.
        training: how it was fitted; `training.model` is `hparams`.
    """

    framework: Framework
    module: str
    spec: ModelSpec
    training: TrainingSpec


NATIVE_FILE = "native.json"
WEIGHTS_FILES: dict[Framework, str] = {"keras": "model.weights.h5", "lightning": "weights.pt"}


class TrackingSpec(Contract):
    """Where stages show their work.

    Attributes:
        uri: MLflow tracking and registry URI, e.g. `sqlite:////home/me/.tandem/mlflow.db`.
        artifact_root: folder or URI below which experiments keep artifacts.
        experiment: MLflow experiment, one a use case.
        use_case: name of the use case.
    """

    uri: str
    artifact_root: str
    experiment: str
    use_case: str
