"""The command `tandem` as a user calls it: a process of its own, in a folder of its own."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TANDEM = [sys.executable, "-c", "import sys; from pipelines.cli import main; sys.exit(main())"]
LIMIT_S = 900


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a call gave."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclasses.dataclass(frozen=True)
class Desk:
    """A folder from which tandem is called."""

    folder: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(self, *words: str) -> list[str]:
        return [*TANDEM, *words]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *words: str) -> Answer:
        process = self.start(*words)
        return self.wait(process)

    def wait(self, process: "subprocess.Popen[str]") -> Answer:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Answer(process.returncode, out, err)

    def newest_run(self) -> dict[str, Any]:
        run: dict[str, Any] = self.call("runs", "--json").json()["runs"][0]
        return run

    def states(self) -> dict[str, str]:
        return {stage["name"]: stage["state"] for stage in self.newest_run()["stages"]}

    def mlflow_runs(self) -> list[Any]:
        from mlflow.tracking import MlflowClient

        client = MlflowClient(f"sqlite:///{self.folder}/.tandem/mlflow.db")
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        return list(client.search_runs(experiments, max_results=1000))

    def wait_for_checkpoints(self, count: int, *, limit_s: float = 400) -> None:
        """Waits until `count` trainings have finished an epoch."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if len(list((self.folder / ".tandem" / "checkpoints").glob("*/checkpoint.bin"))) >= count:
                return
            time.sleep(0.1)
        raise AssertionError(f"{count} trainings did not finish an epoch within {limit_s} s")
