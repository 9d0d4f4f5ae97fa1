"""Forms: whose they are, for how long, from where."""

import pytest

from infra.console import forms as forms_module
from infra.console.forms import Forms, require_same_origin
from infra.console.refusal import Refused

HERE = "http://127.0.0.1:5000/"


def test_a_token_is_good_for_its_login_and_session_alone():
    forms, session = Forms("secret"), {}
    token = forms.issue("tina", session)
    assert forms.check(token, "tina", session) != forms.check(forms.issue("tina", session), "tina", session)
    for login, other in (("theo", session), ("tina", {}), ("tina", {"tandem_form_secret": "guessed"})):
        with pytest.raises(Refused, match="not of your session") as refused:
            forms.check(token, login, other)
        assert refused.value.status == 403
    with pytest.raises(Refused):
        Forms("another secret").check(token, "tina", session)


@pytest.mark.parametrize("token", ["", "abc", "a.b.c", "bnVsbA.aa.bb", "é"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(Refused):
        Forms("secret").check(token, "tina", {"tandem_form_secret": "x"})


def test_a_token_ends(monkeypatch):
    forms, session = Forms("secret"), {}
    token = forms.issue("tina", session)
    monkeypatch.setattr(forms_module, "LIFETIME_S", -1)
    with pytest.raises(Refused):
        forms.check(token, "tina", session)


def test_only_the_last_forms_are_remembered(monkeypatch):
    monkeypatch.setattr(forms_module, "_REMEMBERED", 2)
    forms = Forms("secret")
    for form in "abc":
        forms.remember(form)
    assert list(forms.done) == ["b", "c"]


@pytest.mark.parametrize(
    ("headers", "fine"),
    [
        ({"Origin": "http://127.0.0.1:5000"}, True),
        ({"Referer": "http://127.0.0.1:5000/tandem/"}, True),
        ({"Origin": "http://127.0.0.1:5001"}, False),
        ({"Origin": "https://127.0.0.1:5000"}, False),
        ({"Origin": "http://127.0.0.1:5000.evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.example", "Referer": HERE}, False),
        ({}, False),
    ],
)
def test_a_form_comes_from_here(headers, fine):
    if fine:
        assert require_same_origin(headers, host_url=HERE) is None
    else:
        with pytest.raises(Refused, match="another site"):
            require_same_origin(headers, host_url=HERE)
