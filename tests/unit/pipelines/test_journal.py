"""The journal of runs: written whole, readable without stores, honest about runs that died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipelines.journal import RunJournal, bury, dead_runs, find_run, read_runs

PLAN = {"ingest": {"data_path": "/d"}, "statistics": {}}


def begin(folder: Path) -> RunJournal:
    return RunJournal.begin(folder, use_case=Path("/cases/credit_risk"), plan=PLAN)


def test_a_run_is_followed_from_start_to_end(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    assert [stage.state for stage in read_runs(tmp_path)[0].stages] == ["waiting", "waiting"]
    journal.update_stage("ingest", state="complete", seconds=1.5, execution_id=7)
    journal.add_artifacts({"ingest/examples": "/a/1"})
    journal.end("succeeded")
    record = read_runs(tmp_path)[0]
    assert (record.state, record.use_case, record.stage("ingest").execution_id) == ("succeeded", "credit_risk", 7)
    assert record.artifacts == {"ingest/examples": "/a/1"}
    assert record.stage("ingest").parameters == {"data_path": "/d"}
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_live_run_is_running_and_a_killed_one_died(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pipelines.journal import RunJournal\n"
        f"journal = RunJournal.begin(Path({str(tmp_path)!r}), use_case=Path('/c/x'), plan={PLAN!r})\n"
        "journal.update_stage('ingest', state='running')\n"
        "print(journal.record.id, flush=True); sys.stdin.readline()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )
    assert process.stdout is not None
    run_id = process.stdout.readline().strip()
    assert read_runs(tmp_path)[0].state == "running"
    assert list(dead_runs(tmp_path)) == []
    process.communicate("go\n")
    assert process.returncode == -9
    assert read_runs(tmp_path)[0].state == "died"
    (dead,) = dead_runs(tmp_path)
    assert dead.id == run_id
    bury(tmp_path, dead)
    assert list(dead_runs(tmp_path)) == []
    record = read_runs(tmp_path)[0]
    assert [stage.state for stage in record.stages] == ["interrupted", "skipped"]


def test_runs_are_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    first = begin(tmp_path)
    first.end("succeeded")
    assert find_run(tmp_path, None).id == first.record.id
    assert find_run(tmp_path, first.record.id[:15]).id == first.record.id
    with pytest.raises(ConfigError, match="no run 'zz'; the newest are"):
        find_run(tmp_path, "zz")


def test_without_runs_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="start one with `tandem run USE_CASE`"):
        find_run(tmp_path / "none", None)
    assert read_runs(tmp_path / "none") == []


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    from components.core.errors import StoreError

    blocker = tmp_path / "runs"
    blocker.write_text("a file, not a folder")
    with pytest.raises(StoreError, match="cannot be written"):
        begin(blocker)


def test_the_lock_is_let_go_at_the_end(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    descriptor = journal.lock
    journal.end("failed", error="ingest: broken", stage="ingest")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert read_runs(tmp_path)[0].error == "ingest: broken"
