"""The models that a server holds: states of versions, labels, and who is asked. Loading happens in `loader`."""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

from infra.serving.model_server.config import ModelConfig
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.servable import Servable

State = Literal["START", "LOADING", "AVAILABLE", "UNLOADING", "END"]


@dataclasses.dataclass
class VersionStatus:
    """One version.

    Attributes:
        state: as GetModelStatus says it.
        code, message: why it ended; OK while nothing went wrong.
        servable: while AVAILABLE.
    """

    version: int
    state: State = "START"
    code: Code = Code.OK
    message: str = ""
    servable: Servable | None = None


@dataclasses.dataclass
class _Model:
    config: ModelConfig
    versions: dict[int, VersionStatus] = dataclasses.field(default_factory=dict)

    def available(self) -> list[int]:
        return sorted(version for version, status in self.versions.items() if status.servable is not None)


class Library:
    """All models; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._models: dict[str, _Model] = {}
        self._generation = self._settled = 0

    @property
    def generation(self) -> int:
        """Number of the configuration that stands."""
        with self._lock:
            return self._generation

    def settle(self, generation: int) -> None:
        """Says that all that this configuration wants was loaded, or was tried."""
        with self._lock:
            self._settled = generation

    def settled(self) -> bool:
        """Whether all that the configuration wants was loaded, or was tried."""
        with self._lock:
            return self._settled == self._generation

    def configure(self, configs: Sequence[ModelConfig]) -> None:
        """Replaces the configuration; models that are not named any more keep their versions until the loader took them away."""
        with self._lock:
            self._generation += 1
            for config in configs:
                model = self._models.setdefault(config.name, _Model(config))
                model.config = config
            kept = {config.name for config in configs}
            for name, model in self._models.items():
                if name not in kept:
                    model.config = dataclasses.replace(model.config, latest=None, specific=frozenset(), labels=())

    def require_labels_available(self, configs: Sequence[ModelConfig]) -> None:
        """Checks a reload request: a label may only be given to a version that takes requests.

        Raises:
            ServingFault: FAILED_PRECONDITION.
        """
        with self._lock:
            for config in configs:
                model = self._models.get(config.name)
                available = model.available() if model else []
                for _, version in config.labels:
                    if version not in available:
                        raise ServingFault(
                            Code.FAILED_PRECONDITION,
                            f"Request to assign label to version {version} of model {config.name}, "
                            "which is not currently available for inference",
                        )

    def configs(self) -> list[ModelConfig]:
        """The configuration of every model, those that are leaving too."""
        with self._lock:
            return [model.config for model in self._models.values()]

    def set_status(self, name: str, status: VersionStatus) -> None:
        """Tells what became of a version."""
        with self._lock:
            self._models[name].versions[status.version] = status

    def forget_model(self, name: str) -> None:
        """Removes a model that is configured no more and holds nothing."""
        with self._lock:
            model = self._models.get(name)
            if model is not None and model.config.specific == frozenset() and not model.available():
                del self._models[name]

    def statuses(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """States of a model's versions, the newest first.

        Raises:
            ServingFault: NOT_FOUND.
        """
        with self._lock:
            model = self._models.get(name)
            found = dict(model.versions) if model else {}
            if version is not None and version not in found:
                raise ServingFault(Code.NOT_FOUND, f"Could not find version {version} of model {name}")
            if not found:
                raise ServingFault(Code.NOT_FOUND, f"Could not find any versions of model {name}")
            chosen = [version] if version is not None else sorted(found, reverse=True)
            return [dataclasses.replace(found[number]) for number in chosen]

    def version_of_label(self, name: str, label: str) -> int:
        """What a label means now.

        Raises:
            ServingFault: no such model or label, or its version is not loaded.
        """
        with self._lock:
            model = self._require(name, f"Latest({name})")
            version = dict(model.config.labels).get(label)
            if version is None or version not in model.available():
                raise invalid(f"Unrecognized servable version label: {label}")
            return version

    @contextlib.contextmanager
    def use(self, name: str, version: int | None = None, *, label: str = "") -> Iterator[Servable]:
        """The servable of a request; it is not unloaded before the request is over.

        Raises:
            ServingFault: NOT_FOUND in the words of the real server.
        """
        servable = self._acquire(name, version, label)
        try:
            yield servable
        finally:
            servable.release()

    def _acquire(self, name: str, version: int | None, label: str) -> Servable:
        with self._lock:
            if label:
                version = self.version_of_label(name, label)
            what = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            model = self._require(name, what)
            available = model.available()
            number = available[-1] if version is None and available else version
            status = model.versions.get(number) if number is not None else None
            if status is None or status.servable is None or not status.servable.acquire():
                raise ServingFault(Code.NOT_FOUND, f"Servable not found for request: {what}")
            return status.servable

    def _require(self, name: str, what: str) -> _Model:
        model = self._models.get(name)
        if model is None:
            raise ServingFault(Code.NOT_FOUND, f"Servable not found for request: {what}")
        return model

    def ready(self) -> bool:
        """Whether the loader is through with the configuration, and every model has a version that takes requests."""
        with self._lock:
            return self._settled == self._generation and all(
                model.available() for model in self._models.values() if model.config.specific != frozenset()
            )

    def snapshot(self) -> dict[str, dict[int, State]]:
        """Model -> version -> state."""
        with self._lock:
            return {name: {number: status.state for number, status in model.versions.items()} for name, model in self._models.items()}
