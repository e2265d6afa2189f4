"""The pictures of the docs as SVG: the architecture, the path of a write, and the directions of imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import NamedTuple

from tests.test_house import ALLOWED, within

WIDTH = 860
LINE = 17
STYLE = """
text { font: 13px sans-serif; fill: #1f2328; }
.title { font-weight: bold; }
.note { font-size: 12px; fill: #59636e; }
.box { fill: #ddf4ff; stroke: #0969da; }
.area { fill: none; stroke: #818b98; stroke-dasharray: 5 4; }
.line { fill: none; stroke: #59636e; stroke-width: 1.5; marker-end: url(#arrow); }
.life { stroke: #818b98; stroke-dasharray: 2 4; }
#arrow path { fill: #59636e; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; }
  .note { fill: #9198a1; }
  .box { fill: #121d2f; stroke: #4493f8; }
  .line { stroke: #9198a1; }
  #arrow path { fill: #9198a1; }
}
"""


class Box(NamedTuple):
    """A titled rectangle with an optional line of text."""

    x: int
    y: int
    width: int
    height: int
    title: str
    text: str = ""

    def draw(self) -> str:
        """Return the SVG elements of the box."""
        middle, title = self.x + self.width // 2, self.y + self.height // 2 + 5
        if self.text:
            title -= LINE // 2
        shown = [
            rectangle("box", self.x, self.y, self.width, self.height),
            label(middle, title, self.title, "title"),
        ]
        return "\n".join([*shown, label(middle, title + LINE, self.text)] if self.text else shown)


def rectangle(kind: str, x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def label(x: int, y: int, text: str, kind: str = "note", anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def arrow(path: str) -> str:
    return f'<path class="line" d="{path}"/>'


def document(title: str, height: int, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="arrow" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
            '<path d="M0 0L9 4L0 8z"/></marker></defs>',
            *parts,
            "</svg>",
            "",
        ]
    )


def host(x: int, role: str) -> list[str]:
    """Draw one host: readers, the store and the node."""
    return [
        rectangle("area", x, 130, 330, 230),
        label(x + 320, 150, f"host: {role}", "title", "end"),
        Box(x + 20, 170, 120, 60, "readers", "HTTP, reads").draw(),
        Box(x + 190, 170, 120, 60, "store", "LMDB, all rows").draw(),
        Box(x + 20, 280, 290, 60, "node", "follows the log; as primary, writes to it").draw(),
        arrow(f"M{x + 190} 200H{x + 142}"),
        label(x + 166, 192, "read"),
        arrow(f"M{x + 250} 280V232"),
        label(x + 258, 260, "commit", anchor="start"),
        arrow(f"M{x + 80} 230V278"),
        label(x + 88, 260, "writes", anchor="start"),
    ]


def architecture() -> str:
    log = Box(20, 440, 560, 60, "log: the Kafka topic _schemas", "the only truth; the rest can be rebuilt")
    parts = [
        Box(330, 10, 200, 44, "clients", "any load balancer").draw(),
        arrow("M380 54L120 168"),
        arrow("M480 54L560 168"),
        *host(20, "primary"),
        *host(460, "secondary (any number)"),
        arrow("M480 310H332"),
        label(405, 302, "writes"),
        log.draw(),
        arrow("M120 340V438"),
        label(128, 395, "append", anchor="start"),
        arrow("M230 440V342"),
        label(238, 395, "read, apply", anchor="start"),
        arrow("M520 440V342"),
        label(528, 395, "read, apply", anchor="start"),
        Box(640, 440, 200, 60, "snapshots", "folder, S3, GCS, Azure, HDFS").draw(),
        arrow("M740 440V342"),
        label(748, 395, "load at start", anchor="start"),
        arrow("M580 470H638"),
        label(608, 462, "build"),
    ]
    return document("Clients reach any host. Hosts share one log", 515, parts)


ACTORS = ("client", "reader", "node", "primary", "Kafka", "primary's store")
STEPS = (
    (0, 1, "POST"),
    (1, 2, "command"),
    (2, 3, "forward (stream)"),
    (3, 3, "1. take all waiting commands as one batch"),
    (3, 3, "2. decide each over an overlay of the store"),
    (3, 4, "3. append"),
    (4, 3, "acknowledged"),
    (3, 5, "4. apply; commit rows and offset"),
    (3, 2, "reply"),
    (2, 1, "reply"),
    (1, 0, "200"),
)


def write() -> str:
    places = [70 + 144 * n for n in range(len(ACTORS))]
    bottom = 80 + 36 * len(STEPS)
    parts = [f'<path class="life" d="M{x} 46V{bottom}"/>' for x in places]
    parts += [Box(x - 62, 10, 124, 36, name).draw() for x, name in zip(places, ACTORS, strict=True)]
    for n, (start, end, text) in enumerate(STEPS):
        y, left, right = 84 + 36 * n, places[start], places[end]
        if start == end:
            parts.append(arrow(f"M{left} {y - 8}h18v16h-16"))
            parts.append(label(left + 26, y + 4, text, anchor="start"))
        else:
            parts.append(arrow(f"M{left} {y}H{right + (-2 if right > left else 2)}"))
            parts.append(label((left + right) // 2, y - 6, text))
    return document("A write, from the client's request to its answer", bottom + 10, parts)


# The boxes of the picture of imports, and the rooms in each. Within a row, from left to right.
BOXES: Mapping[str, tuple[str, ...]] = {
    "main, cli": ("registry.__main__", "registry.cli", "snapshots.spark.submit"),
    "reader": ("registry.reader",),
    "node": ("registry.node",),
    "snapshots.building, .spark, .backup": (
        "snapshots.building", "snapshots.spark", "snapshots.backup", "snapshots.commands", "snapshots"
    ),
    "api, ipc, host": ("registry.api", "registry.ipc", "registry.host"),
    "snapshots.loading": ("snapshots.loading",),
    "snapshots.format, .catalogue": ("snapshots.format", "snapshots.catalogue"),
    "cli.decoding": ("registry.cli.decoding",),
    "registrar.spark": ("registrar",),
    "encoder": ("registry.encoder",),
    "forwarding": ("registry.forwarding",),
    "http1": ("registry.http1",),
    "workers": ("registry.workers",),
    "log": ("registry.log",),
    "store": ("registry.store",),
    "election": ("election",),
    "domain": ("registry.domain",),
    "base": ("registry.base",),
}  # fmt: skip


def imports() -> str:
    """Draw the law of imports: a box may import those that its arrows lead to, and all below them."""
    arrows: dict[str, set[str]] = {name: set() for name in BOXES}
    for room, allowed in ALLOWED.items():
        if start := _box(room):
            arrows[start] |= {end for name in allowed if (end := _box(name)) and end != start}

    @cache
    def below(box: str) -> frozenset[str]:
        return frozenset(arrows[box]).union(*map(below, arrows[box]))

    @cache
    def row(box: str) -> int:
        return 1 + max(map(row, arrows[box]), default=-1)

    rows = 1 + max(map(row, BOXES))
    places: dict[str, Box] = {}
    for number in range(rows):
        names = [name for name in BOXES if row(name) == number]
        widths = [9 * len(name) + 24 for name in names]
        gap = (WIDTH - sum(widths)) // (len(names) + 1)
        for at, name in enumerate(names):
            x = gap * (at + 1) + sum(widths[:at])
            places[name] = Box(x, 10 + 88 * (rows - 1 - number), widths[at], 36, name)
    lines = []
    for start, box in places.items():
        direct = [end for end in arrows[start] if not any(end in below(other) for other in arrows[start])]
        # Ends are sorted from left to right, so that the arrows of one box do not cross.
        direct.sort(key=lambda end: places[end].x)
        for at, end in enumerate(direct):
            x = box.x + box.width * (at + 1) // (len(direct) + 1)
            to = places[end]
            lines.append(arrow(f"M{x} {box.y + 36}L{to.x + to.width // 2} {to.y - 2}"))
    height = 88 * rows - 34
    return document("Imports go down", height, [*lines, *(box.draw() for box in places.values())])


def _box(room: str) -> str:
    """Return the box that a room stands in; the version and the whole packages are in none."""
    found = [(name, each) for name, rooms in BOXES.items() for each in rooms if within(room, each)]
    return max(found, key=lambda one: len(one[1]), default=("", ""))[0]


PICTURES = {"architecture.svg": architecture, "imports.svg": imports, "write.svg": write}
