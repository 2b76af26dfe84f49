"""The plots of docs/benchmarks.md, from its own tables: `python -m tests.docs.plots`, into docs/pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from tests.docs.constants_page import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "pictures"

LEFT, RIGHT, BAR, GAP, HEAD = 300, 700, 12, 40, 64
"""Pixels: where bars begin and the longest one ends, a bar's height, from pair to pair, above the first."""

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1b2b34 }
  .head { font-size: 15px }
  .name { text-anchor: end }
  .number { font-size: 12px; fill: #45606e }
  .ours { fill: #00796b }
  .kafka { fill: #b0bec5 }
  .paper { fill: #fafafa }
"""

NAMES = {
    "1000 records/s": ("records", "thousand records a second, more is better"),
    "MB/s": ("megabytes", "megabytes a second, more is better"),
    "us": ("latency", "microseconds, less is better"),
    "requests/s": ("requests", "requests a second, more is better"),
}
"""Of the units that are drawn: the end of a file's name, and what stands above the bars."""

_SPREAD = r"(?: \([^)|]*\))?"
"""What stands after a median: the least and the greatest."""
_ROW = re.compile(
    rf"^\| (fsync|cached) \| ([^|]+) \| ([^|]+) \| ([\d.,]+){_SPREAD} \| ([\d.,]+){_SPREAD} \|", re.MULTILINE
)


@dataclass(frozen=True)
class Figure:
    """A row of a table: what was measured, of Apache Kafka and here, as the table writes it."""

    name: str
    kafka: str
    ours: str


def figures() -> dict[tuple[str, str], list[Figure]]:
    """The rows of the tables by durability and unit, of those units that are drawn."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for durability, name, unit, kafka, ours in _ROW.findall(PAGE.read_text()):
        if unit in NAMES:
            found.setdefault((durability, unit), []).append(Figure(name, kafka, ours))
    return found


def plot(durability: str, unit: str, rows: list[Figure]) -> str:
    """An SVG with a pair of bars for each row."""
    longest = max(_number(text) for row in rows for text in (row.kafka, row.ours))
    height = HEAD + GAP * len(rows) + 4
    title = f"{durability}: {NAMES[unit][1]}"
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" '
            f'height="{height}" role="img" aria-labelledby="title">'
        ),
        f'<title id="title">{escape(title)}</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="760" height="{height}" rx="8"/>',
        f'<text class="head" x="16" y="26">{escape(title)}</text>',
        (
            f'<rect class="ours" x="{LEFT}" y="38" width="12" height="12"/>'
            f'<text x="{LEFT + 18}" y="49">dafka standalone</text>'
        ),
        (
            f'<rect class="kafka" x="{LEFT + 150}" y="38" width="12" height="12"/>'
            f'<text x="{LEFT + 168}" y="49">Apache Kafka</text>'
        ),
    ]
    for number, row in enumerate(rows):
        top = HEAD + GAP * number
        parts.append(f'<text class="name" x="{LEFT - 10}" y="{top + BAR + 5}">{escape(row.name)}</text>')
        for kind, text, y in (("ours", row.ours, top), ("kafka", row.kafka, top + BAR + 1)):
            width = max(1, round(_number(text) / longest * (RIGHT - LEFT)))
            parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width}" height="{BAR}"/>')
            parts.append(f'<text class="number" x="{LEFT + width + 5}" y="{y + BAR - 1}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def plots() -> dict[str, str]:
    """The files' names and texts."""
    return {
        f"{durability}-{NAMES[unit][0]}.svg": plot(durability, unit, rows)
        for (durability, unit), rows in figures().items()
    }


def _number(text: str) -> float:
    return float(text.replace(",", ""))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, drawing in plots().items():
        (FOLDER / file).write_text(drawing)
