"""Plots of what grows: a PNG for each growth and durability, a panel for each thing measured over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.bench.report import Results, Spread
from tests.bench.servers import Durability

COLORS = ("#b0bec5", "#00796b", "#ef6c00", "#5c6bc0")
"""Of the servers in their order: Apache Kafka and ours as in the plots of the tables."""
COLUMNS = 2
PANEL_INCHES = (5.2, 3.4)
HEADROOM = 1.1
"""How much higher a panel is than its highest point."""

Curve = list[tuple[float, Spread]]
"""Points from left to right."""
Panels = dict[str, dict[str, Curve]]
"""What is drawn -> server -> its curve."""


def curves(results: Results) -> dict[tuple[str, Durability], Panels]:
    """All curves of a run, by what grows and durability."""
    found: dict[tuple[str, Durability], Panels] = defaultdict(dict)
    for (durability, _), row in results.rows():
        for server, runs in row.runs.items():
            points = {one.point for one in runs.values() if one.point is not None}
            for point in points:
                spread = Spread.of(one.value for one in runs.values())
                assert spread is not None
                panel = found[point.growth, durability].setdefault(point.what, {})
                panel.setdefault(server, []).append((point.x, spread))
    for panels in found.values():
        for panel in panels.values():
            for curve in panel.values():
                curve.sort(key=lambda at: at[0])
    return dict(found)


def draw(results: Results, titles: Mapping[str, str], caption: str, folder: Path) -> list[Path]:
    """Write the plots into the folder, and say which."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for (growth, durability), panels in curves(results).items():
        path = folder / f"growth-{growth}-{durability.value}.png"
        _draw_one(panels, titles, f"{growth}, {durability.value} ({caption})", growth, path)
        written.append(path)
    return written


def _draw_one(panels: Panels, titles: Mapping[str, str], title: str, growth: str, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # whoever draws nothing needs none of it
    from matplotlib.figure import Figure

    lines = -(-len(panels) // COLUMNS)
    figure = Figure(figsize=(PANEL_INCHES[0] * COLUMNS, PANEL_INCHES[1] * lines), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    colors = dict(zip(titles, COLORS, strict=False))
    for place, (what, panel) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(lines, COLUMNS, place)
        for server, curve in panel.items():
            x = [at for at, _ in curve]
            axes.plot(x, [one.median for _, one in curve], "o-", color=colors[server], label=titles[server])
            axes.fill_between(
                x,
                [one.least for _, one in curve],
                [one.most for _, one in curve],
                color=colors[server],
                alpha=0.2,
            )
        axes.set_xscale("log")
        points = sorted({at for curve in panel.values() for at, _ in curve})
        axes.set_xticks(points, [f"{at:,g}" for at in points])
        axes.minorticks_off()
        axes.set_ylim(0, HEADROOM * max(one.most for curve in panel.values() for _, one in curve) or 1)
        axes.set_xlabel(growth)
        axes.set_title(what, fontsize=10)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
