"""How `tandem compare` is shown to people. Every number comes from the document of `pipelines.comparison`."""

from collections.abc import Callable, Sequence
from typing import Any

from components.core.contracts import FRAMEWORKS
from pipelines.text_layout import columns, indented, printable

DIFFERING_SLICES = 5
UNDEFINED_SLICES = 3
FINDINGS = 3
NOTHING = "-"
Document = dict[str, Any]
Row = Sequence[str]


def comparison_text(document: Document, width: int) -> str:
    """The whole comparison.

    Args:
        document: from `pipelines.comparison.compare`.
        width: columns of the terminal.
    """
    candidates = document["candidates"]
    parts = [_run_lines(document["runs"], width)]
    if not candidates:
        return parts[0] + "\nno candidate was measured\n"
    several = len(document["runs"]) > 1
    head = ["", *(_name(candidate, several) for candidate in candidates)]
    for title, rows in (
        ("", _identity_rows(candidates)),
        ("METRICS on the eval split, positive class [interval]", _metric_rows(candidates)),
        ("GATES", _gate_rows(candidates)),
        ("LATENCY of one call, ms: plain p50/p99, XLA p50/p99", _latency_rows(candidates)),
    ):
        if rows:
            parts.append((indented(title, width, by=0) if title else "") + columns([head, *rows], width))
    parts += [_slice_part(entry, width, several) for entry in document["slices"]]
    parts += [_notes(document, width), _link(document, width)]
    return "\n".join(part for part in parts if part)


def shown(value: float | None, pattern: str = ".4f") -> str:
    """A number, or the word for one that is not there."""
    return "undefined" if value is None else format(value, pattern)


def _name(candidate: Document, several: bool) -> str:
    return f"{candidate['pipeline_run_id']} {candidate['framework']}" if several else str(candidate["framework"])


def _run_lines(runs: Sequence[Document], width: int) -> str:
    lines = []
    for run in runs:
        line = f"run {run['id']} of {run['use_case']}: {run['state']}, started {run['started'][:19].replace('T', ' ')} UTC"
        lines.append(indented(line, width, by=0))
        lines.append(indented(push_line(run["push"]), width))
    return "".join(lines)


def push_line(push: Document | None) -> str:
    """What was pushed and why, or why nothing was."""
    if push is None:
        return "push: not done in this run"
    if not push["pushed"]:
        return f"nothing pushed: {push['reason']}"
    return f"pushed {push['name']}/{push['version']} ({push['framework']}) to {push['path']}: {push['reason']}"


def _rows(candidates: Sequence[Document], rows: Sequence[tuple[str, Callable[[Document], str]]]) -> list[Row]:
    return [[label, *(cell(candidate) for candidate in candidates)] for label, cell in rows]


def _identity_rows(candidates: Sequence[Document]) -> list[Row]:
    return _rows(
        candidates,
        [
            ("blessed", _blessed),
            ("version", _version),
            ("pushed", lambda candidate: "yes" if candidate["pushed"] else "no"),
            ("parity", _parity),
            ("size", lambda candidate: _or_nothing(candidate["size_bytes"], lambda size: f"{size / 1e6:.2f} MB")),
            ("parameters", lambda candidate: _or_nothing(candidate["parameter_count"], lambda count: f"{count:,}")),
            ("training", _training),
            ("digest", lambda candidate: _or_nothing(candidate["digest"], lambda digest: digest[:12])),
            ("MLflow run", lambda candidate: candidate["run_id"] or NOTHING),
        ],
    )


def _or_nothing(value: Any, text: Callable[[Any], str]) -> str:
    return NOTHING if value is None else text(value)


def _blessed(candidate: Document) -> str:
    return {True: "yes", False: "no", None: "not audited"}[candidate["blessed"]]


def _version(candidate: Document) -> str:
    return f"{candidate['model']}/{candidate['version']}" if candidate["version"] else "not registered"


def _parity(candidate: Document) -> str:
    parity = candidate["parity"]
    if parity is None:
        return "not checked"
    verdict = "passed" if parity["passed"] else "failed"
    difference = shown(parity["largest_absolute_difference"], ".2g")
    return f"{verdict}: {difference} of {parity['tolerance']:g}, labels {parity['label_agreement']:.2%}"


def _training(candidate: Document) -> str:
    if candidate["training_seconds"] is None:
        return NOTHING
    return f"{candidate['training_seconds']:.1f} s, best epoch {candidate['best_epoch']} of {candidate['epochs_run']}"


def _metric_rows(candidates: Sequence[Document]) -> list[Row]:
    names = dict.fromkeys(name for candidate in candidates for name in candidate["metrics"])
    return [[name, *(_metric(candidate, name) for candidate in candidates)] for name in names]


