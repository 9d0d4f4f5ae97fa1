"""How `tandem why` is shown to people. Every number comes from the document of `pipelines.diagnosis`."""

from collections.abc import Sequence
from typing import Any

from pipelines.comparison_view import gate_verdict, push_line, shown
from pipelines.next_run import INHERITED
from pipelines.text_layout import indented

ROWS_SHOWN = 5
Document = dict[str, Any]


def diagnosis_text(document: Document, width: int) -> str:
    """What stopped the run, then what the next one would do.

    Args:
        document: from `pipelines.diagnosis.diagnose`.
        width: columns of the terminal.
    """
    run = document["run"]
    parts = [indented(f"run {run['id']} of {run['use_case']}: {run['state']} after {run['seconds']:.1f} s", width, by=0)]
    parts.append(_failure(document, width))
    parts += [_candidate(candidate, width) for candidate in document["candidates"]]
    if document["push"]:
        parts.append(indented(push_line(document["push"]), width, by=0))
    parts += [indented(f"gone: {text}", width, by=0) for text in document["missing_artifacts"]]
    parts.append(_next_run(document["next_run"], width))
    return "\n".join(part for part in parts if part)


def _failure(document: Document, width: int) -> str:
    failure = document["failure"]
    if failure is None:
        return ""
    where = f"stage {failure['stage']}" if failure["stage"] else "before the first stage"
    lines = [indented(f"stopped at: {where}", width, by=0)]
    if failure["error"]:
        lines.append(indented(f"error: {failure['error']}", width, by=0))
    lines.append(indented(f"log: {failure['log'] or 'none was written'}", width, by=0))
    skipped = [stage["name"] for stage in document["unfinished_stages"] if stage["state"] == "skipped"]
    if skipped:
        lines.append(indented(f"not reached: {', '.join(skipped)}", width, by=0))
    return "".join(lines)


def _candidate(candidate: Document, width: int) -> str:
    blessed = {True: "blessed", False: "not blessed", None: "not audited"}[candidate["blessed"]]
    stopped = f", stopped by {', '.join(candidate['stopped_by'])}" if candidate["stopped_by"] else ""
    lines = [indented(f"{candidate['framework']}: {blessed}{stopped}", width, by=0)]
    for gate in candidate["gates"]:
        lines += _gate(gate, width)
    if candidate["parity_worst_row"]:
        lines += _worst_row(candidate["parity_worst_row"], width)
    if candidate["parity_reason"]:
        lines.append(indented(f"parity: {candidate['parity_reason']}", width))
    if candidate["registration_reason"]:
        lines.append(indented(f"not registered: {candidate['registration_reason']}", width))
    told = tuple(f"{gate['name']}:" for gate in candidate["gates"])
    lines += [indented(f"not checked: {text}", width) for text in candidate["not_done"] if not text.startswith(told)]
    return "".join(lines)


def _gate(gate: Document, width: int) -> list[str]:
    detail = f": {gate['detail']}" if gate["detail"] else ""
    lines = [indented(f"{gate['name']} {gate_verdict(gate)}{detail}", width)]
    for entry in gate["slices"][:ROWS_SHOWN]:
        text = f"slice {entry['key']}={entry['value']}: {shown(entry['metric'])}, {entry['size']} rows, {entry['positives']} positive"
        lines.append(indented(text, width, by=4))
    for bucket in gate["buckets"]:
        latency = f"p99 plain {bucket['plain_p99_ms']:.2f} ms, XLA {bucket['xla_p99_ms']:.2f} ms"
        difference = shown(bucket["largest_absolute_difference"], ".2g")
        lines.append(indented(f"batch {bucket['batch']}: {latency}, largest difference {difference}", width, by=4))
    if gate["remedy"]:
        lines.append(indented(f"remedy: {gate['remedy']}", width, by=4))
    return lines


def _worst_row(row: Document, width: int) -> list[str]:
    features = ", ".join(f"{name}={value}" for name, value in row["features"].items())
    return [
        indented(f"worst row: {row['index']} of {row['source']}", width),
        indented(f"native scores {_scores(row['native'])}, exported {_scores(row['exported'])}", width, by=4),
        indented(features or "no features were recorded", width, by=4),
    ]


def _scores(scores: Sequence[float | None]) -> str:
    return "[" + ", ".join(shown(score, ".7g") for score in scores) + "]"


def _next_run(document: Document, width: int) -> str:
    lines = [indented("THE NEXT RUN", width, by=0)]
    if document["problem"]:
        lines.append(indented(document["problem"], width))
    executing = [stage for stage in document["stages"] if stage["decision"] == "execute"]
    inherited = [stage["name"] for stage in executing if all(reason.startswith(INHERITED) for reason in stage["reasons"])]
    own = [stage for stage in executing if stage["name"] not in inherited]
    lines += [indented(f"executes {stage['name']}: {'; '.join(stage['reasons'])}", width) for stage in own]
    if inherited:
        lines.append(indented(f"executes what rests on those: {', '.join(inherited)}", width))
    cached = [stage["name"] for stage in document["stages"] if stage["decision"] == "cached"]
    if cached:
        lines.append(indented(f"from the cache: {', '.join(cached)}", width))
    return "".join(lines)
