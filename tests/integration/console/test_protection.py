"""What keeps the pages from being misused: logins, forms of other sites and other people, scripts in texts, paths, permissions."""

import io
import json
import zipfile

import pytest
import requests

from tests.integration.console.small_home import EVIL, Client

PAGES = ("/tandem/", "/tandem/help", "/tandem/ledger", "/tandem/ledger/export", "/tandem/ledger/head", "/tandem/style.css", "/tandem/x")


def bare(address, path, **more):
    return requests.get(address + path, allow_redirects=False, timeout=60, **more)


@pytest.mark.parametrize("path", [*PAGES, "/tandem", "/tandem/models/credit-risk", "/", "/api/2.0/mlflow/registered-models/search"])
def test_no_page_without_a_login(address, path):
    for answer in (bare(address, path), bare(address, path, auth=("tina", "wrong-password"))):
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Basic realm="mlflow"'
        assert "credit-risk" not in answer.text


def test_a_decision_without_a_login_is_refused(home, address, candidate, people):
    page = candidate()
    form = people["theo"].form(page, "request")
    before = len(list(home.store.entries()))
    answer = requests.post(address + page, data=form, headers={"Origin": address}, timeout=60, allow_redirects=False)
    assert answer.status_code == 401
    assert len(list(home.store.entries())) == before


@pytest.mark.parametrize("token", ["", "x", "WyJ0aGVvIl0.aa.bb", None])
def test_a_form_without_its_token_is_refused(home, candidate, people, token):
    page = candidate()
    form = people["theo"].form(page, "request")
    del form["token"]
    answer = people["theo"].send(page, form if token is None else {**form, "token": token})
    assert answer.status_code == 403
    assert not [entry for entry in home.store.entries() if entry.statement.subject.version == page.rsplit("/", 1)[1]]


def test_a_token_of_somebody_else_or_of_another_session_is_refused(address, candidate, people):
    page = candidate()
    theirs = people["tina"].form(page, "request")
    assert people["theo"].send(page, theirs).status_code == 403
    people["theo"].http.cookies.update(people["tina"].http.cookies)
    assert people["theo"].send(page, theirs).status_code == 403
    again = Client(address, "tina")
    assert again.send(page, theirs).status_code == 403
    assert people["tina"].send(page, theirs).status_code == 303


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "", "Referer": "http://evil.example/x"}, {"Origin": ""}]
)
def test_a_form_of_another_site_is_refused(candidate, people, headers):
    page = candidate()
    answer = people["theo"].send(page, people["theo"].form(page, "request"), **headers)
    assert answer.status_code == 403


@pytest.mark.parametrize("origin", ["http://localhost:9999", "http://127.0.0.1:9999", "null", "http://evil.example"])
def test_a_script_of_another_origin_reads_no_page_of_ours(candidate, people, origin):
    page = candidate()
    answer = people["theo"].http.get(people["theo"].address + page, headers={"Origin": origin}, timeout=60)
    assert answer.status_code == 403
    assert "token" not in answer.text


def test_a_referer_of_ours_stands_in_for_a_missing_origin(address, candidate, people):
    page = candidate()
    form = people["theo"].form(page, "request")
    assert people["theo"].send(page, form, Origin="", Referer=address + page).status_code == 303


def test_the_headers_leave_a_browser_nothing_to_run_frame_or_leak(candidate, people):
    page = candidate()
    for path in (*PAGES, page):
        headers = people["tina"].get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
    people["tina"].form(page, "request")
    (cookie,) = people["tina"].http.cookies
    assert cookie.name == "tandem_session"
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Strict"


def test_texts_of_others_are_shown_as_texts(candidate, people):
    page = candidate()
    people["theo"].decide(page, "request", f"reason {EVIL}")
    for path in (page, "/tandem/ledger", page.rsplit("/", 1)[0]):
        shown = people["otto"].get(path).text
        assert "<script" not in shown
        assert "&lt;script&gt;" in shown
    shown = people["otto"].get(page).text
    card = shown.partition('aria-label="Model card">')[2].partition("</section>")[0]
    assert "<h3>Card</h3>" in card
    assert "<td>&lt;b&gt;</td>" in card
    assert "href" not in card
    assert "<img" not in card
    assert "style=" not in shown
    assert "<script" not in people["otto"].get(f"/tandem/{EVIL}").text


