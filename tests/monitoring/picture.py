"""A picture of some of the dashboard's panels, with what a Prometheus saw of a mesh while things went wrong.

`python -m tests.monitoring.picture` runs the scene (two minutes) and writes docs/images/dashboard.svg. It is
drawn here, from the panels' own queries; Grafana draws them more finely.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from tests.monitoring.dashboard import ROWS, Panel, asked
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.rules import ROOT
from tests.monitoring.scene import watched_mesh

FILE: Final = ROOT / "docs" / "images" / "dashboard.svg"

SHOWN: Final = (
    "Partitions that lack something",
    "Records in",
    "Latency, 99th percentile",
    "Stages, 99th percentile",
    "Lag in seconds",
    "Lag in records",
    "fsync, 99th percentile",
    "Catching up",
)

PHASE_SECONDS: Final = 18.0
STEP_SECONDS: Final = 1

WIDTH, HEIGHT, MARGIN, LEFT, LEGEND = 480, 230, 14, 58, 54
COLUMNS: Final = 2
MOST_LINES: Final = 6
COLOURS: Final = ("#3274d9", "#e0752d", "#299c46", "#a352cc", "#c4162a", "#b7950b")


class Line(NamedTuple):
    """A name, and (time, value) pairs."""

    name: str
    points: Sequence[tuple[float, float]]


def record() -> tuple[dict[str, list[Line]], float]:
    """The lines of each panel, and when they end: a store is killed and comes back, then a consumer stops."""
    with (
        tempfile.TemporaryDirectory(prefix="dafka-picture-") as path,
        watched_mesh(Path(path)) as watched,
    ):
        began = time.time()
        time.sleep(PHASE_SECONDS)
        watched.mesh.stores[2].kill9()
        time.sleep(PHASE_SECONDS)
        watched.mesh.stores[2].start()
        time.sleep(PHASE_SECONDS)
        watched.consuming.close()
        time.sleep(PHASE_SECONDS)
        watched.consuming.enter_context(watched.load.consumer())
        time.sleep(PHASE_SECONDS)
        ended = time.time()
        panels = {panel.title: panel for row in ROWS.values() for panel in row}
        return {
            title: list(_lines(watched.prometheus, panels[title], began, ended)) for title in SHOWN
        }, ended


def _lines(prometheus: Prometheus, panel: Panel, began: float, ended: float) -> Iterator[Line]:
    for query in panel.queries:
        found = prometheus.api(
            "query_range",
            query=asked(query.expression).replace("[1m]", "[10s]"),
            start=str(began),
            end=str(ended),
            step=str(STEP_SECONDS),
        )["result"]
        for one in found:
            points = [(float(at), float(value)) for at, value in one["values"] if value != "NaN"]
            if points:
                yield Line(_name(query.legend, one["metric"]), points)


def _name(legend: str, labels: Mapping[str, str]) -> str:
    for label, value in labels.items():
        legend = legend.replace(f"{{{{{label}}}}}", value)
    return legend


def draw(panels: Mapping[str, Sequence[Line]], units: Mapping[str, str], ended: float) -> str:
    """The whole picture."""
    rows = -(-len(panels) // COLUMNS)
    width, height = WIDTH * COLUMNS, HEIGHT * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<style>text { font: 11px sans-serif } text.title { font: bold 13px sans-serif }</style>",
        "<title>Panels of the dashboard while a store is killed and a consumer stops</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, (title, lines) in enumerate(panels.items()):
        x, y = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x},{y})">')
        parts += _panel(title, sorted(lines, key=_peak, reverse=True)[:MOST_LINES], units[title], ended)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _peak(line: Line) -> float:
    return max(value for _, value in line.points)


def _panel(title: str, lines: Sequence[Line], unit: str, ended: float) -> Iterator[str]:
    top, bottom, right = 34, HEIGHT - LEGEND, WIDTH - MARGIN
    seconds = 5 * PHASE_SECONDS
    highest = max([_peak(line) for line in lines], default=0) or 1.0
    yield f'<text x="{MARGIN}" y="20" class="title" fill="#222">{escape(title)}</text>'
    for share in (0.0, 0.5, 1.0):
        y = bottom - share * (bottom - top)
        yield f'<line x1="{LEFT}" x2="{right}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>'
        label = _shown(highest * share, unit)
        yield f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end" fill="#555">{escape(label)}</text>'
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        for run in _runs(line.points):
            points = " ".join(
                f"{LEFT + max(0.0, 1 - (ended - at) / seconds) * (right - LEFT):.1f},"
                f"{bottom - value / highest * (bottom - top):.1f}"
                for at, value in run
            )
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        x, y = LEFT + number % 3 * 140, bottom + 20 + number // 3 * 16
        yield f'<rect x="{x}" y="{y - 8}" width="10" height="8" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="{y}" fill="#333">{escape(line.name[:20])}</text>'


def _runs(points: Sequence[tuple[float, float]]) -> Iterator[Sequence[tuple[float, float]]]:
    """Points without a gap between them: where there was nothing no line is drawn."""
    begin = 0
    for place in range(1, len(points) + 1):
        if place == len(points) or points[place][0] - points[place - 1][0] > 2 * STEP_SECONDS:
            yield points[begin:place]
            begin = place


def _shown(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def main() -> None:
    """Run the scene and write the picture."""
    panels, ended = record()
    units = {panel.title: panel.unit for row in ROWS.values() for panel in row}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(draw(panels, units, ended))


if __name__ == "__main__":
    main()
