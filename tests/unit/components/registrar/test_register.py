"""One version for each audited candidate, with the facts that identify it."""

import dataclasses
import json

import pytest

from components.core.errors import RegistryError
from components.core.evidence import read_evidence
from components.core.files import tree_digest
from components.core.registry import Registry
from components.registrar.register import Request, git_state, register_candidate


@pytest.fixture
def make_request(make_candidate, tmp_path):
    def make(framework="keras", source_root="", **facts):
        folders = make_candidate(framework, **facts)
        return Request(
            name="credit-risk",
            framework=framework,
            saved_model=folders["model"] / "Format-Serving",
            audit=folders["audit"],
            compile_report=folders["compile_report"],
            parity=folders["parity"],
            model_run=folders["model_run"],
            dataset_digest="d" * 64,
            lock_digest="e" * 64,
            source_root=source_root,
            output=tmp_path / f"registration-{framework}",
            stage_tags={"stage": f"{framework}-registrar", "pipeline_run_id": "run-1", "mlmd_execution_id": "7"},
        )

    return make


def test_an_audited_candidate_becomes_a_version_with_its_facts(tracking, make_request, checkout):
    folder, commit = checkout
    request = make_request(source_root=str(folder))
    registration, properties = register_candidate(request, tracking=tracking, blessed=True)
    digest = tree_digest(request.saved_model)
    assert (registration.registered, registration.version, registration.digest, registration.blessed) == (True, "1", digest, True)
    assert json.loads((request.output / "registration.json").read_text()) == json.loads(registration.to_json())
    version = Registry(tracking).resolve("credit-risk")
    expected = {
        "framework": "keras",
        "tree_digest": digest,
        "dataset_digest": "d" * 64,
        "lock_digest": "e" * 64,
        "git_commit": commit,
        "git_dirty": "false",
        "pipeline_run_id": "run-1",
        "mlmd_execution_id": "7",
        "use_case": "credit_risk",
        "blessed": "true",
    }
    assert {key: version.tags[key] for key in expected} == expected
    assert version.run_id == registration.run_id
    assert 'load_model("models:/credit-risk/1")' in version.description
    assert properties["mlflow_run_id"] == version.tags["register_run_id"]
    assert (properties["model_version"], properties["digest"]) == ("credit-risk/1", digest)


def test_a_candidate_that_was_not_blessed_is_registered_too(tracking, make_request):
    registration, _ = register_candidate(make_request(blessed=False), tracking=tracking, blessed=False)
    assert (registration.registered, registration.blessed) == (True, False)
    assert Registry(tracking).resolve("credit-risk/1").tags["blessed"] == "false"


def test_a_stopped_candidate_is_not_registered(tracking, make_request):
    request = make_request(compiled=False)
    registration, properties = register_candidate(request, tracking=tracking, blessed=False)
    assert (registration.registered, registration.version, registration.reason) == (False, None, "parity failed: row 3")
    assert properties == {"registered": "false"}
    assert Registry(tracking).names() == []


def test_the_same_evidence_keeps_its_version_and_renews_its_tags(tracking, make_request):
    request = make_request()
    register_candidate(request, tracking=tracking, blessed=True)
    later = dataclasses.replace(request, stage_tags={**request.stage_tags, "mlmd_execution_id": "99"})
    assert register_candidate(later, tracking=tracking, blessed=True)[0].version == "1"
    (version,) = Registry(tracking).versions("credit-risk")
    assert version.tags["mlmd_execution_id"] == "99"


def test_a_new_audit_of_the_same_model_is_a_new_version_and_the_old_one_keeps_its_evidence(tracking, make_request):
    request = make_request()
    register_candidate(request, tracking=tracking, blessed=True)
    audit = request.audit / "audit.json"
    audit.write_text(audit.read_text().replace('"blessed":true', '"blessed":false'))
    later = dataclasses.replace(request, stage_tags={**request.stage_tags, "mlmd_execution_id": "99"})
    registration, properties = register_candidate(later, tracking=tracking, blessed=False)
    assert registration.version == "2"
    old, version = Registry(tracking).versions("credit-risk")
    assert (old.tags["blessed"], old.digest) == ("true", version.digest)
    assert [read_evidence(Registry(tracking), f"credit-risk/{number}").audit.blessed for number in (1, 2)] == [True, False]
    assert (version.tags["blessed"], version.tags["mlmd_execution_id"]) == ("false", "99")
    assert version.description.startswith("**keras model, not blessed**")
    assert properties["mlflow_run_id"] == version.tags["register_run_id"]


def test_what_does_not_belong_together_is_refused(tracking, make_request):
    request = make_request()
    with pytest.raises(RegistryError, match=r"audit\.json says blessed=True, the ModelBlessing says False"):
        register_candidate(request, tracking=tracking, blessed=False)
    with pytest.raises(RegistryError, match="registrar of lightning was given measurements of keras"):
        register_candidate(dataclasses.replace(request, framework="lightning"), tracking=tracking, blessed=True)
    (request.saved_model / "saved_model.pb").write_bytes(b"changed")
    with pytest.raises(RegistryError, match="bytes changed"):
        register_candidate(request, tracking=tracking, blessed=True)
    audit = request.audit / "audit.json"
    audit.write_text(audit.read_text().replace('"digest":"', '"digest":"other'))
    with pytest.raises(RegistryError, match="the audit is of other"):
        register_candidate(request, tracking=tracking, blessed=True)
    assert Registry(tracking).names() == []
    assert not request.output.exists()


def test_git_state(checkout, tmp_path, monkeypatch):
    folder, commit = checkout
    assert git_state(str(folder)) == (commit, "false")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert git_state(str(folder)) == (commit, "false")
    (folder / "new").write_text("x")
    assert git_state(str(folder)) == (commit, "true")
    for unknown in ("", str(tmp_path / "nowhere"), str(tmp_path)):
        assert git_state(unknown) == ("unknown", "unknown")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(str(folder)) == ("unknown", "unknown")
