"""Dot-and-whisker plots as inline SVG: a value, its interval, and where the limit lies. Classes alone, colours stand in the style sheet."""

import dataclasses
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from components.core.measurements import MetricValue
from infra.console.wording import number

WIDTH, MARGIN, ROW, TOP, LABEL = 220, 8, 14, 5, 12
_ROOM = 0.06
"""Room beside the outermost mark, as a share of the range."""


@dataclasses.dataclass(frozen=True)
class Mark:
    """One dot with its whisker.

    Attributes:
        label: whose value it is, for those who do not see the picture.
        kind: `candidate` or `champion`.
    """

    label: str
    kind: str
    value: MetricValue


def span(values: Iterable[MetricValue], limits: Iterable[float] = ()) -> tuple[float, float]:
    """The smallest range that holds all values, intervals and limits, with some room."""
    numbers = [number for value in values for number in (value.value, value.lower, value.upper) if number is not None]
    numbers += list(limits)
    if not numbers:
        return 0.0, 1.0
    low, high = min(numbers), max(numbers)
    room = (high - low) * _ROOM or abs(high) * _ROOM or _ROOM
    return low - room, high + room


def dot_plot(marks: Sequence[Mark], bounds: tuple[float, float], *, limit: float | None = None, labelled: bool = False) -> Markup:
    """Draws marks below each other on one scale.

    Args:
        marks: drawn where their value is defined.
        bounds: from `span`; the same for all plots that are compared by eye.
        limit: drawn as a line.
        labelled: the ends of the scale are written below it.
    """
    foot = TOP * 2 + ROW * max(1, len(marks))
    height = foot + (LABEL if labelled else 0)
    parts = [f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{foot - 2}" y2="{foot - 2}"/>']
    if labelled:
        parts.append(f'<text class="end" x="{MARGIN}" y="{foot + 9}">{number(bounds[0])}</text>')
        parts.append(f'<text class="end high" x="{WIDTH - MARGIN}" y="{foot + 9}">{number(bounds[1])}</text>')
    if limit is not None:
        x = _place(limit, bounds)
        parts.append(f'<line class="limit" x1="{x}" x2="{x}" y1="0" y2="{foot - 2}"/>')
    for place, mark in enumerate(marks):
        parts += _mark(mark, bounds, y=TOP + ROW * place + ROW / 2)
    text = "; ".join(_told(mark) for mark in marks) + (f"; limit {number(limit)}" if limit is not None else "")
    return Markup(  # noqa: S704 - numbers and classes of our own; the only text is escaped
        f'<svg class="dots" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{escape(text)}">'
        f"{''.join(parts)}</svg>"
    )


def _mark(mark: Mark, bounds: tuple[float, float], *, y: float) -> list[str]:
    value = mark.value
    parts = []
    if value.lower is not None and value.upper is not None:
        low, high = _place(value.lower, bounds), _place(value.upper, bounds)
        parts.append(f'<line class="whisker {mark.kind}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>')
        parts += [f'<line class="whisker {mark.kind}" x1="{x}" x2="{x}" y1="{y - 3}" y2="{y + 3}"/>' for x in (low, high)]
    if value.value is not None:
        parts.append(f'<circle class="dot {mark.kind}" cx="{_place(value.value, bounds)}" cy="{y}" r="4"/>')
    return parts


def _place(value: float, bounds: tuple[float, float]) -> float:
    low, high = bounds
    share = (value - low) / (high - low) if high > low else 0.5
    return round(MARGIN + min(1.0, max(0.0, share)) * (WIDTH - 2 * MARGIN), 1)


def _told(mark: Mark) -> str:
    value = mark.value
    if value.value is None:
        return f"{mark.label}: undefined"
    interval = "" if value.lower is None or value.upper is None else f", interval {number(value.lower)} to {number(value.upper)}"
    return f"{mark.label} {number(value.value)}{interval}"
