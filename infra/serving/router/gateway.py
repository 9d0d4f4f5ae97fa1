"""The split as weights of a Kubernetes Gateway API route, for clusters where the gateway splits instead of the router."""

from typing import Any

from components.core.rollout import Traffic

GATEWAY = "tandem"
_VERBS = ("predict", "classify", "regress")


def http_route(split: Traffic, *, namespace: str = "default", port: int = 8501) -> dict[str, Any]:
    """An HTTPRoute (gateway.networking.k8s.io/v1) with the weights of champion and canary.

    The services `<model>-champion` and `<model>-canary` select the model servers that hold the version of that label. A gateway splits by
    chance, not by request key, and judges no guard: both stay with the router where they are needed.

    Args:
        split: of one model.
        namespace: of the route.
        port: REST port of the services.
    """
    weights = {"champion": 100 - split.share, "canary": split.share}
    held = {"champion": split.champion, "canary": split.canary}
    backends = [
        {"name": f"{split.model}-{label}", "port": port, "weight": weights[label]} for label, version in held.items() if version is not None
    ]
    labels = {f"tandem.{label}-version": version.version for label, version in held.items() if version is not None}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": split.model, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "tandem", **labels}},
        "spec": {
            "parentRefs": [{"name": GATEWAY}],
            "rules": [
                {"matches": [_match(split.model, verb) for verb in _VERBS], "backendRefs": backends},
            ],
        },
    }


def _match(model: str, verb: str) -> dict[str, Any]:
    """Exact: a prefix ends at a slash, and the verb stands behind a colon."""
    return {"path": {"type": "Exact", "value": f"/v1/models/{model}:{verb}"}}
