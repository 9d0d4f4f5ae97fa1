"""How runs are shown: a table for people, keys for programs."""

from collections.abc import Sequence
from typing import Any

from pipelines.journal import RunRecord


def run_as_json(record: RunRecord) -> dict[str, Any]:
    """`{id, use_case, state, started, seconds, stages: [{name, state, seconds}]}`."""
    return {
        "id": record.id,
        "use_case": record.use_case,
        "state": record.state,
        "started": record.started,
        "seconds": record.seconds,
        "stages": [{"name": stage.name, "state": stage.state, "seconds": stage.seconds} for stage in record.stages],
    }


def runs_table(records: Sequence[RunRecord]) -> str:
    """One line a run: id, use case, start (UTC), seconds, state, stages by state."""
    if not records:
        return "no run yet; start one with `tandem run USE_CASE`\n"
    rows = [("RUN", "USE CASE", "STARTED (UTC)", "SECONDS", "STATE", "STAGES")]
    rows += [
        (record.id, record.use_case, record.started[:19].replace("T", " "), f"{record.seconds:.1f}", record.state, _stages(record))
        for record in records
    ]
    return table(rows, right={3})


def _stages(record: RunRecord) -> str:
    states = [stage.state for stage in record.stages]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def table(rows: Sequence[Sequence[str]], *, right: frozenset[int] | set[int] = frozenset()) -> str:
    """Text in columns; the columns in `right` are set to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
