"""Loads and unloads versions as the configuration and the folders say: a new version answers before an old one goes."""

import logging
import threading
from pathlib import Path

from components.core.errors import ConfigError
from infra.serving.model_server.config import ModelConfig, read_config
from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.library import Library, VersionStatus
from infra.serving.model_server.servable import Servable
from infra.serving.model_server.warmup import warm_up

LOG = logging.getLogger("tandem.serve")
_SAVED_MODEL = "saved_model.pb"


class Loader:
    """A thread that looks at folders and at models.config, and does what is to be done.

    A version whose load failed is tried again when its folder is another one than before.
    """

    def __init__(self, library: Library, *, config_path: Path | None, poll_s: float) -> None:
        self.library, self.poll_s = library, poll_s
        self._config_path = config_path
        self._config_seen: tuple[int, int, int] | None = None
        self._failed: dict[tuple[str, int], tuple[int, ...]] = {}
        self._wake, self._stopping = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """Looks now instead of at the next poll."""
        self._wake.set()

    def stop(self) -> None:
        """Ends the thread; a load that runs is finished."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.look()
            except Exception as error:
                # Whatever a file system does (a mount that is gone), what is loaded keeps serving.
                LOG.exception("looking at the models failed (%s); what is loaded keeps serving", type(error).__name__)
            self._wake.wait(self.poll_s)
            self._wake.clear()

    def look(self) -> None:
        """Reads a changed models.config, then loads what is new and unloads what is not wanted any more."""
        self._read_changed_config()
        generation = self.library.generation
        for config in self.library.configs():
            self._settle(config)
        self.library.settle(generation)

    def _read_changed_config(self) -> None:
        path = self._config_path
        if path is None:
            return
        try:
            stat = path.stat()
        except OSError:
            return  # it may come later; one that is gone changes nothing
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if seen == self._config_seen:
            return
        self._config_seen = seen
        try:
            configs = read_config(path)
        except ConfigError as error:
            LOG.warning("the configuration stays as it was: %s", error)
            return
        self.library.configure(configs)
        LOG.info("configuration read from %s: %s", path, ", ".join(config.name for config in configs) or "no model")

    def _settle(self, config: ModelConfig) -> None:
        snapshot = self.library.snapshot().get(config.name, {})
        held = {version for version, state in snapshot.items() if state == "AVAILABLE"}
        wanted = config.wanted(_versions_in(config.base_path))
        # A version that was taken away and comes again is tried again, though its bytes may be the same: a full disk or memory passes.
        self._failed = {known: identity for known, identity in self._failed.items() if known[0] != config.name or known[1] in wanted}
        for version in sorted(wanted - held):
            if not self._stopping and not self._known_to_fail(config, version):
                self._load(config, version)
        held = {version for version, state in self.library.snapshot().get(config.name, {}).items() if state == "AVAILABLE"}
        leaving = config.specific == frozenset()
        surplus = held - wanted
        # The last version that answers stays until another one does, unless the model is to go altogether.
        if surplus and (held & wanted or leaving):
            for version in sorted(surplus):
                self._unload(config.name, version)
        if leaving:
            self.library.forget_model(config.name)

    def _known_to_fail(self, config: ModelConfig, version: int) -> bool:
        return self._failed.get((config.name, version)) == _identity(config.base_path / str(version))

    def _load(self, config: ModelConfig, version: int) -> None:
        folder = config.base_path / str(version)
        identity = _identity(folder)
        self.library.set_status(config.name, VersionStatus(version, "LOADING"))
        servable = None
        try:
            servable = Servable(config.name, version, folder)
            count = warm_up(servable, folder)
        except Exception as error:  # noqa: BLE001 - a foreign file: whatever is wrong with it, the server lives and says so
            if servable is not None:
                servable.close()
            code, message = (error.code, error.message) if isinstance(error, ServingFault) else (Code.INTERNAL, repr(error))
            self._failed[(config.name, version)] = identity
            self.library.set_status(config.name, VersionStatus(version, "END", code, message))
            LOG.warning("%s version %d could not be loaded: %s", config.name, version, message)
            return
        self._failed.pop((config.name, version), None)
        self.library.set_status(config.name, VersionStatus(version, "AVAILABLE", servable=servable))
        LOG.info("%s version %d is available after %d warm-up requests", config.name, version, count)

    def _unload(self, name: str, version: int) -> None:
        status = self.library.statuses(name, version)[0]
        self.library.set_status(name, VersionStatus(version, "UNLOADING"))
        if status.servable is not None:
            status.servable.close()
        self.library.set_status(name, VersionStatus(version, "END"))
        LOG.info("%s version %d is unloaded", name, version)

    def unload_all(self) -> None:
        """Lets every version go."""
        for name, versions in self.library.snapshot().items():
            for version, state in versions.items():
                if state == "AVAILABLE":
                    self._unload(name, version)


def _versions_in(base_path: Path) -> set[int]:
    """Numbered folders that hold a SavedModel; who copies into place in one step is never seen half."""
    try:
        names = [path.name for path in base_path.iterdir()]
    except OSError:
        return set()
    return {int(name) for name in names if name.isascii() and name.isdigit() and name == str(int(name)) and _is_whole(base_path / name)}


def _is_whole(folder: Path) -> bool:
    return (folder / _SAVED_MODEL).is_file()


def _identity(folder: Path) -> tuple[int, ...]:
    """Changes when a file of the folder comes, goes or is written: a version that was not whole is tried again when it is."""
    found = 0, 0, 0
    for path in folder.rglob("*"):
        try:
            stat = path.stat()
        except OSError:
            continue  # it went while we looked; the next look sees that
        found = found[0] + 1, found[1] + stat.st_size, max(found[2], stat.st_mtime_ns)
    return found
