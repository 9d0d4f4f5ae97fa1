import datetime
import json
import multiprocessing
import sqlite3

import pytest

from components.core.errors import StoreError
from components.core.ledger import EMPTY, NO_ENTRY, Draft, Entry, Head, Subject, make_entry, read_export, read_head, verify, write_export
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, PublicKey, PublicKeys

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)


class People:
    """An admin, two people, the service, and a stranger whose key nobody enrolled."""

    def __init__(self):
        self.ada, self.ben, self.eve, self.service, self.stranger = (PrivateKey.generate() for _ in range(5))
        roles = ((self.ada, "ada", "admin"), (self.ben, "ben", "person"), (self.eve, "eve", "person"), (self.service, "tandem", "service"))
        self.keys = PublicKeys(
            PublicKey(public=key.public, owner=owner, role=role, enrolled_by="0" * 16, enrolled_at=START.isoformat()).signed_by(self.ada)
            for key, owner, role in roles
        )


@pytest.fixture(scope="module")
def people():
    return People()


def draft(kind="approve", actor="ben", known_by="personal_key", **changed):
    return Draft(kind=kind, subject=SUBJECT, actor=actor, known_by=known_by, **changed)


def chain(*signed, start=START):
    """Entries of (draft, key), a minute apart."""
    entries, head = [], EMPTY
    for number, (what, key) in enumerate(signed):
        entries.append(make_entry(what, head, key, at=start + datetime.timedelta(minutes=number)))
        head = Head(sequence=entries[-1].statement.sequence, digest=entries[-1].digest)
    return entries


@pytest.fixture
def whole(people):
    """Four entries that hold: by a person, by the service for a login, by an admin, by the service itself."""
    return chain(
        (draft("request", "ben"), people.ben),
        (draft("approve", "carl", "console_login"), people.service),
        (draft("approve", "ada"), people.ada),
        (draft("promote", "tandem", "service", details={"share": "5"}), people.service),
    )


def resigned(entry, key, **changed):
    """The entry, changed and signed again by `key`."""
    statement = entry.statement.model_copy(update={"key_id": key.key_id, **changed})
    return Entry(statement=statement, signature=key.sign(statement.message()))


def problem(entries, people, **options):
    return verify(entries, people.keys, **options).problem


def test_a_whole_ledger_holds(whole, people):
    found = verify(whole, people.keys, kept=Head(sequence=2, digest=whole[1].digest))
    assert (found.entries, found.problem, found.tail_checked) == (4, "", True)
    assert found.head == Head(sequence=4, digest=whole[3].digest)
    assert whole[0].statement.previous == NO_ENTRY
    assert verify([], people.keys).head == EMPTY


def test_the_digest_covers_statement_and_signature(whole):
    import hashlib

    body = json.dumps(whole[1].statement.model_dump(), sort_keys=True, separators=(",", ":")).encode()
    expected = hashlib.sha256(b"tandem ledger v1\n" + body + b"\n" + whole[1].signature.encode()).hexdigest()
    assert whole[1].digest == whole[2].statement.previous == expected