@pytest.mark.parametrize(
    "path",
    [
        "/tandem/models/..%2f..%2fetc/1",
        "/tandem/models/credit-risk/0",
        "/tandem/models/credit-risk/999",
        "/tandem/models/credit-risk/-1",
        "/tandem/models/credit-risk/1%2f..%2f2",
        "/tandem/models/credit-risk@champion/1",
        "/tandem/models/nothing/1/download",
        "/tandem/%2e%2e/%2e%2e/settings.json",
        "/tandem/style.css/../../settings.json",
        "/tandem/ledger?page=0",
        "/tandem/ledger?page=99999999999999999999",
        "/tandem/models/'%20OR%201=1/1",
    ],
)
def test_addresses_of_nothing_are_not_found(candidate, people, path):
    candidate()
    answer = people["tina"].get(path)
    # A client that resolves `..` itself asks for an address of MLflow's, which refuses what it does not know.
    assert answer.status_code == (403 if path.startswith("/tandem/style.css/") else 404)
    assert "Traceback" not in answer.text
    assert "ledger_url" not in answer.text


def test_other_methods_are_refused_without_a_traceback(candidate, people):
    page = candidate()
    for method in ("PUT", "DELETE", "PATCH"):
        answer = people["tina"].api(method, page)
        assert answer.status_code in (403, 404, 405)
        assert "Traceback" not in answer.text


def test_a_model_without_a_permission_is_neither_page_nor_row(candidate, people):
    page = candidate()
    people["theo"].decide(page, "request", "for those who may read it")
    assert page in people["otto"].get("/tandem/").text
    for path in ("/tandem/", "/tandem/help", "/tandem/ledger"):
        shown = people["nora"].get(path).text
        assert "credit-risk" not in shown
        assert "for those who may" not in shown
    for path in (page, f"{page}/download", "/tandem/models/credit-risk"):
        assert people["nora"].get(path).status_code == 404
    assert people["nora"].get("/tandem/models/unheard/1").text.count("unheard") == people["nora"].get(page).text.count("credit-risk")
    assert people["nora"].get("/tandem/ledger/export").status_code == 403
    form = people["theo"].form(candidate(), "request")
    assert people["nora"].send(page, form).status_code == 403


def test_a_production_model_has_no_page_to_decide_on(home, candidate, people):
    candidate()
    home.registry.client.create_registered_model("credit-risk-prod")
    assert people["tina"].get("/tandem/models/credit-risk-prod").status_code == 404
    assert people["tina"].get("/tandem/models/credit-risk-prod/1").status_code == 404


def test_the_download_holds_what_is_known_and_its_digests(candidate, people):
    page = candidate()
    people["theo"].decide(page, "request")
    answer = people["otto"].get(f"{page}/download")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="credit-risk-{page.rsplit("/", 1)[1]}.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert set(files) == {
        "card.md",
        "ledger-entries.jsonl",
        "manifest.json",
        "measurements/audit.json",
        "measurements/compile.json",
        "measurements/dossier.json",
        "measurements/parity.json",
    }
    manifest = json.loads(files["manifest.json"])
    assert manifest["subject"]["model"] == "credit-risk"
    assert manifest["subject"]["dossier_digest"] == manifest["sha256"]["measurements/dossier.json"]
    frozen = json.loads(files["measurements/dossier.json"])["files"]
    assert frozen == {name: manifest["sha256"][f"measurements/{name}"] for name in ("audit.json", "compile.json", "parity.json")}
    assert [json.loads(line)["statement"]["kind"] for line in files["ledger-entries.jsonl"].splitlines()] == ["request"]


def test_the_export_and_the_head_of_the_pages_verify_offline(tmp_path, home, candidate, admin, people, capsys):
    from pipelines.cli import main

    people["theo"].decide(candidate(), "request")
    (tmp_path / "ledger.jsonl").write_bytes(admin.get("/tandem/ledger/export").content)
    (tmp_path / "head.json").write_bytes(admin.get("/tandem/ledger/head").content)
    keys = home.settings.public_keys
    assert main(["verify", str(tmp_path / "ledger.jsonl"), "--keys", keys, "--head", str(tmp_path / "head.json")]) == 0
    assert "entr" in capsys.readouterr().out
