"""Plots as SVG text: lines, stacked areas and bars on two linear axes. Colours are the page's, so that they follow its theme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 640, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 40
_TICKS = 5

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points in order of x."""

    name: str
    points: Sequence[Point]
    colour: int
    """Of the page's palette."""
    dashed: bool = False
    dots: bool = False
    """Mark each point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What the axes say."""

    x: str
    y: str
    limit: float | None = None
    """A horizontal line: what is owed."""
    limit_name: str = ""
    y_max: float | None = None
    """Top of the axis; None: the largest value."""
    x_range: tuple[float, float] | None = None


def lines(series: Sequence[Series], axes: Axes) -> str:
    """Return a line plot; empty text when there is nothing to plot."""
    frame = _frame(series, axes)
    if frame is None:
        return ""
    drawn = []
    for one in series:
        if not one.points:
            continue
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in one.points)
        dash = ' stroke-dasharray="5 4"' if one.dashed else ""
        drawn.append(f'<polyline class="line s{one.colour}" points="{path}"{dash}/>')
        if one.dots or len(one.points) == 1:
            drawn += [
                f'<circle class="dot f{one.colour}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3.5">'
                f"<title>{escape(one.name)}: {_number(x)}, {_number(y)}</title></circle>"
                for x, y in one.points
            ]
    return _svg(frame, drawn, axes) + _legend(series)


def stacked(series: Sequence[Series], axes: Axes) -> str:
    """Return stacked areas; all series have the same x in the same order."""
    totals = [0.0] * len(series[0].points) if series else []
    areas: list[tuple[Series, list[float], list[float]]] = []
    for one in series:
        below = totals
        totals = [base + y for base, (_, y) in zip(below, one.points, strict=True)]
        areas.append((one, below, totals))
    top = (
        [Series(name="", points=[(x, y) for (x, _), y in zip(series[0].points, totals, strict=True)], colour=0)]
        if series
        else []
    )
    frame = _frame(top, axes)
    if frame is None:
        return ""
    drawn = []
    for one, below, above in areas:
        xs = [frame.x(x) for x, _ in one.points]
        up = [f"{x:.1f},{frame.y(y):.1f}" for x, y in zip(xs, above, strict=True)]
        down = [f"{x:.1f},{frame.y(y):.1f}" for x, y in zip(reversed(xs), reversed(below), strict=True)]
        drawn.append(f'<polygon class="area f{one.colour}" points="{" ".join(up + down)}"/>')
    return _svg(frame, drawn, axes) + _legend(series, filled=True)


def bars(series: Sequence[Series], axes: Axes) -> str:
    """Return bars from 0 at each x, those of several series side by side."""
    frame = _frame(series, axes)
    if frame is None:
        return ""
    slots = max((len(one.points) for one in series), default=1)
    width = max((_WIDTH - _LEFT - _RIGHT) / max(slots, 1) * 0.7 / len(series), 1.5)
    drawn = [
        f'<rect class="f{one.colour}" x="{frame.x(x) + (n - len(series) / 2) * width:.1f}" y="{frame.y(y):.1f}" '
        f'width="{width:.1f}" height="{frame.y(0) - frame.y(y):.1f}"/>'
        for n, one in enumerate(series)
        for x, y in one.points
        if y
    ]
    return _svg(frame, drawn, axes) + _legend(series, filled=True)


@dataclass(frozen=True, slots=True)
class _Frame:
    x_from: float
    x_to: float
    y_to: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_from) / (self.x_to - self.x_from) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = min(max(value / self.y_to, 0.0), 1.0)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def _frame(series: Sequence[Series], axes: Axes) -> _Frame | None:
    points = [point for one in series for point in one.points]
    if not points:
        return None
    low, high = axes.x_range or (min(x for x, _ in points), max(x for x, _ in points))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    top = axes.y_max if axes.y_max is not None else max([y for _, y in points] + [(axes.limit or 0.0) * 1.05])
    return _Frame(low, high, _rounded_up(top) if axes.y_max is None else top)


def _svg(frame: _Frame, drawn: list[str], axes: Axes) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(axes.y)} against {escape(axes.x)}">'
    ]
    for value in _ticks(0.0, frame.y_to):
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in _ticks(frame.x_from, frame.x_to):
        x = frame.x(value)
        parts.append(f'<line class="tick" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{_number(value)}</text>')
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    parts += drawn
    if axes.limit is not None and axes.limit <= frame.y_to:
        y = frame.y(axes.limit)
        parts.append(f'<line class="limit" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="limit-name" x="{_LEFT + 5}" y="{y - 5:.1f}">{escape(axes.limit_name)}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{escape(axes.x)}</text>')
    middle = (_TOP + bottom) / 2
    parts.append(
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">{escape(axes.y)}</text>'
    )
    return "".join(parts) + "</svg>"


def _legend(series: Sequence[Series], filled: bool = False) -> str:
    named = [one for one in series if one.name and one.points]
    if len(named) < 2:
        return ""
    keys = []
    for one in named:
        kind = "box" if filled else "dash" if one.dashed else "stroke"
        keys.append(f'<span><i class="{kind} k{one.colour}"></i>{escape(one.name)}</span>')
    return f'<p class="legend">{"".join(keys)}</p>'


def _ticks(low: float, high: float) -> list[float]:
    step = _step((high - low) / _TICKS)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def _step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= raw * 0.999)


def _rounded_up(value: float) -> float:
    if value <= 0:
        return 1.0
    step = _step(value / _TICKS)
    return math.ceil(value / step - 1e-9) * step


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
