"""What changed between two runs of a stage, in the words of pipeline.toml."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

SHORT_DIGEST = 12
LONGEST_VALUE = 60

_TABLES = {"training": "training", "audit_spec": "audit"}
"""Parameter -> table of pipeline.toml, where all its keys have the same names."""
_KEYS = {
    "data_spec": {
        "features": "features",
        "label": "label",
        "slices": "slices.by",
        "bands": "slices.bands",
        "null_tokens": "data.null_tokens",
        "ignored_columns": "data.ignored_columns",
        "split_weights": "data.split",
    },
    "serving_spec": {
        "batch_buckets": "serving.batch_buckets",
        "p99_ms": "slo.p99_ms",
        "slo_max_batch": "slo.max_batch",
        "parity_tolerance": "serving.parity_tolerance",
        "xla_tolerance": "serving.xla_tolerance",
    },
    "tracking": {"uri": "directories.home", "artifact_root": "directories.home"},
}
"""Parameter -> its first key -> key of pipeline.toml."""
_PLAIN = {
    "name": "key name",
    "label": "key label.name",
    "classes": "key label.classes",
    "positive": "key label.positive",
    "data_path": "data path",
    "serving_root": "key directories.serving",
    "checkpoint_root": "key directories.home",
}
_CODE = {
    "ingest": "components/ingest, components/core",
    "transform": "the use case's features.py and what lies beside it",
    "trainer": "trainers, components/core or the use case's model",
    "exporter": "components/exporter, components/core",
    "xla-compiler": "components/xla_compiler, components/core",
    "auditor": "components/auditor, components/core",
    "registrar": "components/registrar, components/core",
    "pusher": "components/pusher, components/core",
}


def describe_changes(stage: str, before: Mapping[str, str], now: Mapping[str, str], *, lock_changed: bool) -> list[str]:
    """One line for each change that makes a stage execute again, in words; empty when nothing changed.

    Args:
        stage: node id.
        before: its parameters in a run that is over.
        now: its parameters as planned.
        lock_changed: the locked environment is another one; it is a part of every code fingerprint.
    """
    lines: list[str] = []
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if old != new:
            lines += _describe(stage, name, old, new, lock_changed=lock_changed)
    return list(dict.fromkeys(lines))


def _describe(stage: str, name: str, old: str | None, new: str | None, *, lock_changed: bool) -> list[str]:
    if name == "code_fingerprint":
        return [_code_change(stage, lock_changed=lock_changed)]
    if name in ("input_digest", "dataset_digest"):
        return [f"data changed (SHA-256 {_digest(old)} -> {_digest(new)})"]
    if name == "lock_digest":
        return [f"environment changed (requirements.lock {_digest(old)} -> {_digest(new)})"]
    if name == "champion":
        return [f"champion changed ({_champion(old)} -> {_champion(new)})"]
    if name in _TABLES or name in _KEYS:
        return _contract_changes(name, _json(old), _json(new))
    return [f"{_PLAIN.get(name, f'parameter {name}')} {_value(old)} -> {_value(new)}"]


def _code_change(stage: str, *, lock_changed: bool) -> str:
    if lock_changed:
        return "environment changed (requirements.lock), perhaps code too"
    kind = next((kind for kind in _CODE if stage == kind or stage.endswith(f"-{kind}")), "")
    return f"code changed ({_CODE[kind]})" if kind else "code changed"


def _digest(text: str | None) -> str:
    return text[:SHORT_DIGEST] if text else "none"


def _champion(text: str | None) -> str:
    champion = _json(text)
    return f"{champion['name']}/{champion['version']}" if isinstance(champion, dict) else "none"


def _json(text: str | None) -> Any:
    """The value of a parameter that holds JSON; the text itself when it does not."""
    try:
        return json.loads(text) if text else None
    except json.JSONDecodeError:
        return text


def _contract_changes(name: str, old: Any, new: Any) -> list[str]:
    lines = []
    for path, before, now in _differences(old, new, ()):
        lines.append(f"key {_toml_key(name, path)} {_value(before)} -> {_value(now)}")
    return lines


def _toml_key(name: str, path: tuple[str, ...]) -> str:
    if name in _TABLES:
        return ".".join([_TABLES[name], *path])
    first = _KEYS[name].get(path[0], f"{name}.{path[0]}") if path else name
    return ".".join([first, *path[1:]])


def _differences(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Walks two JSON values; lists of named things are compared by name, other lists as a whole."""
    old, new = _named(old), _named(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(old.get(key), new.get(key), (*path, key))
        if list(old) != list(new) and set(old) == set(new):
            yield (*path, "order"), list(old), list(new)
    elif old != new:
        yield path, old, new


def _named(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
        return {item["name"]: {key: part for key, part in item.items() if key != "name"} for item in value}
    return value


def _value(value: Any) -> str:
    """A value as people read it; long ones are cut."""
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
