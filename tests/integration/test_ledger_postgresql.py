"""The ledger on a real PostgreSQL server."""

import multiprocessing

import pytest
import sqlalchemy as sql

from components.core.errors import StoreError
from components.core.ledger import EMPTY, Draft, Subject, verify
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, PublicKey, PublicKeys

SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)
LONG_AGO = "2020-01-01T00:00:00+00:00"


def draft(actor, reason):
    return Draft(kind="approve", subject=SUBJECT, actor=actor, known_by="personal_key", reason=reason)


def write_many(url, key_file, name, count):
    key, store = PrivateKey.read(key_file), LedgerStore(url)
    for number in range(count):
        store.append(draft(name, str(number)), key)


@pytest.fixture
def database(postgresql):
    """A database of the test's own."""
    url = sql.make_url(postgresql)
    engine = sql.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sql.text("CREATE DATABASE ledger"))
    yield url.set(database="ledger").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sql.text("DROP DATABASE ledger WITH (FORCE)"))
    engine.dispose()


def test_writers_at_once_lose_nothing_and_keep_one_chain(database, tmp_path):
    people = {name: PrivateKey.generate() for name in ("ada", "ben", "eve")}
    keys = PublicKeys(
        PublicKey(public=key.public, owner=name, role="admin", enrolled_by="0" * 16, enrolled_at=LONG_AGO).signed_by(people["ada"])
        for name, key in people.items()
    )
    context = multiprocessing.get_context("spawn")
    writers = []
    for name, key in people.items():
        key.write(tmp_path / f"{name}.pem")
        writers.append(context.Process(target=write_many, args=(database, tmp_path / f"{name}.pem", name, 20)))
        writers[-1].start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    store = LedgerStore(database)
    entries = list(store.entries())
    found = verify(entries, keys)
    assert (found.problem, found.entries, store.head()) == ("", 60, found.head)
    assert {(entry.statement.actor, entry.statement.reason) for entry in entries} == {
        (name, str(number)) for name in people for number in range(20)
    }


@pytest.mark.parametrize("statement", ["UPDATE ledger_entries SET digest = 'x'", "DELETE FROM ledger_entries", "TRUNCATE ledger_entries"])
def test_the_table_refuses_changes(database, statement):
    store, key = LedgerStore(database), PrivateKey.generate()
    assert store.head() == EMPTY
    entry = store.append(draft("ada", ""), key)
    engine = sql.create_engine(database)
    with pytest.raises(sql.exc.DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(sql.text(statement))
    engine.dispose()
    assert list(LedgerStore(database).entries()) == [entry]


def test_a_server_that_does_not_answer_is_told_without_its_password():
    with pytest.raises(StoreError) as told:
        LedgerStore("postgresql+psycopg2://user:secret@127.0.0.1:1/ledger")
    assert "cannot be used" in str(told.value)
    assert "secret" not in str(told.value)
