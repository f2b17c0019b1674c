"""A plot of a few lines, on two logarithmic axes, as SVG: no library is needed for that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 360, 260
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 28, 40
COLOURS = ("#1f6feb", "#d1242f", "#57606a")


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]


def svg(panels: Sequence[Panel]) -> str:
    """The panels side by side."""
    box = f'viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for k, panel in enumerate(panels):
        parts += [f'<g transform="translate({k * WIDTH} 0)">', *_drawn(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _drawn(panel: Panel) -> list[str]:
    points = [point for line in panel.lines.values() for point in line]
    (x_low, x_high), (y_low, y_high) = (_decades(values) for values in zip(*points, strict=True))

    def across(x: float) -> float:
        part = (math.log10(x) - x_low) / (x_high - x_low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        part = (math.log10(y) - y_low) / (y_high - y_low)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="16" font-weight="bold">{panel.title}</text>']
    for power in range(x_low, x_high + 1):
        at = across(10.0**power)
        parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(at, HEIGHT - BOTTOM + 14, f"{10.0**power:,g}", "middle"))
    for power in range(y_low, y_high + 1):
        at = down(10.0**power)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 4, at + 4, f"{10.0**power:g}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, panel.x, "middle"))
    parts.append(_text(LEFT + 6, TOP + 12, panel.y, "start"))
    for colour, (name, line) in zip(COLOURS, panel.lines.items(), strict=False):
        path = "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in line)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.5" fill="{colour}"/>'
            for x, y in line
        ]
        x, y = line[-1]
        parts.append(_text(across(x) - 4, down(y) - 6, name, "end", colour))
    return parts


def _text(x: float, y: float, text: str, anchor: str, fill: str = "black") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{text}</text>'
