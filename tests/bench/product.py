"""How the benches call what they measure: Tandem's command line, and a folder where the pipeline has run once."""

import os
import shutil
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from process_tree import CommandError, Usage, last_line, run_measured

if TYPE_CHECKING:
    from pipelines.journal import RunRecord

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "pipelines" / "credit_risk" / "data" / "credit.csv"
USE_CASE = "credit_risk"
HOME = ".tandem"
NOTHING_BLESSED = 3
"""Exit code of a run that came to its end and pushed nothing."""

# An environment may hold the libraries alone, without Tandem itself.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


def environment() -> dict[str, str]:
    """This process's environment, in which children find the repository's packages."""
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *inherited])}


def tandem_command(*words: str) -> list[str]:
    """The installed `tandem`; what its script does where the environment holds the libraries alone."""
    script = Path(sys.executable).with_name("tandem")
    start = [str(script)] if script.is_file() else [sys.executable, "-c", "import sys; from pipelines.cli import main; sys.exit(main())"]
    return [*start, *words]


def run_checked(command: Sequence[str], *, folder: Path, log: Path, good: Collection[int] = (0,)) -> Usage:
    """Measures a command that must succeed.

    Raises:
        CommandError: it ended with another exit code than those of `good`.
    """
    usage = run_measured(command, folder=folder, log=log, environment=environment())
    if usage.exit_code not in good:
        raise CommandError(f"{' '.join(command)}: exit code {usage.exit_code}: {last_line(log)}; the whole story is in {log}")
    return usage


def fresh_folder(path: Path) -> Path:
    """An empty folder at `path`; what was there is deleted."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def finished_run(folder: Path) -> Path:
    """A folder where the whole pipeline ran once: that of an earlier bench of this session, or one that is made now.

    Whether something was blessed does not matter here: on a loaded machine latencies may miss the service level.
    """
    place = folder / "finished-run"
    if not (place / "done").is_file():
        log = folder / "finished-run.log"
        run_checked(tandem_command("run", USE_CASE), folder=fresh_folder(place), log=log, good=(0, NOTHING_BLESSED))
        (place / "done").touch()
    return place


def finished_record(folder: Path) -> "RunRecord":
    """The journal of the run of `finished_run`."""
    from pipelines.journal import read_runs

    (record,) = read_runs(finished_run(folder) / HOME / "runs")
    return record
