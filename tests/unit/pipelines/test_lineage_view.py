"""`tandem lineage`: the document and its tree, over a graph made by hand."""

import pytest

from components.core.errors import RegistryError
from components.core.lineage import ArtifactNode, Edge, ExecutionNode, Lineage, VersionLineage
from components.core.registry import ModelVersion
from pipelines.lineage_view import direct_makers, lineage_text
from pipelines.provenance import describe_version, makers_of, pushed_folder
from pipelines.text_layout import display_width

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
DIGEST = "d" * 64


def execution(identity, stage, **properties):
    return ExecutionNode(
        id=identity, stage=stage, pipeline_run_id="run-1", state="COMPLETE", started_ms=START_MS + identity * 60_000,
        updated_ms=START_MS + identity * 60_000 + 1500, properties=properties,
    )  # fmt: skip


@pytest.fixture
def graph():
    """ingest (1) -> transform (2) -> keras-trainer (3) -> keras-registrar (4), which reads ingest's examples too."""
    executions = (
        execution(4, "keras-registrar", mlflow_run_id="r" * 32),
        execution(3, "keras-trainer", mlflow_run_id="t" * 32, code_fingerprint="c" * 64),
        execution(2, "transform", custom_config='{"code_fingerprint": "beef"}'),
        execution(1, "ingest", data_path="/data/credit.csv", input_digest="a" * 64, rows=4454),
    )
    artifacts = tuple(ArtifactNode(number, "Model", f"/a/{number}", "LIVE", {}) for number in (11, 12, 13))
    edges = (
        Edge(1, 11, "output", "examples"), Edge(2, 11, "input", "examples"), Edge(2, 12, "output", "graph"), Edge(3, 12, "input", "graph"),
        Edge(3, 13, "output", "model"), Edge(4, 11, "input", "examples"), Edge(4, 13, "input", "model"),
    )  # fmt: skip
    return Lineage(executions, artifacts, edges)


@pytest.fixture
def document(graph, tmp_path):
    lineage = VersionLineage(
        graph=graph, data_digest="a" * 64, code_fingerprints={"keras-trainer": "c" * 64}, mlflow_runs={"keras-trainer": "t" * 32}
    )
    tags = {
        "tree_digest": DIGEST, "framework": "keras", "blessed": "true", "staging": "pushed", "git_commit": "e" * 40, "git_dirty": "true",
        "lock_digest": "f" * 64, "mlmd_execution_id": "4",
    }  # fmt: skip
    version = ModelVersion(
        name="credit-risk", version="3", run_id="t" * 32, source="models:/m", aliases=("champion",), description="", tags=tags
    )
    return describe_version(version, lineage, pushed=tmp_path)


def test_the_document_leads_from_the_version_to_the_bytes_of_the_data(document, tmp_path):
    assert document["data"] == {"path": "/data/credit.csv", "sha256": "a" * 64, "rows": 4454}
    assert document["model"]["digest"] == DIGEST
    assert document["model"]["pushed_folder"] == str(tmp_path)
    assert document["code"] == {
        "git_commit": "e" * 40,
        "git_dirty": "true",
        "fingerprints": {"transform": "beef", "keras-trainer": "c" * 64},
    }
    assert document["environment"] == {"lock_digest": "f" * 64}
    assert document["mlflow_runs"] == {"keras-trainer": "t" * 32}
    assert document["pipeline_runs"] == ["run-1"]
    registrar = document["stages"][0]
    assert (registrar["name"], registrar["execution_id"], registrar["rests_on"]) == ("keras-registrar", 4, [1, 3])
    assert (registrar["started"], registrar["seconds"]) == ("2026-01-01T00:04:00+00:00", 1.5)
    assert registrar["inputs"] == [
        {"key": "examples", "artifact_id": 11, "type": "Model", "uri": "/a/11"},
        {"key": "model", "artifact_id": 13, "type": "Model", "uri": "/a/13"},
    ]


def test_the_tree_shows_each_stage_once_from_the_model_to_the_data(document):
    lines = lineage_text(document, 200).splitlines()
    assert lines[0] == "credit-risk/3 (keras, blessed, alias champion, staging: pushed)"
    start = next(number for number, line in enumerate(lines) if "keras-registrar" in line)
    assert lines[start : start + 5] == [
        "`- keras-registrar: execution 4 in run run-1, 2026-01-01 00:04:00 UTC, 1.5 s",
        "   `- keras-trainer: execution 3 in run run-1, 2026-01-01 00:03:00 UTC, 1.5 s",
        "      `- transform: execution 2 in run run-1, 2026-01-01 00:02:00 UTC, 1.5 s",
        "         `- ingest: execution 1 in run run-1, 2026-01-01 00:01:00 UTC, 1.5 s",
        f"            `- data /data/credit.csv: SHA-256 {'a' * 64}, 4454 rows",
    ]
    assert f"git commit: {'e' * 40} with changes that are not committed" in lines
    assert f"lock (SHA-256): {'f' * 64}" in lines


def test_two_ways_to_one_stage_are_shown_once(graph):
    assert makers_of(4, graph) == {1, 3}
    assert direct_makers({4: {1, 3}, 3: {2}, 2: {1}, 1: set()}) == {4: [3], 3: [2], 2: [1], 1: []}
    assert direct_makers({4: {2, 3}, 3: {1}, 2: {1}, 1: set()}) == {4: [3, 2], 3: [1], 2: [1], 1: []}


def test_narrow_terminals(document):
    text = lineage_text(document, 40)
    assert max(display_width(line) for line in text.splitlines()) <= 40


def test_what_was_not_recorded_is_said(graph):
    bare = ModelVersion(name="m", version="1", run_id="", source="", tags={}, aliases=(), description="")
    text = lineage_text(describe_version(bare, VersionLineage(graph, None, {}, {})), 200)
    for part in ("m/1 (not blessed)", "digest not recorded", "SHA-256 not recorded", "git commit: not recorded (changes: unknown)"):
        assert part in text


def test_a_folder_is_told_from_a_name(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    assert pushed_folder(str(tmp_path)) == tmp_path
    assert pushed_folder("credit-risk/3") is None
    assert pushed_folder("credit-risk@champion") is None
    with pytest.raises(RegistryError, match="no SavedModel lies there"):
        pushed_folder(str(tmp_path / "nothing"))
    with pytest.raises(RegistryError, match="no SavedModel lies there"):
        pushed_folder("serving/staging/credit-risk/3")
