"""`tandem keys`, `ledger` and `verify` on a real SQLite ledger, as people call them."""

import json

import pytest

from components.core.ledger import Draft, Subject
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey
from pipelines.cli import main

SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)


class Place:
    """A folder with keys of ada (admin) and ben, a list that holds both, and a ledger of three entries."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        for name in ("ada", "ben"):
            assert self.call("keys", "new", "--key", f"{name}.pem")[0] == 0
        assert self.call("keys", "init", "ada", "--key", "ada.pem")[0] == 0
        self.ada, self.ben = (PrivateKey.read(folder / f"{name}.pem") for name in ("ada", "ben"))
        assert self.call("keys", "enrol", "ben", self.ben.public, "--key", "ada.pem")[0] == 0
        self.store = LedgerStore(f"sqlite:///{folder / '.tandem' / 'ledger.db'}")
        self.enter("request", "ben", self.ben)
        self.enter("approve", "ada", self.ada, reason="figures hold\x1b[31m")
        self.enter("retire", "ada", self.ada, details={"after": "5"})

    def enter(self, kind, actor, key, **changed):
        self.store.append(Draft(kind=kind, subject=SUBJECT, actor=actor, known_by="personal_key", **changed), key)

    def call(self, *words):
        self.capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = ended.code
        said = self.capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    for name in ("TANDEM_LEDGER", "TANDEM_PUBLIC_KEYS", "TANDEM_KEY", "TANDEM_KEY_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, capsys)


def test_the_list_of_keys(place):
    code, out, _ = place.call("keys", "list", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["root"] == place.ada.key_id
    assert [(key["owner"], key["role"], key["key_id"], key["revoked_at"]) for key in document["keys"]] == [
        ("ada", "admin", place.ada.key_id, None),
        ("ben", "person", place.ben.key_id, None),
    ]
    code, out, _ = place.call("keys", "list")
    assert out.splitlines()[0] == f"{place.ada.key_id}  admin    ada  valid, root"


def test_only_an_admin_enrols_and_revokes(place):
    stranger = PrivateKey.generate()
    code, _, err = place.call("keys", "enrol", "eve", stranger.public, "--key", "ben.pem")
    assert (code, err) == (2, f"tandem: key {place.ben.key_id} is no valid admin key of the list; an admin does this, with --key\n")
    assert place.call("keys", "enrol", "eve", "no key", "--key", "ada.pem")[0] == 2
    assert "is on the list already" in place.call("keys", "enrol", "eve", place.ben.public, "--key", "ada.pem")[2]
    assert "is the root" in place.call("keys", "revoke", place.ada.key_id, "--key", "ada.pem")[2]
    assert "no key 'ffff'" in place.call("keys", "revoke", "ffff", "--key", "ada.pem")[2]
    assert "is begun once" in place.call("keys", "init", "ada", "--key", "ada.pem")[2]
    code, out, _ = place.call("keys", "revoke", place.ben.key_id, "--key", "ada.pem")
    assert (code, f"revoked key {place.ben.key_id} of ben" in out) == (0, True)
    assert "revoked 20" in place.call("keys", "list")[1]


def test_a_whole_ledger_verifies_from_its_export_alone(place):
    assert place.call("ledger", "--export", "ledger.jsonl", "--head", "head.json")[0] == 0
    (place.folder / "keys.json").write_bytes((place.folder / ".tandem" / "public_keys.json").read_bytes())
    for name in ("ledger.db", "public_keys.json"):
        (place.folder / ".tandem" / name).unlink()
    code, out, _ = place.call("verify", "ledger.jsonl", "--keys", "keys.json", "--head", "head.json", "--json")
    document = json.loads(out)
    assert (code, document["entries"], document["problem"], document["tail_checked"]) == (0, 3, "", True)
    assert document["root"] == place.ada.key_id


def test_without_a_kept_head_the_tail_is_not_checked_and_that_is_said(place):
    code, out, _ = place.call("verify")
    assert code == 0
    assert out.splitlines()[0].startswith("3 entries hold, head ")
    assert out.splitlines()[1].startswith("not checked: whether a tail is missing")


def test_the_first_bad_entry_is_named(place):
    place.call("ledger", "--export", "ledger.jsonl", "--head", "head.json")
    lines = (place.folder / "ledger.jsonl").read_text().splitlines(keepends=True)
    (place.folder / "bad.jsonl").write_text(lines[0] + lines[1].replace("figures", "wishes_") + lines[2])
    code, out, _ = place.call("verify", "bad.jsonl")
    assert code == 1
    assert "does not hold: entry 2: its signature does not hold; it was changed, or not signed by ada" in out
    (place.folder / "short.jsonl").write_text("".join(lines[:2]))
    code, out, _ = place.call("verify", "short.jsonl", "--head", "head.json")
    assert (code, "entries 3 to 3 are missing: the kept head is entry 3" in out) == (1, True)
    (place.folder / "junk.jsonl").write_text(lines[0] + "junk\n")
    code, _, err = place.call("verify", "junk.jsonl")
    assert (code, "line 2 is no ledger entry" in err) == (2, True)


def test_decisions_of_a_revoked_key_count_only_from_before(place):
    place.call("keys", "revoke", place.ben.key_id, "--key", "ada.pem")
    assert place.call("verify")[0] == 0
    place.enter("approve", "ben", place.ben)
    code, out, _ = place.call("verify")
    assert (code, "by ben's key, which was not valid then" in out) == (1, True)


def test_the_ledger_reads_well_and_commands_no_terminal(place):
    code, out, _ = place.call("ledger", "credit-risk")
    assert code == 0
    assert "\x1b" not in out
    assert "request      credit-risk/3  ben (by key" in out
    assert "figures hold\\x1b[31m" in out
    assert "after: 5" in out
    assert place.call("ledger", "other")[1] == "no entry yet\n"
    document = json.loads(place.call("ledger", "--json")[1])
    assert [entry["kind"] for entry in document["entries"]] == ["request", "approve", "retire"]
    assert document["entries"][1]["previous"] == document["entries"][0]["digest"]


def test_what_is_not_there_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words, remedy in (
        (["ledger"], "--home"),
        (["verify"], "--home"),
        (["keys", "list"], "--home"),
        (["keys", "init", "ada", "--key", "none.pem"], "tandem keys new"),
        (["verify", "--keys", "none.json"], "tandem keys init"),
    ):
        assert main(words) == 2
        assert remedy in capsys.readouterr().err


def test_every_action_on_keys_prints_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        assert main(["keys", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = {name: call("new", "--key", f"{name}.pem") for name in ("ada", "ben")}
    assert made["ben"]["public"] == (tmp_path / "ben.pem.pub").read_text().strip()
    assert made["ben"] == {
        "schema_version": 1,
        "key_id": PrivateKey.read(tmp_path / "ben.pem").key_id,
        "public": made["ben"]["public"],
        "private_file": "ben.pem",
        "public_file": "ben.pem.pub",
    }
    begun = call("init", "ada", "--key", "ada.pem")
    assert (begun["root"], [key["owner"] for key in begun["keys"]]) == (made["ada"]["key_id"], ["ada"])
    enrolled = call("enrol", "ben", "ben.pem.pub", "--key", "ada.pem")
    assert [(key["owner"], key["revoked_at"]) for key in enrolled["keys"]] == [("ada", None), ("ben", None)]
    revoked = call("revoke", made["ben"]["key_id"], "--key", "ada.pem")
    assert [bool(key["revoked_at"]) for key in revoked["keys"]] == [False, True]
    assert revoked == call("list")


def test_a_key_with_a_passphrase(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TANDEM_KEY_PASSPHRASE", "long and secret")
    assert main(["keys", "new", "--key", "k.pem"]) == 0
    assert "long and secret" not in capsys.readouterr().out
    assert main(["keys", "init", "ada", "--key", "k.pem"]) == 0
    monkeypatch.delenv("TANDEM_KEY_PASSPHRASE")
    assert main(["keys", "enrol", "ben", PrivateKey.generate().public, "--key", "k.pem"]) == 2
    assert "passphrase" in capsys.readouterr().err
