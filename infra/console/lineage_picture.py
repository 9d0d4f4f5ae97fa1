"""Where a version comes from, as inline SVG: the data above, the stages below each other, the model and its decisions at the end."""

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from components.core.lineage import INGEST_STAGE, Lineage, VersionLineage

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 220, 44, 18, 18
_CHARACTERS = 28
"""Of a line that fits into a box."""


@dataclasses.dataclass(frozen=True)
class Box:
    """A node of the picture.

    Attributes:
        kind: `data`, `stage`, `model` or `decision`: its class in the style sheet.
        title, note: its two lines.
        rests_on: keys of the boxes above it.
    """

    key: str
    kind: str
    title: str
    note: str
    rests_on: tuple[str, ...] = ()


def boxes_of(lineage: VersionLineage, *, reference: str, digest: str, decisions: Sequence[str]) -> list[Box]:
    """The nodes, from the data to the decisions.

    Args:
        lineage: of the version.
        reference: `name/version`.
        digest: of the model.
        decisions: one line each, oldest first.
    """
    graph = lineage.graph
    makers = _direct_makers(graph)
    boxes = [Box("data", "data", "data", f"SHA-256 {lineage.data_digest[:16]}" if lineage.data_digest else "not recorded")]
    for execution in reversed(graph.executions):
        above = tuple(f"e{maker}" for maker in makers[execution.id]) or (("data",) if execution.stage == INGEST_STAGE else ())
        boxes.append(Box(f"e{execution.id}", "stage", execution.stage, f"{execution.seconds:.1f} s, execution {execution.id}", above))
    last = (f"e{graph.executions[0].id}",) if graph.executions else ("data",)
    boxes.append(Box("model", "model", reference, f"digest {digest[:16]}", last))
    told = decisions[-1] if decisions else "none yet"
    title = f"{len(decisions)} decision{'' if len(decisions) == 1 else 's'}" if decisions else "decisions"
    boxes.append(Box("decisions", "decision", title, told, ("model",)))
    return boxes


def _direct_makers(graph: Lineage) -> dict[int, list[int]]:
    """For each execution those that made its inputs, without those that another of them rests on anyway."""
    made_by = {edge.artifact: edge.execution for edge in graph.edges if edge.direction == "output"}
    makers: dict[int, set[int]] = {execution.id: set() for execution in graph.executions}
    for edge in graph.edges:
        maker = made_by.get(edge.artifact)
        if edge.direction == "input" and maker is not None and maker != edge.execution:
            makers[edge.execution].add(maker)
    behind: dict[int, set[int]] = {}
    # Oldest first, so that what a maker rests on is known when it is needed.
    for execution in reversed(graph.executions):
        own = makers[execution.id]
        behind[execution.id] = own.union(*(behind.get(maker, set()) for maker in own))
    return {
        identity: sorted(maker for maker in own if not any(maker in behind.get(other, set()) for other in own - {maker}))
        for identity, own in makers.items()
    }


def picture(boxes: Sequence[Box]) -> Markup:
    """Draws the boxes in layers: each lies below everything that it rests on."""
    layers = _layers(boxes)
    width = max(len(layer) for layer in layers) * (BOX_WIDTH + GAP_X) + GAP_X
    height = len(layers) * (BOX_HEIGHT + GAP_Y) + GAP_Y
    places: dict[str, tuple[float, float]] = {}
    for depth, layer in enumerate(layers):
        left = (width - len(layer) * (BOX_WIDTH + GAP_X) + GAP_X) / 2
        for position, box in enumerate(layer):
            places[box.key] = (left + position * (BOX_WIDTH + GAP_X), GAP_Y / 2 + depth * (BOX_HEIGHT + GAP_Y))
    drawn = [line for box in boxes for line in _lines(box, places)] + [_drawn(box, *places[box.key]) for box in boxes]
    told = "; ".join(f"{box.title}: {box.note}" for box in boxes)
    return Markup(  # noqa: S704 - numbers and classes of our own; every text is escaped
        f'<svg class="lineage" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(told)}">{"".join(drawn)}</svg>'
    )


def _layers(boxes: Sequence[Box]) -> list[list[Box]]:
    depths: dict[str, int] = {}
    for box in boxes:
        depths[box.key] = 1 + max((depths.get(above, 0) for above in box.rests_on), default=-1)
    return [[box for box in boxes if depths[box.key] == depth] for depth in range(max(depths.values()) + 1)]


def _lines(box: Box, places: Mapping[str, tuple[float, float]]) -> list[str]:
    x, y = places[box.key]
    middle = BOX_WIDTH / 2
    return [
        f'<line class="edge" x1="{places[above][0] + middle}" y1="{places[above][1] + BOX_HEIGHT}" x2="{x + middle}" y2="{y}"/>'
        for above in box.rests_on
        if above in places
    ]


def _drawn(box: Box, x: float, y: float) -> str:
    title, note = (text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…" for text in (box.title, box.note))
    return (
        f'<rect class="box {box.kind}" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        f'<text class="title" x="{x + BOX_WIDTH / 2}" y="{y + 19}">{escape(title)}</text>'
        f'<text class="note" x="{x + BOX_WIDTH / 2}" y="{y + 35}">{escape(note)}</text>'
    )
