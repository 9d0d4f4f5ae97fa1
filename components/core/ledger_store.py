"""Where the ledger lies: one append-only table, SQLite by default, PostgreSQL by URL."""

import datetime
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sql
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from components.core.errors import StoreError
from components.core.ledger import EMPTY, Draft, Entry, Head, make_entry
from components.core.signing import PrivateKey

BUSY_TIMEOUT_S = 30
"""Longest wait for another writer of the same SQLite file."""
_ATTEMPTS = 50
_POSTGRESQL_LOCK = 7_415_113
"""Key of the advisory lock under which the table is made."""
_METADATA = sql.MetaData()
_ENTRIES = sql.Table(
    "ledger_entries",
    _METADATA,
    sql.Column("sequence", sql.BigInteger().with_variant(sql.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sql.Column("digest", sql.String(64), nullable=False, unique=True),
    sql.Column("entry", sql.Text(), nullable=False),
)
_SQLITE_GUARDS = tuple(
    f"CREATE TRIGGER IF NOT EXISTS ledger_no_{verb.lower()} BEFORE {verb} ON ledger_entries "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)
_POSTGRESQL_GUARDS = (
    "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
    "CREATE OR REPLACE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()",
)


class HeadMoved(StoreError):
    """Another entry came between reading the ledger and writing to it."""


class LedgerStore:
    """The table of a ledger.

    Triggers refuse updates and deletes: they keep honest programs from mistakes. What keeps out the others is the signature.
    """

    def __init__(self, url: str) -> None:
        """Opens the ledger and makes its table where there is none.

        Args:
            url: of SQLAlchemy: `sqlite:////path/ledger.db` or `postgresql+psycopg2://...`.

        Raises:
            StoreError: the database cannot be used.
        """
        try:
            self.url = sql.make_url(url)
            self._engine = sql.create_engine(self.url, **_options(self.url.get_backend_name()))
            if self._engine.dialect.name == "sqlite":
                _begin_immediately(self._engine)
            with self._engine.begin() as connection:
                if self._engine.dialect.name == "sqlite":
                    _METADATA.create_all(connection)
                    guards: tuple[str, ...] = _SQLITE_GUARDS
                else:
                    guards = _created_on_postgresql(connection)
                for statement in guards:
                    connection.execute(sql.text(statement))
        except ImportError as error:
            raise StoreError(f"the ledger at {self.place} cannot be used: {error}; install that driver") from error
        except SQLAlchemyError as error:
            raise StoreError(f"the ledger at {self.place} cannot be used: {_cause(error)}") from error

    @property
    def place(self) -> str:
        """The URL without its password."""
        return self.url.render_as_string(hide_password=True)

    def append(self, draft: Draft, signer: PrivateKey, *, at: datetime.datetime | None = None, expected: Head | None = None) -> Entry:
        """Signs and enters `draft` behind the last entry, whoever else writes meanwhile.

        Args:
            draft: what is entered.
            signer: who signs.
            at: when; now where None.
            expected: the head that the writer decided on; where another entry came meanwhile nothing is entered.

        Raises:
            HeadMoved: the head is not `expected` any more; read the ledger again and decide anew.
            StoreError: the database cannot be written.
        """
        for _ in range(_ATTEMPTS):
            try:
                with self._engine.begin() as connection:
                    head = _head(connection)
                    if expected is not None and head != expected:
                        raise HeadMoved(f"the ledger at {self.place} has a new entry {head.sequence}; read it and decide anew")
                    entry = make_entry(draft, head, signer, at=at)
                    row = {"sequence": entry.statement.sequence, "digest": entry.digest, "entry": entry.to_json()}
                    connection.execute(sql.insert(_ENTRIES).values(row))
                return entry
            except ValidationError as error:
                raise StoreError(f"the ledger at {self.place}: its last entry was changed: it is no entry any more") from error
            except IntegrityError:
                continue  # another writer took the place: sign again, behind its entry
            except SQLAlchemyError as error:
                raise StoreError(f"the ledger at {self.place} cannot be written: {_cause(error)}") from error
        raise StoreError(f"the ledger at {self.place} is written by others all the time; try again")

    def head(self) -> Head:
        """The last entry's place and digest."""
        with self._reading() as connection:
            return _head(connection)

    def entries(self) -> Iterator[Entry]:
        """All entries in their order.

        Raises:
            StoreError: the database cannot be read, or a row is no entry; its number is named.
        """
        query = sql.select(_ENTRIES.c.sequence, _ENTRIES.c.entry).order_by(_ENTRIES.c.sequence)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        for sequence, text in rows:
            try:
                yield Entry.model_validate_json(text)
            except ValidationError as error:
                raise StoreError(f"the ledger at {self.place}: entry {sequence} was changed: it is no entry any more") from error

    def _reading(self) -> Any:
        try:
            return self._engine.connect()
        except SQLAlchemyError as error:
            raise StoreError(f"the ledger at {self.place} cannot be read: {_cause(error)}") from error


def _created_on_postgresql(connection: sql.Connection) -> tuple[str, ...]:
    """Makes the table, once, also where several come at the same moment; returns the guards that it still needs."""
    connection.execute(sql.text(f"SELECT pg_advisory_xact_lock({_POSTGRESQL_LOCK})"))
    if sql.inspect(connection).has_table(_ENTRIES.name):
        return ()
    _METADATA.create_all(connection)
    return _POSTGRESQL_GUARDS


def _options(backend: str) -> dict[str, Any]:
    return {"connect_args": {"timeout": BUSY_TIMEOUT_S}} if backend == "sqlite" else {"pool_pre_ping": True}


def _begin_immediately(engine: sql.Engine) -> None:
    """A transaction takes SQLite's write lock when it begins, so that no two writers read the same head."""

    @sql.event.listens_for(engine, "connect")
    def _connect(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @sql.event.listens_for(engine, "begin")
    def _begin(connection: sql.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _head(connection: sql.Connection) -> Head:
    query = sql.select(_ENTRIES.c.entry).order_by(_ENTRIES.c.sequence.desc()).limit(1)
    text = connection.execute(query).scalar()
    # From the entry itself: the column beside it is an index, and nothing rests on it.
    return Entry.model_validate_json(text).head if text else EMPTY


def _cause(error: SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).strip().splitlines()[0]
