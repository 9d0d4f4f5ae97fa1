"""Two questions to MLflow's SQLite file itself: its client costs 1.6 s of CPU, too much for commands that only read.

The tables and columns named here are held by a test against the MLflow release that is locked.
"""

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from components.core.errors import StoreError

CHAMPION_ALIAS = "champion"


def experiments_of(mlflow_store: Path, run_ids: Sequence[str]) -> list[str]:
    """Ids of the experiments that hold these MLflow runs; empty when there is no such file.

    Raises:
        StoreError: the file cannot be read as MLflow's store.
    """
    if not run_ids:
        return []
    marks = ",".join("?" * len(run_ids))
    query = f"SELECT DISTINCT experiment_id FROM runs WHERE run_uuid IN ({marks}) ORDER BY experiment_id"  # noqa: S608 - only marks
    return [row[0] for row in _ask(mlflow_store, query, run_ids)]


def champion_of(mlflow_store: Path, name: str) -> tuple[str, str] | None:
    """(version, tree digest) that the alias `champion` of a registered model points to; None when there is none.

    The digest is empty when the version has no such tag.

    Raises:
        StoreError: the file cannot be read as MLflow's store.
    """
    query = (
        "SELECT aliases.version, tags.value FROM registered_model_aliases AS aliases LEFT JOIN model_version_tags AS tags "
        "ON tags.name = aliases.name AND tags.version = aliases.version AND tags.key = 'tree_digest' "
        "WHERE aliases.name = ? AND aliases.alias = ?"
    )
    rows = _ask(mlflow_store, query, [name, CHAMPION_ALIAS])
    return (rows[0][0], rows[0][1]) if rows else None


def _ask(mlflow_store: Path, query: str, values: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows as text, a missing value as an empty one; no row when there is no such file."""
    if not mlflow_store.is_file():
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(mlflow_store))}?mode=ro", uri=True, timeout=10)) as store:
            return [tuple("" if value is None else str(value) for value in row) for row in store.execute(query, list(values))]
    except sqlite3.Error as error:
        raise StoreError(f"{mlflow_store}: cannot be read as MLflow's store: {error}; see `tandem doctor`") from error
