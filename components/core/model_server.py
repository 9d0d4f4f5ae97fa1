"""A model server seen from outside: its configuration file and what its REST interface says. Works with any TensorFlow Serving."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from components.core.errors import ServingError
from components.core.files import write_bytes
from components.core.placement import PRODUCTION, version_folder
from components.core.rollout import Traffic

CONFIG_FILE = "models.config"
AVAILABLE = "AVAILABLE"
_ENDED = "END"
_POLL_S = 0.1
_ANSWER_TIMEOUT_S = 10.0


def config_path(serving_root: str) -> Path:
    """Where the production server's models.config lies."""
    return Path(serving_root).resolve() / PRODUCTION / CONFIG_FILE


def write_config(traffics: Iterable[Traffic], *, serving_root: str, base_path: str = "", available: Mapping[str, set[str]]) -> Path:
    """Writes `models.config` for everything that is in production: versions by name, labels of those that are loaded.

    A version that was promoted and whose bytes lie there is named too, though no push was entered yet: its promotion waits until the server
    has loaded it. So whoever writes this file meanwhile, a router or an operator's command, writes the same. A server refuses a label of a
    version that it has not loaded, so a label comes after its version.

    Args:
        traffics: of every model of the ledger.
        serving_root: folder of the model servers.
        base_path: where the server sees `<serving_root>/production`; empty = there.
        available: model -> versions that the server said are AVAILABLE.
    """
    path = config_path(serving_root)
    base = base_path or str(path.parent)
    blocks = []
    for split in sorted(traffics, key=lambda split: split.model):
        versions = _held(split, serving_root)
        if not versions:
            continue
        loaded = available.get(split.model, set())
        labels = {label: version for label, version in split.labels.items() if version in loaded}
        blocks.append(_block(split.model, f"{base}/{split.model}", versions, labels))
    write_bytes(path, ("model_config_list {\n" + "".join(blocks) + "}\n").encode())
    return path


def _held(split: Traffic, serving_root: str) -> list[int]:
    """Numbers of the versions that the server shall hold, ascending."""
    placed = [
        version
        for version in split.promoted
        if not version.pushed and version_folder(serving_root, split.model, version.version, stage=PRODUCTION).is_dir()
    ]
    return sorted({int(version.version) for version in (*split.served, *placed)})


def _block(model: str, base_path: str, versions: Iterable[int], labels: Mapping[str, str]) -> str:
    lines = [
        "  config {",
        f"    name: {json.dumps(model)}",
        f"    base_path: {json.dumps(base_path)}",
        '    model_platform: "tensorflow"',
        "    model_version_policy { specific { " + " ".join(f"versions: {version}" for version in versions) + " } }",
        *(f"    version_labels {{ key: {json.dumps(label)} value: {version} }}" for label, version in sorted(labels.items())),
        "  }",
    ]
    return "\n".join(lines) + "\n"


class ModelServer:
    """A model server's REST interface.

    Attributes:
        address: e.g. `http://127.0.0.1:8501`.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def states(self, model: str) -> dict[str, tuple[str, str]]:
        """Version -> (state, error message); empty where the server does not know the model.

        Raises:
            ServingError: it does not answer.
        """
        try:
            content = self._call(f"/v1/models/{quote(model)}")
        except urllib.error.HTTPError as error:
            if error.code == http.client.NOT_FOUND:
                return {}
            raise ServingError(f"{self.address} answers {error.code} to the status of {model}; see its log") from error
        entries = content.get("model_version_status", [])
        return {str(entry["version"]): (str(entry["state"]), str(entry["status"].get("error_message", ""))) for entry in entries}

    def available(self, model: str) -> set[str]:
        """Versions that take requests.

        Raises:
            ServingError: it does not answer.
        """
        return {version for version, (state, _) in self.states(model).items() if state == AVAILABLE}

    def await_available(self, model: str, version: str, *, timeout_s: float) -> float:
        """Waits until a version takes requests; returns the seconds that it took.

        Raises:
            ServingError: it failed to load, the server does not answer, or the time is over.
        """
        began = time.monotonic()
        state = "unknown"
        while time.monotonic() - began < timeout_s:
            state, message = self.states(model).get(version, ("unknown", ""))
            if state == AVAILABLE:
                return time.monotonic() - began
            if state == _ENDED and message:
                raise ServingError(f"{self.address} could not load {model} version {version}: {message}; it takes no traffic")
            time.sleep(_POLL_S)
        raise ServingError(
            f"{self.address}: {model} version {version} is {state} after {timeout_s:.0f} s; see that the server reads {CONFIG_FILE} "
            "and looks at it again (--model_config_file_poll_wait_seconds), and its log"
        )

    def predict(self, model: str, version: str, question: Mapping[str, Any]) -> Any:
        """Asks one version; `question` and answer in the columnar JSON of TensorFlow Serving.

        Raises:
            ServingError: it refuses or does not answer.
        """
        try:
            return self._call(f"/v1/models/{quote(model)}/versions/{quote(version)}:predict", question)["outputs"]
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode("utf-8", "replace")
            raise ServingError(f"{self.address}: {model} version {version} answers {error.code}: {said}") from error

    def _call(self, path: str, question: Mapping[str, Any] | None = None) -> dict[str, Any]:
        body = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(f"{self.address}{path}", body, {"Content-Type": "application/json"})  # noqa: S310 - http(s) by pattern
        try:
            with self._opener.open(request, timeout=_ANSWER_TIMEOUT_S) as answer:
                content: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServingError(
                f"the model server at {self.address} does not answer ({error}); start it, e.g. `tandem serve`, then run again"
            ) from error
        return content