FIELDS = {
    "kind": "reject",
    "actor": "eve",
    "reason": "because",
    "at": "2026-03-01T12:00:01+00:00",
    "details": {"share": "100"},
    "subject": SUBJECT.model_copy(update={"model_digest": "c" * 64}),
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_changed_field_is_found_at_its_entry(whole, people, field, place):
    changed = whole[place].statement.model_copy(update={field: FIELDS[field]})
    whole[place] = Entry(statement=changed, signature=whole[place].signature)
    assert problem(whole, people).startswith(f"entry {place + 1}: ")


@pytest.mark.parametrize("place", range(4))
def test_a_flipped_bit_of_any_signature_is_found(whole, people, place):
    signature = whole[place].signature
    flipped = f"{int(signature[0], 16) ^ 1:x}{signature[1:]}"
    whole[place] = Entry(statement=whole[place].statement, signature=flipped)
    assert problem(whole, people) == f"entry {place + 1}: its signature does not hold; it was changed, or not signed by {owner(place)}"


def owner(place):
    return ("ben", "tandem", "ada", "tandem")[place]


def test_entries_that_were_taken_out_doubled_or_moved_are_found(whole, people):
    assert problem(whole[1:], people) == "entry 1: is numbered 2; an entry is missing, doubled or moved"
    assert problem([*whole[:1], *whole[2:]], people) == "entry 2: is numbered 3; an entry is missing, doubled or moved"
    assert problem([whole[0], whole[0]], people).startswith("entry 2: is numbered 1")
    assert problem([whole[0], whole[2], whole[1]], people).startswith("entry 2: ")


def test_a_missing_tail_shows_against_a_kept_head_only(whole, people):
    kept = Head(sequence=4, digest=whole[3].digest)
    assert problem(whole[:2], people) == ""
    assert verify(whole[:2], people.keys).tail_checked is False
    assert problem(whole[:2], people, kept=kept) == "entries 3 to 4 are missing: the kept head is entry 4"
    assert problem([], people, kept=kept) == "entries 1 to 4 are missing: the kept head is entry 4"


def test_a_ledger_that_was_made_anew_shows_against_a_kept_head(whole, people):
    anew = chain((draft("request", "ben"), people.ben), (draft("approve", "ada"), people.ada))
    kept = Head(sequence=2, digest=whole[1].digest)
    assert problem(anew, people) == ""
    assert problem(anew, people, kept=kept).startswith("entry 2: not the one whose digest was kept")


def test_an_inserted_entry_breaks_what_follows(whole, people):
    inserted = make_entry(draft("approve", "eve"), Head(sequence=1, digest=whole[0].digest), people.eve, at=START)
    assert problem([whole[0], inserted, *whole[1:]], people) == "entry 3: is numbered 2; an entry is missing, doubled or moved"
    moved = [resigned(entry, people.eve, sequence=entry.statement.sequence + 1) for entry in whole[1:]]
    assert problem([whole[0], inserted, *moved], people).startswith("entry 3: ")


def test_who_may_sign_what(people):
    cases = {
        "which no admin enrolled": (draft(actor="mallory"), people.stranger),
        "names ben as its actor, but eve's key signed it": (draft(actor="ben"), people.eve),
        "a key of role person cannot vouch for an actor known by console login": (draft(known_by="console_login"), people.eve),
        "a key of role person cannot vouch for an actor known by service": (draft("promote", known_by="service"), people.ben),
        "a key of role service cannot vouch for an actor known by personal key": (draft(actor="tandem"), people.service),
        "the service cannot decide by itself": (draft("approve", "tandem", "service"), people.service),
        "names ghost as its actor, but tandem's key signed it": (draft("promote", "ghost", "service"), people.service),
    }
    for words, signed in cases.items():
        assert words in problem(chain(signed), people), words


def test_a_key_that_was_not_valid_then_does_not_count(people):
    early = chain((draft(), people.ben), start=START - datetime.timedelta(days=1))
    assert problem(early, people) == "entry 1: signed at 2026-02-28T12:00:00.000000+00:00 by ben's key, which was not valid then"


def test_an_export_is_enough_to_verify(whole, people, tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(write_export(whole)))
    assert list(read_export(path)) == whole
    assert problem(read_export(path), people) == ""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[1].replace("carl", "eve") + "".join(lines[2:]))
    assert problem(read_export(path), people).startswith("entry 2: its signature does not hold")
    path.write_text(lines[0] + lines[1][:-9] + "\n")
    with pytest.raises(StoreError, match="line 2 is no ledger entry"):
        list(read_export(path))
    with pytest.raises(StoreError, match="cannot be read"):
        list(read_export(tmp_path / "nothing.jsonl"))
    (tmp_path / "head.json").write_text(Head(sequence=4, digest=whole[3].digest).to_json())
    assert read_head(tmp_path / "head.json").sequence == 4
    with pytest.raises(StoreError, match="no kept head"):
        read_head(path)


@pytest.fixture
def store(tmp_path):
    return LedgerStore(f"sqlite:///{tmp_path / 'ledger.db'}")


