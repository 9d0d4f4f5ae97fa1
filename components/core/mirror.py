"""Carries the split of traffic to what others look at: the model server's configuration and the registry's aliases. They decide nothing.

A promotion, the router and an operator's command may all do so at the same moment. One after the other does, and each reads the ledger
while it is its turn: the last one that writes writes what the ledger says last.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from components.core.contracts import PRODUCTION_SUFFIX, TrackingSpec
from components.core.ledger import Entry
from components.core.model_server import ModelServer, config_path, write_config
from components.core.placement import one_writer
from components.core.promotion import ProductionSpec
from components.core.registry import Registry
from components.core.rollout import Traffic, traffic

LABELS = ("champion", "canary", "previous")
ReadEntries = Callable[[], Iterable[Entry]]


def mirror(read: ReadEntries, model: str, *, production: ProductionSpec, tracking: TrackingSpec) -> Traffic:
    """Carries the ledger to both mirrors of one model; returns its split.

    Args:
        read: gives the ledger as it is now, checked.
        model: name in the registry, without `-prod`.
        production: the model server.
        tracking: the registry.

    Raises:
        ServingError: the model server does not answer.
        StoreError: the registry cannot be written.
    """
    with one_writer(_folder(production)):
        splits = _all_traffic(read())
        split = next(split for split in splits if split.model == model)
        _write(splits, production)
        _set_aliases(split, tracking)
    return split


def mirror_config(read: ReadEntries, production: ProductionSpec) -> None:
    """Writes `models.config`; labels only of what the server said is loaded.

    Args:
        read: gives the ledger as it is now, checked.
        production: the model server.

    Raises:
        ServingError: the server does not answer.
    """
    with one_writer(_folder(production)):
        _write(_all_traffic(read()), production)


def _folder(production: ProductionSpec) -> Path:
    folder = config_path(production.serving_root).parent
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _all_traffic(entries: Iterable[Entry]) -> list[Traffic]:
    """The split of every model of the ledger."""
    entries = list(entries)
    return [traffic(entries, model) for model in sorted({entry.statement.subject.model for entry in entries})]


def _write(splits: Iterable[Traffic], production: ProductionSpec) -> None:
    splits = list(splits)
    server = ModelServer(production.server)
    available = {split.model: server.available(split.model) for split in splits if split.served}
    write_config(splits, serving_root=production.serving_root, base_path=production.base_path, available=available)


def _set_aliases(split: Traffic, tracking: TrackingSpec) -> None:
    """Sets the aliases of `<name>-prod` to what the ledger says, and takes away those that stand no more."""
    registry = Registry(tracking)
    name = split.model + PRODUCTION_SUFFIX
    if name not in registry.names():
        return
    there = {alias: version.version for version in registry.versions(name) for alias in version.aliases}
    registry.set_aliases(name, {label: split.labels.get(label) for label in LABELS if there.get(label) != split.labels.get(label)})
