"""Decisions through the real server: who may, what is refused, and what stands in the ledger afterwards."""

import concurrent.futures
from pathlib import Path

import pytest

from components.core.dossier import DOSSIER_FILE
from components.core.files import file_digest
from components.core.ledger import verify
from tests.integration.console.small_home import Client


def entries_about(home, page):
    name, version = page.split("/")[-2:]
    return [
        entry.statement
        for entry in home.store.entries()
        if (entry.statement.subject.model, entry.statement.subject.version) == (name, version)
    ]


def said(answer):
    """The line of a refusal."""
    return answer.text.partition('role="alert">')[2].partition("</p>")[0].replace("&#39;", "'")


def test_a_trainer_requests_and_an_approver_approves_with_entries_that_hold(home, candidate, people):
    page = candidate()
    asked = people["theo"].decide(page, "request", "better recall")
    assert (asked.status_code, asked.headers["Location"]) == (303, f"{page}#decisions")
    assert people["anna"].decide(page, "approve").status_code == 303
    request, approval = entries_about(home, page)
    assert (request.kind, request.actor, request.known_by, request.reason) == ("request", "theo", "console_login", "better recall")
    assert (approval.kind, approval.actor, approval.key_id) == ("approve", "anna", home.service.key_id)
    assert verify(home.store.entries(), home.keys).problem == ""
    shown = people["otto"].get(page).text
    assert f"tandem promote {'/'.join(page.split('/')[-2:])}" in shown
    assert page in people["otto"].get("/tandem/").text


@pytest.mark.parametrize(("person", "line"), [("theo", "who asked does not decide"), ("tina", "the author does not decide")])
def test_author_and_requester_cannot_approve(home, candidate, people, person, line):
    page = candidate()
    people["theo"].decide(page, "request")
    assert line in people[person].get(page).text
    fields = {**people["anna"].form(page, "approve"), "token": people[person].form(page, "reject")["token"]}
    answer = people[person].send(page, fields)
    assert answer.status_code == 409
    assert line in said(answer)
    assert [entry.kind for entry in entries_about(home, page)] == ["request"]


def test_an_auditor_sees_everything_and_can_change_nothing(home, candidate, people):
    page = candidate()
    people["theo"].decide(page, "request")
    shown = people["otto"].get(page).text
    assert "floor/auc" in shown
    assert "<form" not in shown
    fields = people["anna"].form(page, "approve")
    answer = people["otto"].send(page, fields)
    assert answer.status_code == 403
    for kind in ("request", "approve", "reject", "override", "revoke"):
        assert people["otto"].send(page, {**fields, "kind": kind, "reason": "no"}).status_code == 403
    assert [entry.kind for entry in entries_about(home, page)] == ["request"]


def test_a_failed_gate_takes_overrides_with_reasons_and_is_unmistakable(home, candidate, people):
    page = candidate(passed=False)
    people["theo"].decide(page, "request")
    first = people["anna"].get("/tandem/").text.partition("Waiting for a decision")[2]
    assert first.index(page) < first.index("Not passed: audit")
    assert "train longer" in people["anna"].get(page).text
    refused = people["anna"].send(page, people["anna"].form(page, "override"))
    assert refused.status_code == 409
    assert "needs a reason" in said(refused)
    assert people["anna"].decide(page, "override", "the floor is too high").status_code == 303
    shown = people["otto"].get(page).text
    assert "the floor is too high" in shown.partition("Where it stands")[0]
    assert "1 of 2 overrides of audit" in shown


def test_a_rejection_ends_the_round_and_a_revocation_takes_the_approval_back(home, candidate, people):
    page = candidate()
    people["theo"].decide(page, "request")
    assert people["anna"].decide(page, "reject", "not now").status_code == 303
    assert people["anna"].form(page, "approve") == {}
    assert people["theo"].decide(page, "request", "again").status_code == 303
    people["anna"].decide(page, "approve")
    assert people["anna"].decide(page, "revoke", "seen too late").status_code == 303
    assert [entry.kind for entry in entries_about(home, page)] == ["request", "reject", "request", "approve", "revoke"]


def test_a_form_that_is_sent_twice_decides_once(home, candidate, people):
    page = candidate()
    form = people["theo"].form(page, "request")
    first, second = people["theo"].send(page, form), people["theo"].send(page, form)
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["Location"] == second.headers["Location"]
    assert len(entries_about(home, page)) == 1
    another = people["tina"].send(page, {**people["tina"].form(page, "reject"), "kind": "request"})
    assert another.status_code == 409
    assert "no second request is needed" in said(another)


def test_two_decisions_of_one_page_are_both_entered(home, candidate, people):
    page, other = candidate(passed=False), candidate()
    for each in (page, other):
        people["theo"].decide(each, "request")
    form = people["anna"].form(page, "override")
    people["anna"].send(page, {**form, "reason": "seen"})
    people["anna"].send(page, {**form, "kind": "approve", "reason": ""})
    assert [entry.kind for entry in entries_about(home, page)] == ["request", "override", "approve"]
    again = people["anna"].send(other, {**form, "kind": "approve"})
    assert again.status_code == 409
    assert "the evidence changed" in said(again)