def _metric(candidate: Document, name: str) -> str:
    if name not in candidate["metrics"]:
        return NOTHING
    interval = candidate["intervals"][name]
    value = candidate["metrics"][name]
    if value is None:
        return interval["note"] or "undefined"
    if interval["lower"] is None or interval["upper"] is None:
        return shown(value)
    return f"{shown(value)} [{shown(interval['lower'])}, {shown(interval['upper'])}]"


def _gate_rows(candidates: Sequence[Document]) -> list[Row]:
    tables = [{gate["name"]: gate for gate in candidate["gates"]} for candidate in candidates]
    names = dict.fromkeys(name for table in tables for name in table)
    return [[name, *(gate_verdict(table.get(name)) for table in tables)] for name in names]


def gate_verdict(gate: Document | None) -> str:
    """`passed 0.861 (limit 0.8)`; an optional gate says so."""
    if gate is None:
        return NOTHING
    value = "" if gate["value"] is None else f" {gate['value']:.4g}"
    limit = "" if gate["limit"] is None else f"limit {gate['limit']:.4g}"
    remarks = ", ".join(text for text in (limit, "" if gate["required"] else "optional") if text)
    return f"{gate['status']}{value}" + (f" ({remarks})" if remarks else "")


def _latency_rows(candidates: Sequence[Document]) -> list[Row]:
    tables = [{bucket["batch"]: bucket for bucket in candidate["latency"]} for candidate in candidates]
    batches = sorted({batch for table in tables for batch in table})
    return [[f"batch {batch}", *(_latency(table.get(batch)) for table in tables)] for batch in batches]


def _latency(bucket: Document | None) -> str:
    if bucket is None:
        return NOTHING
    plain = f"{bucket['plain_p50_ms']:.2f}/{bucket['plain_p99_ms']:.2f}"
    compiled = f"{bucket['xla_p50_ms']:.2f}/{bucket['xla_p99_ms']:.2f}"
    level = {True: "", False: ", over the service level", None: ", not judged"}[bucket["within_slo"]]
    return f"{plain}, {compiled}: {bucket['faster']} is faster{level}"


def _slice_part(part: Document, width: int, several: bool) -> str:
    """The slices that differ most, and some that cannot be told."""
    ranked = [entry for entry in part["entries"] if entry["difference"] is not None][:DIFFERING_SLICES]
    undefined = [entry for entry in part["entries"] if entry["difference"] is None]
    chosen = [*ranked, *undefined[:UNDEFINED_SLICES]]
    if not chosen:
        return ""
    frameworks = [name for name in FRAMEWORKS if any(name in entry["values"] for entry in chosen)]
    head = ["", "rows", *frameworks, "difference"]
    rows = [
        [
            f"{entry['key']}={entry['value']}",
            "/".join(dict.fromkeys(str(size) for size in entry["sizes"].values())),
            *(shown(entry["values"][name]) if name in entry["values"] else NOTHING for name in frameworks),
            shown(entry["difference"], "+.4f"),
        ]
        for entry in chosen
    ]
    run = f" of run {part['pipeline_run_id']}" if several else ""
    text = indented(f"SLICES{run} that differ most in {part['metric']} (keras - lightning)", width, by=0) + columns([head, *rows], width)
    hidden = len(undefined) - UNDEFINED_SLICES
    return text + (indented(f"and {hidden} more without a difference (see --json)", width) if hidden > 0 else "")


def _notes(document: Document, width: int) -> str:
    lines = []
    several = len(document["runs"]) > 1
    for candidate in document["candidates"]:
        name = _name(candidate, several)
        if candidate["stopped"]:
            lines.append(f"{name} was stopped: {candidate['stopped']}")
        lines += [f"{name}, not checked: {text}" for text in candidate["not_done"]]
        lines += _findings(name, [check for check in candidate["checks"] if check["outcome"] == "failed"])
    lines += [f"gone: {text}" for run in document["runs"] for text in run["missing_artifacts"]]
    return "".join(indented(line, width, by=0) for line in lines)


def _findings(name: str, failed: Sequence[Document]) -> list[str]:
    """Checks beyond their limits; they bless nothing, so the first few are told and the others counted."""
    lines = [
        f"{name}, look at {check['name']}: {shown(check['value'])}, limit {shown(check['limit'])}; {check['detail']}"
        for check in failed[:FINDINGS]
    ]
    hidden = len(failed) - FINDINGS
    return [*lines, f"{name}: {hidden} more findings (see --json)"] if hidden > 0 else lines


def _link(document: Document, width: int) -> str:
    # An address is written whole, whatever the width: a wrapped one cannot be followed.
    link = document["mlflow_compare"]
    if link is None:
        return indented("MLflow compare page: needs two training runs that are in the MLflow store of this home", width, by=0)
    return indented("in the MLflow UI (`tandem ui`):", width, by=0) + f"  {printable(link)}\n"
