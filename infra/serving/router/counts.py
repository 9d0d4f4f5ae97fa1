"""The router's counters in Prometheus' text format."""

import bisect
import threading
from collections import defaultdict
from collections.abc import Collection

from components.core.rollout import Traffic

_BOUNDS_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


class Counts:
    """Requests and latency by model, version and role; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, str, str], int] = defaultdict(int)
        self._latency: dict[tuple[str, str, str], list[float]] = {}

    def add(self, model: str, version: str, role: str, *, status: str, latency_ms: float) -> None:
        """Counts one answer."""
        with self._lock:
            self._requests[(model, version, role, status)] += 1
            cells = self._latency.setdefault((model, version, role), [0.0] * (len(_BOUNDS_MS) + 2))
            cells[bisect.bisect_left(_BOUNDS_MS, latency_ms)] += 1
            cells[-1] += latency_ms

    def total(self, model: str, role: str) -> int:
        """Requests that a role answered."""
        with self._lock:
            return sum(count for (name, _, kind, _), count in self._requests.items() if (name, kind) == (model, role))

    def text(self, splits: list[Traffic], *, held: Collection[str], log_dropped: int, shadows_dropped: int) -> str:
        """Everything, in Prometheus' text format 0.0.4.

        Args:
            splits: as the ledger says.
            held: models whose canary gets nothing, though the ledger does not say so yet.
            log_dropped: requests that were to be logged and were not.
            shadows_dropped: copies that were not made.
        """
        with self._lock:
            lines = ["# TYPE tandem_router_requests_total counter"]
            lines += [
                f'tandem_router_requests_total{{model="{model}",version="{version}",role="{role}",status="{status}"}} {count}'
                for (model, version, role, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE tandem_router_latency_ms histogram")
            for (model, version, role), cells in sorted(self._latency.items()):
                lines += _histogram(f'model="{model}",version="{version}",role="{role}"', cells)
        lines.append("# TYPE tandem_router_canary_share gauge")
        lines += [f'tandem_router_canary_share{{model="{split.model}"}} {split.share / 100:g}' for split in splits]
        lines.append("# TYPE tandem_router_canary_held gauge")
        lines += [f'tandem_router_canary_held{{model="{split.model}"}} {int(split.model in held)}' for split in splits]
        lines += ["# TYPE tandem_router_rolled_back gauge"]
        lines += [f'tandem_router_rolled_back{{model="{split.model}"}} {len(split.rolled_back)}' for split in splits]
        lines += ["# TYPE tandem_router_shadows_dropped_total counter", f"tandem_router_shadows_dropped_total {shadows_dropped}"]
        lines += ["# TYPE tandem_router_log_dropped_total counter", f"tandem_router_log_dropped_total {log_dropped}"]
        return "\n".join(lines) + "\n"


def _histogram(labels: str, cells: list[float]) -> list[str]:
    lines, seen = [], 0
    for bound, count in zip((*(f"{bound:g}" for bound in _BOUNDS_MS), "+Inf"), cells[:-1], strict=True):
        seen += int(count)
        lines.append(f'tandem_router_latency_ms_bucket{{{labels},le="{bound}"}} {seen}')
    return [*lines, f"tandem_router_latency_ms_sum{{{labels}}} {cells[-1]:.6g}", f"tandem_router_latency_ms_count{{{labels}}} {seen}"]
