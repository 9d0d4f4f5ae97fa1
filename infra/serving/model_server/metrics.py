"""Counters of a server in Prometheus' text format, under the names of TensorFlow Serving."""

import bisect
import threading
from collections import defaultdict
from collections.abc import Sequence

_LATENCY_US = tuple(10 * 1.8**power for power in range(33))
"""Upper bounds of latency buckets in microseconds, as TensorFlow Serving's exponential buckets (scale 10, growth 1.8, 33 of them)."""
_QUEUING_US = tuple(100 * 1.2**power for power in range(52))
_ROWS = tuple(float(2**power) for power in range(15))
_MAX_SERIES = 10_000
"""Clients choose the model names that they ask for; what is counted for unknown names must not fill the memory."""


class Metrics:
    """Counts requests, calls and batches; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = defaultdict(int)
        self._histograms: dict[tuple[str, str], _Histogram] = {}
        self._batches = 0

    def request(self, model: str, api: str, entrypoint: str, *, status: str, latency_s: float) -> None:
        """Counts one request that is answered; the latency of refused ones is not kept."""
        with self._lock:
            key = (model, status)
            if key in self._counts or len(self._counts) < _MAX_SERIES:
                self._counts[key] += 1
            if status == "OK":
                labels = f'model_name="{_escaped(model)}",API="{api}",entrypoint="{entrypoint}"'
                self._observe("request_latency", labels, latency_s * 1e6)

    def runtime(self, model: str, api: str, latency_s: float) -> None:
        """Counts one call of a model."""
        with self._lock:
            self._observe("runtime_latency", f'model_name="{_escaped(model)}",API="{api}",runtime="TF1"', latency_s * 1e6)

    def batch(self, rows: int, waited_s: Sequence[float]) -> None:
        """Counts one call for several requests: its rows, and how long each request waited."""
        with self._lock:
            self._batches += 1
            self._observe("batching_session:batch_rows", 'thread_pool_name=""', rows, _ROWS)
            for seconds in waited_s:
                self._observe("batching_session:queuing_latency", 'thread_pool_name=""', seconds * 1e6, _QUEUING_US)

    def _observe(self, name: str, labels: str, value: float, bounds: tuple[float, ...] = _LATENCY_US) -> None:
        found = self._histograms.get((name, labels))
        if found is None:
            found = self._histograms[(name, labels)] = _Histogram(bounds)
        found.add(value)

    def text(self, *, waiting_rows: int | None = None) -> str:
        """Everything, in Prometheus' text format 0.0.4.

        Args:
            waiting_rows: in the batch queues now; None = there are none.
        """
        with self._lock:
            lines = ["# TYPE :tensorflow:serving:request_count counter"]
            lines += [
                f':tensorflow:serving:request_count{{model_name="{_escaped(model)}",status="{status}"}} {count}'
                for (model, status), count in sorted(self._counts.items())
            ]
            previous = ""
            for (name, labels), histogram in sorted(self._histograms.items(), key=lambda entry: entry[0]):
                if name != previous:
                    lines.append(f"# TYPE :tensorflow:serving:{name} histogram")
                    previous = name
                lines += histogram.lines(f":tensorflow:serving:{name}", labels)
            if waiting_rows is not None:
                for name, kind, value in (("wrapped_run_count", "counter", self._batches), ("queue_rows", "gauge", waiting_rows)):
                    full = f":tensorflow:serving:batching_session:{name}"
                    lines += [f"# TYPE {full} {kind}", f"{full}{{}} {value}"]
        return "\n".join(lines) + "\n"


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._total += value

    def lines(self, name: str, labels: str) -> list[str]:
        lines, seen = [], 0
        for bound, count in zip((*(f"{bound:g}" for bound in self._bounds), "+Inf"), self._counts, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{{labels},le="{bound}"}} {seen}')
        return [*lines, f"{name}_sum{{{labels}}} {self._total:.6g}", f"{name}_count{{{labels}}} {seen}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
