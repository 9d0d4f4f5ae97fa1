"""The split as weights of a Kubernetes Gateway API route, for clusters where the gateway splits instead of the router."""

import re
from typing import Any

from components.core.errors import ConfigError
from components.core.rollout import Traffic

GATEWAY = "tandem"
_VERBS = ("predict", "classify", "regress")
_SERVICE = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
"""Of a service's name (RFC 1123), short enough for `-champion` behind it."""


def http_route(split: Traffic, *, namespace: str = "default", port: int = 8501) -> dict[str, Any]:
    """An HTTPRoute (gateway.networking.k8s.io/v1) with the weights of champion and canary.

    The services `<model>-champion` and `<model>-canary` select the model servers that hold the version of that label. A gateway splits by
    chance, not by request key, and judges no guard: both stay with the router where they are needed. It tells paths apart by case.

    A path prefix of this API ends at a slash, so `/v1/models/m` does not hold `/v1/models/m:predict`: each verb is matched as a whole.

    Args:
        split: of one model.
        namespace: of the route.
        port: REST port of the services.

    Raises:
        ConfigError: nothing is in production yet, or the model's name cannot be that of a service.
    """
    if not _SERVICE.fullmatch(split.model):
        raise ConfigError(f"model {split.model!r} cannot name a Kubernetes service: a-z, 0-9 and -, at most 52 characters")
    if split.champion is None:
        raise ConfigError(f"nothing of {split.model} is in production yet, so there is nothing to route to; `tandem promote` begins")
    path = f"/v1/models/{split.model}"
    weights = {"champion": 100 - split.share, "canary": split.share}
    held = {label: version for label, version in split.labels.items() if label in weights}
    services = {label: {"name": f"{split.model}-{label}", "port": port} for label in held}
    weighted = [{**services[label], "weight": weights[label]} for label in held]
    pinned = [
        {"matches": _verbs(f"{path}/versions/{version}") + _verbs(f"{path}/labels/{label}"), "backendRefs": [services[label]]}
        for label, version in held.items()
    ]
    rest = {"matches": [{"path": {"type": "PathPrefix", "value": path}}], "backendRefs": [services["champion"]]}
    labels = {f"tandem.{label}-version": version for label, version in held.items()}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": split.model, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "tandem", **labels}},
        "spec": {
            "parentRefs": [{"name": GATEWAY}],
            "rules": [{"matches": _verbs(path), "backendRefs": weighted}, *pinned, rest],
        },
    }


def _verbs(path: str) -> list[dict[str, Any]]:
    return [{"path": {"type": "Exact", "value": f"{path}:{verb}"}} for verb in _VERBS]
