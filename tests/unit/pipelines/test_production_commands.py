"""`tandem rollout`, `rollback` and `retire` on a real ledger and a registry that nothing was registered in."""

import json

import pytest

from components.core.ledger import Subject
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec
from components.core.rollout import ServedVersion
from pipelines.cli import main

MODEL = "credit-risk"


def version(number):
    subject = Subject(model=MODEL, version=number, model_digest=number * 64, dossier_digest="d" * 64)
    return ServedVersion(version=number, subject=subject)


class Place:
    """A folder with ada's key as admin, version 1 as champion and version 2 as canary of 5 %."""

    def __init__(self, folder, capsys):
        self.capsys = capsys
        assert self.call("keys", "new", "--key", "ada.pem")[0] == 0
        assert self.call("keys", "init", "ada", "--key", "ada.pem")[0] == 0
        home = folder / ".tandem"
        self.book = ProductionLedger(
            LedgerSpec(
                url=f"sqlite:///{home / 'ledger.db'}", public_keys=str(home / "public_keys.json"), private_key=str(folder / "ada.pem")
            )
        )
        for number, share in (("1", "100"), ("2", "5")):
            self.book.enter("promote", version(number))
            self.book.enter("push", version(number))
            self.book.enter("rollout_step", version(number), details={"share": share})

    def call(self, *words):
        self.capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as ended:
            code = ended.code
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def traffic(self, *words):
        code, out, err = self.call(*words, "--json")
        assert code == 0, err
        return json.loads(out)["traffic"]


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    for name in ("TANDEM_LEDGER", "TANDEM_PUBLIC_KEYS", "TANDEM_KEY", "TANDEM_KEY_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, capsys)


def test_the_split_for_people_and_programs(place):
    code, out, _ = place.call("rollout", MODEL)
    assert code == 0
    assert "champion  version 1     95 %" in out
    assert "canary    version 2      5 %" in out
    found = place.traffic("rollout", f"{MODEL}-prod")
    assert (found["labels"], found["share"], found["champion"]["version"]) == ({"champion": "1", "canary": "2"}, 5, "1")
    assert set(found) == {
        "model", "champion", "canary", "previous", "share", "since", "rule", "labels", "promoted", "stopped", "rolled_back",
        "retired", "odd",
    }  # fmt: skip


def test_the_split_as_a_manifest(place):
    code, out, _ = place.call("rollout", MODEL, "--manifest", "--namespace", "prod")
    route = json.loads(out)
    assert (code, route["kind"], route["metadata"]["namespace"]) == (0, "HTTPRoute", "prod")
    assert [backend["weight"] for backend in route["spec"]["rules"][0]["backendRefs"]] == [95, 5]


def test_a_step_by_hand_stands_though_no_server_answers(place):
    """The ledger decides; what mirrors it is told to be behind."""
    code, out, err = place.call("rollout", MODEL, "--to", "20", "--key", "ada.pem", "--json")
    assert (code, json.loads(out)["traffic"]["share"]) == (0, 20)
    assert err.startswith("tandem: entered in the ledger, but not mirrored yet: ")
    assert err.count("\n") == 1


def test_rollback_and_retire(place):
    found = place.traffic("rollback", MODEL, "--key", "ada.pem", "--reason", "complaints")
    assert (found["labels"], found["rolled_back"]) == ({"champion": "1"}, {"2": "complaints"})
    found = place.traffic("retire", f"{MODEL}/2", "--key", "ada.pem", "--reason", "replaced")
    assert (found["labels"], found["retired"], found["stopped"]) == ({"champion": "1"}, ["2"], [])
    assert [entry.statement.reason for entry in place.book.entries()][-2:] == ["complaints", "replaced"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rollout", MODEL, "--to", "5", "--key", "ada.pem"), "the canary has 5 %"),
        (("rollout", MODEL, "--to", "101", "--key", "ada.pem"), "up to 100"),
        (("rollout", "unknown", "--to", "20", "--key", "ada.pem"), "belongs to no single use case"),
        (("rollback", f"{MODEL}/7", "--key", "ada.pem", "--reason", "x"), "no version 7"),
        (("retire", MODEL, "--key", "ada.pem", "--reason", "x"), "name the version"),
        (("retire", f"{MODEL}/1", "--key", "ada.pem", "--reason", "x"), "roll it back first"),
        (("rollback", MODEL, "--reason", "x", "--key", "none.pem"), "private key cannot be read"),
        (("rollout", MODEL, "--ledger", "postgresql+psycopg2://me:secret@localhost/x", "--to", "20"), "holds a password"),
        (("promote", f"{MODEL}/1", "--set", "approval.approvals=1"), "takes keys of rollout and production only"),
        (("promote", f"{MODEL}/1", "--key", "ada.pem"), "holds no registry yet"),
        (("rehearse", f"{MODEL}/1", "--log-dir", "requests"), "holds no registry yet"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(place, words, said):
    code, out, err = place.call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert "secret" not in err
    assert len(place.book.entries()) == 6
