"""models.config: which models a server holds, from where, which versions, and their labels (TensorFlow Serving's ModelServerConfig)."""

import dataclasses
from pathlib import Path
from typing import Any

from components.core.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model.

    Attributes:
        name: under which it is asked for.
        base_path: folder whose numbered folders are its versions.
        latest: so many of the highest versions; None = see `specific`.
        specific: exactly these; None together with `latest` None = all.
        labels: label -> version.
    """

    name: str
    base_path: Path
    latest: int | None = 1
    specific: frozenset[int] | None = None
    labels: tuple[tuple[str, int], ...] = ()

    def wanted(self, found: set[int]) -> set[int]:
        """Which of the versions that lie in `base_path` are to be served."""
        if self.specific is not None:
            return found & self.specific
        if self.latest is not None:
            return set(sorted(found)[-self.latest :])
        return found


def read_config(path: Path) -> tuple[ModelConfig, ...]:
    """Reads models.config, a ModelServerConfig in text form.

    Raises:
        ConfigError: it cannot be read; names the line.
    """
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    try:
        text = path.read_text(encoding="utf-8")
        proto = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no ModelServerConfig: {error}; mend that place") from error
    return from_proto(proto, str(path))


def from_proto(proto: Any, where: str) -> tuple[ModelConfig, ...]:
    """Checks a ModelServerConfig.

    Args:
        proto: the message.
        where: it came from, for messages.

    Raises:
        ConfigError: a model without name or base path, two of one name, a platform that is not TensorFlow, a label of a version below 1.
    """
    if proto.WhichOneof("config") == "custom_model_config":
        raise ConfigError(f"{where}: custom_model_config is not served; use model_config_list")
    configs = tuple(_model(entry, where) for entry in proto.model_config_list.config)
    names = [config.name for config in configs]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"{where}: model {doubled[0]!r} is configured twice; names must differ")
    return configs


def _model(entry: Any, where: str) -> ModelConfig:
    if not entry.name or not entry.base_path:
        raise ConfigError(f"{where}: a model needs name and base_path; it has {entry.name!r} and {entry.base_path!r}")
    if entry.model_platform not in ("", "tensorflow"):
        raise ConfigError(f'{where}: model {entry.name!r} has platform {entry.model_platform!r}; allowed: "tensorflow"')
    choice = entry.model_version_policy.WhichOneof("policy_choice")
    policy = entry.model_version_policy
    latest: int | None = 1
    specific: frozenset[int] | None = None
    if choice == "all":
        latest = None
    elif choice == "specific":
        latest, specific = None, frozenset(policy.specific.versions)
        if not specific:
            raise ConfigError(f"{where}: model {entry.name!r} has a specific policy without versions")
    elif choice == "latest":
        latest = policy.latest.num_versions or 1
    labels = tuple(sorted((str(label), int(version)) for label, version in entry.version_labels.items()))
    return ModelConfig(entry.name, Path(entry.base_path), latest, specific, labels)


def from_arguments(models: list[str]) -> tuple[ModelConfig, ...]:
    """`NAME=BASE_PATH` of the command line.

    Raises:
        ConfigError: not of that form, or no such folder.
    """
    configs = []
    for text in models:
        name, separator, path = text.partition("=")
        if not separator or not name or not path:
            raise ConfigError(f"--model {text}: not of the form NAME=BASE_PATH")
        base = Path(path).expanduser().resolve()
        if not base.is_dir():
            raise ConfigError(f"--model {text}: {base} is no folder; its numbered folders are the versions")
        configs.append(ModelConfig(name, base))
    return tuple(configs)