def test_the_table_keeps_the_chain(store, people, tmp_path):
    assert store.head() == EMPTY
    first = store.append(draft("request", "ben"), people.ben, at=START)
    second = store.append(draft("approve", "ada"), people.ada, at=START)
    again = LedgerStore(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert list(again.entries()) == [first, second]
    assert again.head() == Head(sequence=2, digest=second.digest)
    assert problem(again.entries(), people) == ""


@pytest.mark.parametrize("statement", ["UPDATE ledger_entries SET digest = 'x'", "DELETE FROM ledger_entries"])
def test_the_table_refuses_changes(store, people, tmp_path, statement):
    store.append(draft(), people.ben, at=START)
    with sqlite3.connect(tmp_path / "ledger.db") as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)


def test_who_writes_the_file_without_a_key_makes_no_decision_that_counts(store, people, tmp_path):
    """Full access to the SQLite file: triggers dropped, rows changed and added; every way is found and named."""
    store.append(draft("request", "ben"), people.ben, at=START)
    genuine = store.append(draft("reject", "ada"), people.ada, at=START)
    forged = make_entry(draft("approve", "ada"), store.head(), people.stranger, at=START)
    borrowed = Entry(statement=forged.statement.model_copy(update={"key_id": people.ada.key_id}), signature=genuine.signature)
    attacks = {
        "which no admin enrolled": [("INSERT INTO ledger_entries VALUES (3, ?, ?)", (forged.digest, forged.to_json()))],
        "its signature does not hold": [("INSERT INTO ledger_entries VALUES (3, ?, ?)", (borrowed.digest, borrowed.to_json()))],
        "entry 2: its signature": [("UPDATE ledger_entries SET entry = replace(entry, 'reject', 'approve') WHERE sequence = 2", ())],
        "entry 1: is numbered 2": [("DELETE FROM ledger_entries WHERE sequence = 1", ())],
    }
    for words, statements in attacks.items():
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            rows = connection.execute("SELECT * FROM ledger_entries").fetchall()
            for trigger in ("update", "delete"):
                connection.execute(f"DROP TRIGGER ledger_no_{trigger}")
            for statement, values in statements:
                connection.execute(statement, values)
        assert words in problem(store.entries(), people), words
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            connection.execute("DELETE FROM ledger_entries")
            connection.executemany("INSERT INTO ledger_entries VALUES (?, ?, ?)", rows)
        LedgerStore(f"sqlite:///{tmp_path / 'ledger.db'}")  # the triggers again
        assert problem(store.entries(), people) == ""


def test_a_row_that_is_no_entry_is_named(store, people, tmp_path):
    store.append(draft(), people.ben, at=START)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("INSERT INTO ledger_entries VALUES (2, 'x', '{}')")
    with pytest.raises(StoreError, match="entry 2 was changed"):
        list(store.entries())
    with pytest.raises(StoreError, match="its last entry was changed"):
        store.append(draft(), people.ben)


def test_a_database_that_cannot_be_used_is_told_without_its_password(tmp_path):
    (tmp_path / "no.db").write_text("this is no database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match=r"no\.db cannot be used: file is not a database"):
        LedgerStore(f"sqlite:///{tmp_path / 'no.db'}")
    with pytest.raises(StoreError) as told:
        LedgerStore("postgresql+psycopg2://user:secret@127.0.0.1:1/ledger")
    assert "secret" not in str(told.value)


def write_many(url, key_file, name, count):
    key = PrivateKey.read(key_file)
    store = LedgerStore(url)
    for number in range(count):
        store.append(draft("approve", name, reason=str(number)), key)


def test_writers_at_once_lose_nothing_and_keep_one_chain(people, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    context = multiprocessing.get_context("spawn")
    writers = []
    for name, key in (("ben", people.ben), ("eve", people.eve), ("ada", people.ada)):
        key.write(tmp_path / f"{name}.pem")
        writers.append(context.Process(target=write_many, args=(url, tmp_path / f"{name}.pem", name, 25)))
        writers[-1].start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    entries = list(LedgerStore(url).entries())
    assert problem(entries, people) == ""
    written = {(entry.statement.actor, entry.statement.reason) for entry in entries}
    assert len(entries) == 75
    assert written == {(name, str(number)) for name in ("ada", "ben", "eve") for number in range(25)}
