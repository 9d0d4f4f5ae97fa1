"""Who may do what: the table of the roles, row by row."""

import pytest

from components.core.approval import ApprovalRule, Standing
from infra.console.access import why_not
from infra.console.actions import actions

NAMED = ApprovalRule(approvers=("anna", "arno"))
OPEN = ApprovalRule()


@pytest.mark.parametrize(
    ("kind", "permission", "login", "rule", "line"),
    [
        ("request", "read", "otto", OPEN, "need EDIT"),
        ("request", "read", "anna", NAMED, "need EDIT"),
        ("request", "edit", "tina", NAMED, ""),
        ("approve", "read", "otto", OPEN, "need EDIT"),
        ("approve", "edit", "theo", OPEN, ""),
        ("approve", "edit", "theo", NAMED, "only anna, arno may approve"),
        ("override", "edit", "admin", NAMED, "only anna, arno may override"),
        ("approve", "read", "anna", NAMED, ""),
        ("override", "read", "anna", NAMED, ""),
        ("reject", "read", "otto", OPEN, "need EDIT"),
        ("reject", "read", "otto", NAMED, "only anna, arno may reject"),
        ("reject", "edit", "theo", NAMED, ""),
        ("revoke", "edit", "theo", NAMED, ""),
        ("revoke", "read", "anna", NAMED, ""),
        ("approve", "none", "anna", NAMED, "no model credit"),
    ],
)
def test_the_table_of_roles(kind, permission, login, rule, line):
    refused = why_not(kind, permission, login=login, model="credit", rule=rule)
    assert (refused == "") == (line == "")
    assert line in refused


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("not_requested", ["request"]),
        ("voided", ["request"]),
        ("expired", ["request"]),
        ("rejected", ["request"]),
        ("revoked", ["request"]),
        ("waiting", ["approve", "reject"]),
        ("approved", ["revoke"]),
    ],
)
def test_each_state_offers_its_decisions(evidence, status, kinds):
    found = Standing(status=status, requester="theo")
    offered = actions(evidence(), found, OPEN, login="anna", permission="edit", disabled="")
    assert [action.kind for action in offered] == kinds
    assert all(action.refused == "" for action in offered)


def test_what_would_not_count_is_told_and_not_offered(evidence):
    found = Standing(status="waiting", requester="theo", failed=("audit",), approved_by=("anna",))

    def refusals(login, **more):
        offered = actions(evidence(passed=False), found, OPEN, login=login, permission="edit", disabled=more.get("disabled", ""))
        return {action.kind: action.refused for action in offered}

    assert refusals("theo")["approve"] == "yours would not count: who asked does not decide"
    assert refusals("tina")["override"] == "yours would not count: the author does not decide"
    assert refusals("tina")["reject"] == ""
    assert "you did approve it already" in refusals("anna")["approve"]
    assert refusals("anna")["override"] == ""
    assert set(refusals("anna", disabled="no key.").values()) == {"no key"}
