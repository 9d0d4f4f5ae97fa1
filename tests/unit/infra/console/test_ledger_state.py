"""The ledger as the pages show it: whole, broken, without keys, and why nothing can be decided."""

import datetime

import pytest
import sqlalchemy as sql

from components.core.errors import DecisionError
from components.core.ledger import Draft, Subject
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, PublicKey, PublicKeys
from infra.console.ledger_state import NO_KEY, decisions_of, read_ledger
from infra.console.settings import ConsoleSettings

AT = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)).isoformat(timespec="microseconds")


@pytest.fixture
def keys():
    return {role: PrivateKey.generate() for role in ("admin", "service", "person")}


@pytest.fixture
def settings(tmp_path, keys):
    admin = keys["admin"]
    entries = [
        PublicKey(public=key.public, owner=f"the {role}", role=role, enrolled_by=admin.key_id, enrolled_at=AT).signed_by(admin)
        for role, key in keys.items()
    ]
    PublicKeys(entries).write(tmp_path / "keys.json")
    keys["service"].write(tmp_path / "service.pem")
    return ConsoleSettings(
        ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}",
        public_keys=str(tmp_path / "keys.json"),
        service_key=str(tmp_path / "service.pem"),
        tracking_uri="x",
        artifact_root="x",
        metadata_store="x",
    )


@pytest.fixture
def store(settings, keys):
    store = LedgerStore(settings.ledger_url)
    subject = Subject(model="credit", version="1", model_digest="a" * 64, dossier_digest="b" * 64)
    for person in ("theo", "tina", "anna"):
        store.append(Draft(kind="request", subject=subject, actor=person, known_by="console_login"), keys["service"])
    return store


def test_a_ledger_that_holds_is_shown_whole_and_can_be_decided_on(store, settings, keys):
    state = read_ledger(store, settings)
    assert (len(state.entries), state.head, state.problem, state.disabled) == (3, store.head(), "", "")
    assert decisions_of(store, settings)[1].key_id == keys["service"].key_id


def test_the_first_bad_entry_is_named_and_what_is_behind_it_is_not_shown(store, settings, tmp_path):
    with sql.create_engine(settings.ledger_url).begin() as connection:
        connection.execute(sql.text("DROP TRIGGER ledger_no_update"))
        connection.execute(sql.text("UPDATE ledger_entries SET entry = replace(entry, 'tina', 'mara') WHERE sequence = 2"))
    state = read_ledger(store, settings)
    assert [entry.statement.actor for entry in state.entries] == ["theo"]
    assert state.problem.startswith("entry 2: ")
    assert "does not hold" in state.disabled


def test_a_row_that_is_no_entry_is_named(store, settings):
    with sql.create_engine(settings.ledger_url).begin() as connection:
        connection.execute(sql.text("DROP TRIGGER ledger_no_update"))
        connection.execute(sql.text("UPDATE ledger_entries SET entry = '{}' WHERE sequence = 3"))
    state = read_ledger(store, settings)
    assert len(state.entries) == 2
    assert "entry 3 was changed" in state.problem


def test_without_keys_nothing_is_shown_as_checked(store, settings, tmp_path):
    gone = settings.model_copy(update={"public_keys": str(tmp_path / "gone.json")})
    state = read_ledger(store, gone)
    assert state.entries == ()
    assert "it cannot be checked" in state.problem
    empty = read_ledger(LedgerStore(f"sqlite:///{tmp_path / 'empty.db'}"), gone)
    assert empty.problem == ""
    assert "tandem keys init" in empty.disabled


@pytest.mark.parametrize(
    ("path", "line"), [("", NO_KEY), ("gone.pem", NO_KEY), ("person.pem", "is a person's key"), ("unknown.pem", "no admin enrolled it")]
)
def test_without_a_key_of_the_service_nothing_can_be_decided(store, settings, keys, tmp_path, path, line):
    keys["person"].write(tmp_path / "person.pem")
    PrivateKey.generate().write(tmp_path / "unknown.pem")
    told = settings.model_copy(update={"service_key": str(tmp_path / path) if path else ""})
    state = read_ledger(store, told)
    assert line in state.disabled
    assert len(state.entries) == 3
    with pytest.raises(DecisionError):
        decisions_of(store, told)
