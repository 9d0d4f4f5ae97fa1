"""Counters of a server in Prometheus' text format, under the names of TensorFlow Serving."""

import bisect
import threading
from collections import defaultdict

_BOUNDS_US = tuple(10 * 1.8**power for power in range(33))
"""Upper bounds of latency buckets in microseconds, as TensorFlow Serving's exponential buckets (scale 10, growth 1.8, 33 of them)."""


class Metrics:
    """Counts requests and their latency; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._latency: dict[tuple[str, str, str], tuple[list[int], list[float]]] = {}

    def request(self, model: str, api: str, entrypoint: str, *, status: str, latency_s: float) -> None:
        """Counts one request that is answered."""
        with self._lock:
            self._counts[(model, status)] += 1
            self._observe("request_latency", model, api, entrypoint, latency_s)

    def runtime(self, model: str, latency_s: float) -> None:
        """Counts one call of a model."""
        with self._lock:
            self._observe("runtime_latency", model, "Predict", "TF2", latency_s)

    def _observe(self, name: str, model: str, api: str, kind: str, latency_s: float) -> None:
        label = "entrypoint" if name == "request_latency" else "runtime"
        key = (name, model, f'API="{api}",{label}="{kind}"')
        counts, total = self._latency.setdefault(key, ([0] * (len(_BOUNDS_US) + 1), [0.0]))
        microseconds = latency_s * 1e6
        counts[bisect.bisect_left(_BOUNDS_US, microseconds)] += 1
        total[0] += microseconds

    def text(self) -> str:
        """Everything, in Prometheus' text format 0.0.4."""
        with self._lock:
            lines = ["# TYPE :tensorflow:serving:request_count counter"]
            lines += [
                f':tensorflow:serving:request_count{{model_name="{_escaped(model)}",status="{status}"}} {count}'
                for (model, status), count in sorted(self._counts.items())
            ]
            previous = ""
            for (name, model, labels), (counts, total) in sorted(self._latency.items()):
                if name != previous:
                    lines.append(f"# TYPE :tensorflow:serving:{name} histogram")
                    previous = name
                lines += _histogram(f":tensorflow:serving:{name}", f'model_name="{_escaped(model)}",{labels}', counts, total[0])
        return "\n".join(lines) + "\n"


def _histogram(name: str, labels: str, counts: list[int], total: float) -> list[str]:
    lines, seen = [], 0
    for bound, count in zip((*(f"{bound:g}" for bound in _BOUNDS_US), "+Inf"), counts, strict=True):
        seen += count
        lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {seen}')
    return [*lines, f"{name}_sum{{{labels}}} {total:.6g}", f"{name}_count{{{labels}}} {seen}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
