"""The command line: what is light, what is refused, what a person sees."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import cli
from pipelines.display import LineDisplay, TerminalDisplay, closing_lines
from pipelines.journal import RunJournal, RunRecord, StageRecord
from pipelines.runs_view import run_as_json, runs_table

ROOT = Path(__file__).resolve().parents[3]
HEAVY = {"tensorflow", "torch", "tfx", "mlflow", "ml_metadata", "pandas", "numpy", "apache_beam", "pyarrow"}


def record(state: str = "succeeded", **more: object) -> RunRecord:
    stages = (StageRecord(name="ingest", state="complete", seconds=1.25), StageRecord(name="statistics", state="cached", seconds=0.5))
    return RunRecord.model_validate(
        {
            "id": "20260102T030405-ab12",
            "use_case": "credit_risk",
            "use_case_path": "/c",
            "state": state,
            "started": "2026-01-02T03:04:05+00:00",
            "seconds": 12.34,
            "stages": stages,
            **more,
        }
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["runs", "--help"], ["runs", "--json"], ["run", "--help"], ["compare", "--help"]]
)
def test_light_commands_import_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    RunJournal.begin(tmp_path / ".tandem" / "runs", use_case=Path("/c"), plan={"ingest": {}}).end("succeeded")
    script = (
        "import sys\nfrom pipelines.cli import main\n"
        f"try: main({words!r})\nexcept SystemExit: pass\n"
        f"print('HEAVY', sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_an_unknown_command_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["fly"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "fly" in error
    assert "--help" in error


def test_a_wrong_option_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["runs", "--colour"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("tandem")


def test_a_fault_is_one_line_and_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["runs"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("tandem: ")
    assert ".tandem: no such folder" in error


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "key.pem"
    assert cli.main(["keys", "new", "--key", str(place)]) == 2
    assert capsys.readouterr().err == f"tandem: {place.parent}: File exists; see that the place is there, writable and not full\n"
    assert cli.main(["keys", "new", "--key", "/proc/none.pem"]) == 2
    assert "tandem: /proc/none.pem: " in capsys.readouterr().err


def test_a_fault_of_our_own_is_one_line_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tempfile

    import pipelines.commands.runs

    def broken(arguments: object) -> int:
        raise ZeroDivisionError("second\nthird")

    monkeypatch.setattr(pipelines.commands.runs, "execute", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cli.main(["runs"]) == 2
    (log,) = tmp_path.iterdir()
    assert capsys.readouterr().err == (
        f"tandem: a fault of tandem's own: ZeroDivisionError: second; the whole story is in {log}, please report it\n"
    )
    assert "in broken" in log.read_text()


def test_a_reader_that_stops_early_is_no_fault(tmp_path: Path) -> None:
    for _ in range(3):
        RunJournal.begin(tmp_path / ".tandem" / "runs", use_case=Path("/c"), plan={str(n): {"p": "x" * 99} for n in range(50)}).end(
            "succeeded"
        )
    program = f'{sys.executable} -c \'import sys; from pipelines.cli import main; sys.exit(main(["runs", "--json"]))\''
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} | head -n 1"], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_runs_are_a_table_for_people_and_keys_for_programs() -> None:
    assert runs_table([record()]) == (
        "RUN                   USE CASE     STARTED (UTC)        SECONDS  STATE      STAGES\n"
        "20260102T030405-ab12  credit_risk  2026-01-02 03:04:05     12.3  succeeded  1 complete, 1 cached\n"
    )
    assert run_as_json(record()) == {
        "id": "20260102T030405-ab12",
        "use_case": "credit_risk",
        "state": "succeeded",
        "started": "2026-01-02T03:04:05+00:00",
        "seconds": 12.34,
        "stages": [
            {"name": "ingest", "state": "complete", "seconds": 1.25},
            {"name": "statistics", "state": "cached", "seconds": 0.5},
        ],
    }
    assert "no run yet" in runs_table([])


def test_lines_elsewhere_and_a_live_line_on_a_terminal() -> None:
    lines, live = io.StringIO(), io.StringIO()
    event = {"stage": "ingest", "done": 1, "total": 4, "text": "val/auc 0.8"}
    for display in (LineDisplay(lines), TerminalDisplay(live)):
        running = record("running", stages=(StageRecord(name="ingest", state="running"),))
        display.stage_changed(running, "ingest")
        display.progress(event)
        display.stage_changed(record(), "ingest")
    assert "\x1b" not in lines.getvalue()
    assert "\r" not in lines.getvalue()
    assert "ingest                   complete  1.2 s" in lines.getvalue()
    assert "[##........] 1/4 val/auc 0.8" in live.getvalue()
    assert live.getvalue().endswith("\r\x1b[K")


def test_the_closing_words_name_the_next_step() -> None:
    assert "tandem compare" in closing_lines(record())[-1]
    failed = closing_lines(record("failed", error="ingest: broken", error_stage="ingest"))
    assert failed[1:] == [
        "tandem: ingest: broken",
        "next: `tandem why 20260102T030405-ab12` names the gate, slice and rows, and the remedy",
    ]
