"""Whether an MLflow store is there: asked cheaply, before MLflow is imported."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from components.core.contracts import TrackingSpec
from components.core.errors import StoreError

_CONNECT_TIMEOUT_S = 5.0


def sqlite_path(uri: str) -> Path | None:
    """File behind `sqlite:///<path>`, None for any other store."""
    return Path(uri.removeprefix("sqlite:///").split("?")[0]) if uri.startswith("sqlite:///") else None


def store_exists(tracking: TrackingSpec) -> bool:
    """Whether the MLflow store was made already; a server is taken to exist."""
    path = sqlite_path(tracking.uri)
    return path is None or path.is_file()


def require_reachable(uri: str) -> None:
    """Asks a server's port: a server that is down would cost MLflow's client minutes of retries.

    Raises:
        StoreError: nobody listens; start the server or correct the URI.
    """
    address = urlsplit(uri)
    if address.scheme not in ("http", "https"):
        return
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise StoreError(f"MLflow server {uri} does not answer ({error}); start it (`tandem ui`) or correct the tracking URI") from error
