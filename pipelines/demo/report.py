"""What a demonstration did, as a file that can be looked up: `demo.json`."""

from typing import Literal

from components.core.contracts import Contract
from pipelines.demo.desk import Call

REPORT_FILE = "demo.json"


class StepReport(Contract):
    """One step.

    Attributes:
        number: from 1.
        title: what it shows.
        seconds: wall time.
        calls: commands that were called in it.
        saw: what came of it, a line each.
    """

    number: int
    title: str
    seconds: float
    calls: tuple[Call, ...]
    saw: tuple[str, ...]


class DemoReport(Contract):
    """The whole demonstration (file `demo.json`).

    Attributes:
        folder: where everything lies.
        started: UTC, ISO 8601.
        seconds: wall time.
        steps: in order.
    """

    schema_version: Literal[1] = 1
    folder: str
    started: str
    seconds: float
    steps: tuple[StepReport, ...]
