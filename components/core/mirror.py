"""Carries the split of traffic to what others look at: the model server's configuration and the registry's aliases. They decide nothing."""

from collections.abc import Iterable

from components.core.contracts import PRODUCTION_SUFFIX, TrackingSpec
from components.core.ledger import Entry
from components.core.model_server import ModelServer, write_config
from components.core.promotion import ProductionSpec
from components.core.registry import Registry
from components.core.rollout import Traffic, traffic

LABELS = ("champion", "canary", "previous")


def all_traffic(entries: Iterable[Entry]) -> list[Traffic]:
    """The split of every model of the ledger."""
    entries = list(entries)
    return [traffic(entries, model) for model in sorted({entry.statement.subject.model for entry in entries})]


def mirror(entries: Iterable[Entry], model: str, *, production: ProductionSpec, tracking: TrackingSpec) -> Traffic:
    """Carries the ledger to both mirrors of one model; returns its split.

    Raises:
        ServingError: the model server does not answer.
        StoreError: the registry cannot be written.
    """
    splits = all_traffic(entries)
    split = next(split for split in splits if split.model == model)
    mirror_config(splits, production)
    mirror_aliases(split, tracking)
    return split


def mirror_config(traffics: Iterable[Traffic], production: ProductionSpec) -> None:
    """Writes `models.config`; labels only of what the server said is loaded.

    Raises:
        ServingError: the server does not answer.
    """
    traffics = list(traffics)
    server = ModelServer(production.server)
    available = {split.model: server.available(split.model) for split in traffics if split.served}
    write_config(traffics, serving_root=production.serving_root, base_path=production.base_path, available=available)


def mirror_aliases(split: Traffic, tracking: TrackingSpec) -> None:
    """Sets the aliases of `<name>-prod` to what the ledger says, and takes away those that stand no more.

    Raises:
        StoreError: the registry cannot be written.
    """
    registry = Registry(tracking)
    name = split.model + PRODUCTION_SUFFIX
    if name not in registry.names():
        return
    there = {alias: version.version for version in registry.versions(name) for alias in version.aliases}
    registry.set_aliases(name, {label: split.labels.get(label) for label in LABELS if there.get(label) != split.labels.get(label)})
