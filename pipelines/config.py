"""Reads a use case: its folder, its pipeline.toml, and where things lie. Nothing heavy is imported here."""

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from components.core.contracts import AuditSpec, DataSpec, ServingSpec, TrackingSpec, TrainingSpec
from components.core.errors import ConfigError
from pipelines.sections import PipelineToml

CONFIG_FILE = "pipeline.toml"
SHIPPED = Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class UseCase:
    """A folder with pipeline.toml, features.py, keras_model.py, lightning_model.py.

    Attributes:
        folder: absolute.
        package: dotted path of the folder as a Python package, e.g. `pipelines.credit_risk`.
        import_root: folder that must be on PYTHONPATH for `package` to be found.
    """

    folder: Path
    package: str
    import_root: Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    def module(self, name: str) -> str:
        """Dotted path of one of its modules."""
        return f"{self.package}.{name}"


@dataclasses.dataclass(frozen=True)
class PipelineConfig:
    """One use case, checked, with every path absolute."""

    use_case: UseCase
    toml: PipelineToml
    home: Path
    serving_root: Path

    @property
    def name(self) -> str:
        """Name in the registry."""
        return self.toml.name

    @property
    def data_path(self) -> Path:
        """The CSV file or folder, absolute."""
        return (self.use_case.folder / self.toml.data.path).resolve()

    @property
    def data_spec(self) -> DataSpec:
        """See PipelineToml.data_spec."""
        return self.toml.data_spec()

    @property
    def serving_spec(self) -> ServingSpec:
        """See PipelineToml.serving_spec."""
        return self.toml.serving_spec()

    @property
    def training_spec(self) -> TrainingSpec:
        """The table [training]."""
        return self.toml.training

    @property
    def audit_spec(self) -> AuditSpec:
        """The table [audit]."""
        return self.toml.audit

    @property
    def tracking(self) -> TrackingSpec:
        """Where stages show their work."""
        return TrackingSpec(
            uri=f"sqlite:///{self.home / 'mlflow.db'}",
            artifact_root=str(self.home / "mlflow-artifacts"),
            experiment=self.use_case.name,
            use_case=self.use_case.name,
        )

    @property
    def metadata_path(self) -> Path:
        """SQLite file of ML Metadata."""
        return self.home / "metadata.db"

    @property
    def pipeline_root(self) -> Path:
        """Folder of this use case's artifacts."""
        return self.home / "artifacts" / self.use_case.name

    @property
    def runs_folder(self) -> Path:
        """Folder of the run journals of all use cases."""
        return self.home / "runs"


def find_use_case(text: str, *, working_folder: Path | None = None) -> UseCase:
    """Finds a use case by the path of its folder or by the name of a shipped one.

    Raises:
        ConfigError: there is none; names where it was looked for and what is shipped.
    """
    base = working_folder or Path.cwd()
    given = (base / text).resolve()
    shipped = SHIPPED / text
    for folder in (given, shipped):
        if (folder / CONFIG_FILE).is_file():
            return _as_package(folder.resolve())
    names = sorted(path.parent.name for path in SHIPPED.glob(f"*/{CONFIG_FILE}"))
    if given.is_file() and given.name == CONFIG_FILE:
        return _as_package(given.parent)
    raise ConfigError(
        f"no use case {text!r}: neither {given}/{CONFIG_FILE} nor a shipped one ({', '.join(names)}); "
        f"give a folder that holds {CONFIG_FILE}, or make one with `tandem init NAME --dir DIR`"
    )


def _as_package(folder: Path) -> UseCase:
    if not folder.name.isidentifier():
        raise ConfigError(f"{folder}: the folder's name becomes a Python package and must be an identifier; rename it (letters, digits, _)")
    if folder.parent == SHIPPED:
        return UseCase(folder, f"{SHIPPED.name}.{folder.name}", SHIPPED.parent)
    if (SHIPPED.parent / folder.name).exists():
        raise ConfigError(f"{folder}: the name {folder.name!r} hides a package of Tandem; rename the folder")
    return UseCase(folder, folder.name, folder.parent)


def load_config(use_case: UseCase, *, overrides: Sequence[str] = (), working_folder: Path | None = None) -> PipelineConfig:
    """Reads and checks pipeline.toml.

    Args:
        use_case: from find_use_case.
        overrides: `key=value` with a dotted key and a TOML value, e.g. `training.epochs=3`; text needs no quotes.
        working_folder: what relative [directories] start from; default: the current one.

    Raises:
        ConfigError: no TOML, an unknown key, a wrong type or value: file, key, what is allowed.
    """
    path = use_case.folder / CONFIG_FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}; mend that place") from error
    for override in overrides:
        _apply_override(content, override)
    try:
        toml = PipelineToml.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        raise ConfigError(_explain(path, error)) from error
    base = (working_folder or Path.cwd()).resolve()
    return PipelineConfig(
        use_case=use_case,
        toml=toml,
        home=(base / Path(toml.directories.home).expanduser()).resolve(),
        serving_root=(base / Path(toml.directories.serving).expanduser()).resolve(),
    )


def _apply_override(content: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    parts = key.strip().split(".")
    if not separator or not all(parts):
        raise ConfigError(f"--set {override}: not of the form key=value; give a dotted key, e.g. --set training.epochs=3")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = content
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {part!r} is a value, not a table; allowed are keys of {CONFIG_FILE}")
        table = inner
    table[parts[-1]] = value


def _explain(path: Path, error: ValidationError) -> str:
    """All faults of the file in one line, each with its key and what is allowed there."""
    faults = []
    for fault in error.errors():
        location = [part for part in fault["loc"] if isinstance(part, str | int)]
        key = ".".join(map(str, location)) or "(file)"
        if fault["type"] == "extra_forbidden":
            faults.append(f"unknown key {key!r}; allowed here: {', '.join(_allowed(location[:-1]))}")
        elif fault["type"] == "missing":
            faults.append(f"key {key!r} is missing")
        else:
            message = fault["msg"].removeprefix("Value error, ")
            shown = "" if isinstance(fault["input"], dict) else f", not {fault['input']!r}"
            faults.append(f"key {key!r}: {message[:1].lower()}{message[1:]}{shown}")
    return f"{path}: " + "; ".join(faults)


def _allowed(location: Sequence[str | int]) -> list[str]:
    """The keys that the table at `location` may hold."""
    model: Any = PipelineToml
    for part in location:
        if isinstance(model, type) and issubclass(model, BaseModel) and part in model.model_fields:
            model = model.model_fields[str(part)].annotation
        elif typing.get_origin(model) is dict:
            model = typing.get_args(model)[1]
        if isinstance(model, types.UnionType):
            model = next(iter(typing.get_args(model)))
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else ["(any)"]


def environment_for(use_case: UseCase, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of child processes: the use case and Tandem itself are found by PYTHONPATH."""
    roots = list(dict.fromkeys([str(use_case.import_root), str(SHIPPED.parent)]))
    inherited = [part for part in environment.get("PYTHONPATH", "").split(":") if part and part not in roots]
    return {**environment, "PYTHONPATH": ":".join([*roots, *inherited])}


def experiment_link(tracking_url: str, experiment: str) -> str:
    """Address of an experiment in the MLflow UI."""
    return f"{tracking_url}/#/experiments/{quote(experiment)}"
