"""A chart of a few lines as SVG, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 860, 470
LEFT, TOP, RIGHT, BOTTOM = 60, 40, 640, 420


class Series(NamedTuple):
    """One line, with its points from left to right."""

    name: str
    points: Sequence[tuple[float, float]]
    color: str
    dashed: bool = False


class Axis(NamedTuple):
    """One axis: between two powers of ten, from one pixel to another."""

    low: int
    high: int
    begin: int
    end: int

    @classmethod
    def over(cls, values: Sequence[float], begin: int, end: int) -> Axis:
        """Return an axis that fits all values."""
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), begin, end)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    def marks(self) -> list[float]:
        """The area of the lines."""
        steps = [step * 10.0**power for power in range(self.low, self.high) for step in (1, 2, 5)]
        return [*steps, 10.0**self.high]


def draw(title: str, series: Sequence[Series]) -> str:
    """Return the chart as an SVG document."""
    across = Axis.over([x for each in series for x, _ in each.points], LEFT, RIGHT)
    up = Axis.over([y for each in series for _, y in each.points], BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        f' font-family="sans-serif" font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
    ]
    for mark in across.marks():
        x = across.at(mark)
        parts.append(f'<path d="M{x} {TOP}V{BOTTOM}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{x}" y="{BOTTOM + 18}" text-anchor="middle">{_short(mark)}</text>')
    for mark in up.marks():
        y = up.at(mark)
        parts.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="#e5e5e5"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{_short(mark)}</text>')
    for number, each in enumerate(series):
        parts += _line(each, across, up)
        y = TOP + 14 + 22 * number
        parts.append(f'<circle cx="{RIGHT + 24}" cy="{y - 4}" r="4" fill="{each.color}"/>')
        parts.append(f'<text x="{RIGHT + 36}" y="{y}">{escape(each.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _line(series: Series, across: Axis, up: Axis) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in series.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    dash = ' stroke-dasharray="5 4"' if series.dashed else ""
    dots = [f'<circle cx="{x}" cy="{y}" r="4" fill="{series.color}"/>' for x, y in places]
    return [f'<path d="{path}" fill="none" stroke="{series.color}" stroke-width="2"{dash}/>', *dots]


def _short(value: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"