def test_two_approvers_at_the_same_moment_are_both_entered_once(home, address, candidate, people):
    page = candidate()
    people["theo"].decide(page, "request")
    clients = [Client(address, "anna"), Client(address, "admin", "the-admin-password")]
    forms = [client.form(page, "approve") for client in clients]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        sent = [pool.submit(client.send, page, form) for client, form in zip(clients, forms, strict=True) for _ in range(3)]
    assert {answer.result().status_code for answer in sent} == {303}
    approvals = [entry.actor for entry in entries_about(home, page) if entry.kind == "approve"]
    assert sorted(approvals) == ["admin", "anna"]
    assert verify(home.store.entries(), home.keys).problem == ""


def test_evidence_that_changed_since_the_page_was_opened_is_refused(home, candidate, people):
    page = candidate()
    people["theo"].decide(page, "request")
    form = people["anna"].form(page, "approve")
    for field in ("model_digest", "dossier_digest"):
        answer = people["anna"].send(page, {**form, field: "0" * 64})
        assert answer.status_code == 409
        assert "the evidence changed since you opened this page" in said(answer)
    version = home.registry.resolve("/".join(page.split("/")[-2:]))
    audit = Path(version.source) / "measurements" / "audit.json"
    before = file_digest(audit)
    audit.write_text(audit.read_text().replace('"size":523', '"size":524'))
    answer = people["anna"].send(page, form)
    assert answer.status_code == 404
    assert "the evidence was changed after its registration" in said(answer)
    dossier = audit.with_name(DOSSIER_FILE)
    dossier.write_text(dossier.read_text().replace(before, file_digest(audit)))
    answer = people["anna"].send(page, form)
    assert answer.status_code == 409
    assert "the evidence changed" in said(answer)
    assert "the digest of the dossier changed since theo asked" in people["anna"].get(page).text
    (Path(version.source) / "saved_model" / "variables").write_text("other bytes")
    answer = people["anna"].send(page, form)
    assert answer.status_code == 404
    assert "its bytes changed" in said(answer)
    assert [entry.kind for entry in entries_about(home, page)] == ["request"]


def test_without_a_rule_nothing_can_be_decided(candidate, people):
    page = candidate("of-nobody")
    assert "no rule is known" in people["tina"].get(page).text
    assert "<form" not in people["tina"].get(page).text
    token = people["tina"].form(candidate(), "request")["token"]
    answer = people["tina"].send(page, {"token": token, "kind": "request"})
    assert answer.status_code == 409
    assert "no rule is known" in said(answer)


def test_a_reason_that_is_too_long_or_a_decision_that_is_none_is_refused(home, candidate, people):
    page = candidate()
    form = people["theo"].form(page, "request")
    assert people["theo"].send(page, {**form, "reason": "x" * 4001}).status_code == 400
    assert people["theo"].send(page, {**form, "reason": "x" * 70_000}).status_code == 413
    for kind in ("promote", "", "<b>"):
        assert people["theo"].send(page, {**form, "kind": kind}).status_code == 400
    assert entries_about(home, page) == []


def test_a_ledger_that_does_not_hold_is_red_on_every_page_and_decides_nothing(tmp_path, empty_store):
    import sqlite3

    from infra.console.first_start import prepare
    from infra.ui_server import serve_ui
    from tests.integration.console.small_home import ADMIN_PASSWORD, make_home

    home = make_home(tmp_path / "home", empty_store)
    page = f"/tandem/models/credit-risk/{home.register()}"
    files = prepare(home.folder, home.settings, chosen_password=ADMIN_PASSWORD)
    with serve_ui(home.folder, files.environment, port=0) as server:
        admin = Client(server.address, "admin", ADMIN_PASSWORD)
        assert admin.decide(page, "request", "fine").status_code == 303
        form = admin.form(page, "reject")
        with sqlite3.connect(home.folder / "ledger.db") as ledger:
            ledger.execute("DROP TRIGGER ledger_no_update")
            ledger.execute("UPDATE ledger_entries SET entry = replace(entry, 'fine', 'mine')")
        for path in ("/tandem/", "/tandem/ledger", "/tandem/help", page, "/tandem/models/credit-risk"):
            answer = admin.get(path)
            assert answer.status_code == 200
            assert "The ledger does not hold.</strong> entry 1: its signature does not hold" in answer.text
            assert "<form" not in answer.text
            assert "waiting for decisions" not in answer.text
        refused = admin.send(page, {**form, "reason": "no"})
        assert refused.status_code == 409
        assert "does not hold: entry 1" in said(refused)
        assert "mine" in admin.get("/tandem/ledger/export").text
