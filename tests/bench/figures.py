"""What a bench gives back: figures with their targets, and how repetitions become one number."""

import argparse
import dataclasses
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        name: what was measured.
        value: median, or a ratio of two medians of the same session.
        unit: e.g. `s`, `rows/s`, `x`; empty for a number without one.
        limit, bound: the target, `at most` or `at least` `limit`; None where there is no target.
        samples: each repetition, in the order of the session; empty for a ratio.
        note: one line, what a reader must know.
    """

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    bound: Literal["at most", "at least"] | None = None
    samples: tuple[float, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> str:
        """`met`, `MISSED`, or empty without a target; a value that is not a number misses."""
        if self.limit is None or self.bound is None:
            return ""
        held = self.value <= self.limit if self.bound == "at most" else self.value >= self.limit
        return "met" if held else "MISSED"

    def row(self) -> tuple[str, ...]:
        """Name, value, target, verdict, samples and note as text."""
        target = "" if self.limit is None else f"{self.bound} {shown(self.limit)} {self.unit}".rstrip()
        samples = " ".join(shown(sample) for sample in self.samples)
        return self.name, f"{shown(self.value)} {self.unit}".rstrip(), target, self.verdict, samples, self.note


def shown(value: float) -> str:
    """Four significant digits, thousands as they are: `0.8593`, `61.9`, `233500`."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 10_000:
        return str(int(float(f"{value:.4g}")))
    return f"{value:.4g}"


def alternate(subjects: Mapping[str, Callable[[int], _Result]], repeats: int) -> dict[str, list[_Result]]:
    """Runs each subject once a round, A B A B ...: what drifts on the machine drifts for all of them.

    Args:
        subjects: name -> function of the round's number, counted from 0; called in the order of the mapping.
        repeats: rounds, at least 1.

    Returns:
        name -> one result a round.
    """
    if repeats < 1:
        raise ValueError(f"at least one repetition is needed, not {repeats}")
    results: dict[str, list[_Result]] = {name: [] for name in subjects}
    for number in range(repeats):
        for name, subject in subjects.items():
            results[name].append(subject(number))
    return results


def median_figure(name: str, samples: Sequence[float], unit: str = "", *, at_most: float | None = None, note: str = "") -> Figure:
    """The median of repetitions as a figure, with an upper limit where there is one."""
    bound: Literal["at most"] | None = None if at_most is None else "at most"
    return Figure(name, statistics.median(samples), unit, at_most, bound, tuple(samples), note)


def ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Median over median; infinite over a median of 0."""
    below = statistics.median(denominator)
    return statistics.median(numerator) / below if below else math.inf


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a bench works and how often it repeats.

    Attributes:
        folder: an existing folder of its own, for scratch data and logs.
        repeats: rounds.
    """

    folder: Path
    repeats: int


def bench_main(measure: Callable[[Place], list[Figure]]) -> None:
    """The command line of one bench: measures and writes its figures as JSON, a list of Figure.

    A bench runs in a process of its own, so that one bench's libraries and threads do not burden the next.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="an existing folder for scratch data and logs")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="file for the figures")
    arguments = parser.parse_args()
    figures = measure(Place(arguments.folder.resolve(), arguments.repeats))
    arguments.out.write_text(json.dumps([dataclasses.asdict(figure) for figure in figures]))


def read_figures(path: Path) -> list[Figure]:
    """What `bench_main` wrote."""
    return [Figure(**{**entry, "samples": tuple(entry["samples"])}) for entry in json.loads(path.read_text())]
