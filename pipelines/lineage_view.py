"""How `tandem lineage` is shown to people: a tree from the model to the data."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.text_layout import NARROWEST, indented, printable, wrap

UNKNOWN = "not recorded"
Document = dict[str, Any]


def lineage_text(document: Document, width: int) -> str:
    """The whole lineage.

    Args:
        document: from `pipelines.provenance.describe_version`.
        width: columns of the terminal.
    """
    parts = [_model(document["model"], width), _tree(document, width), _code(document, width)]
    runs = document["mlflow_runs"]
    if runs:
        parts.append(_listed("MLflow runs", runs, width))
    return "\n".join(parts)


def _model(model: Document, width: int) -> str:
    remarks = [model["framework"] or "", "blessed" if model["blessed"] == "true" else "not blessed"]
    remarks += [f"alias {alias}" for alias in model["aliases"]]
    if model["staging"]:
        remarks.append(f"staging: {model['staging']}")
    lines = [f"{model['name']}/{model['version']} ({', '.join(filter(None, remarks))})", f"digest {model['digest'] or UNKNOWN}"]
    if model["pushed_folder"]:
        lines.append(f"the bytes in {model['pushed_folder']} are this version's")
    return "".join(indented(line, width, by=0) for line in lines)


def _tree(document: Document, width: int) -> str:
    stages = {stage["execution_id"]: stage for stage in document["stages"]}
    direct = direct_makers({identity: set(stage["rests_on"]) for identity, stage in stages.items()})
    below = {maker for makers in direct.values() for maker in makers}
    roots = [identity for identity in stages if identity not in below]
    lines = list(_branches(roots, stages, direct, data=document["data"], shown=set()))
    return "".join(_branch_text(first, rest, text, width) for first, rest, text in lines)


def direct_makers(rests_on: Mapping[int, set[int]]) -> dict[int, list[int]]:
    """For each execution those it rests on directly, without those that another of them rests on anyway; the newest first."""
    everything: dict[int, set[int]] = {}

    def ancestors(identity: int) -> set[int]:
        if identity not in everything:
            makers = rests_on.get(identity, set())
            everything[identity] = makers.union(*(ancestors(maker) for maker in makers))
        return everything[identity]

    return {
        identity: sorted((maker for maker in makers if not any(maker in ancestors(other) for other in makers - {maker})), reverse=True)
        for identity, makers in rests_on.items()
    }


def _branches(
    identities: list[int],
    stages: Mapping[int, Document],
    direct: Mapping[int, list[int]],
    *,
    data: Document,
    shown: set[int],
    prefix: str = "",
) -> Iterator[tuple[str, str, str]]:
    """(prefix of the first line, of further lines, text) of each node, from the model down; a stage is shown once, then named."""
    for position, identity in enumerate(identities):
        last = position == len(identities) - 1
        first, rest = prefix + ("`- " if last else "|- "), prefix + ("   " if last else "|  ")
        stage = stages[identity]
        if identity in shown:
            yield first, rest, f"{stage['name']} (above)"
            continue
        shown.add(identity)
        yield first, rest, _stage_line(stage)
        makers = direct.get(identity, [])
        if stage["name"] == "ingest":
            yield f"{rest}`- ", f"{rest}   ", _data_line(data)
        yield from _branches(makers, stages, direct, data=data, shown=shown, prefix=rest)


def _stage_line(stage: Document) -> str:
    when = stage["started"][:19].replace("T", " ")
    return f"{stage['name']}: execution {stage['execution_id']} in run {stage['pipeline_run_id']}, {when} UTC, {stage['seconds']:.1f} s"


def _data_line(data: Document) -> str:
    rows = "" if data["rows"] is None else f", {data['rows']} rows"
    return f"data {data['path'] or UNKNOWN}: SHA-256 {data['sha256'] or UNKNOWN}{rows}"


def _branch_text(first: str, rest: str, text: str, width: int) -> str:
    lines = wrap(text, max(NARROWEST, width - len(first)))
    return "".join(f"{rest if number else first}{line}\n" for number, line in enumerate(lines))


def _code(document: Document, width: int) -> str:
    code = document["code"]
    dirty = {"true": " with changes that are not committed", "false": ""}.get(code["git_dirty"] or "", " (changes: unknown)")
    lines = [f"git commit: {code['git_commit'] or UNKNOWN}{dirty}", f"lock (SHA-256): {document['environment']['lock_digest'] or UNKNOWN}"]
    return "".join(indented(line, width, by=0) for line in lines) + _listed("code fingerprints", code["fingerprints"], width)


def _listed(title: str, values: Mapping[str, str], width: int) -> str:
    return f"{title}\n" + "".join(indented(f"{printable(name)}: {value}", width) for name, value in values.items())
