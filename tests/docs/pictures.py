"""The pictures of docs/how-it-works.md: `python -m tests.docs.pictures` draws them into docs/pictures.

Drawn from words and places, so that they are plain text in the repository, read well in light and in dark,
and need neither a program for drawing nor a font of their own.
"""

from __future__ import annotations

from html import escape

from tests.docs.constants_page import ROOT

FOLDER = ROOT / "docs" / "pictures"

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b2b34; text-anchor: middle }
  .small { font-size: 12px; fill: #45606e }
  .left { text-anchor: start }
  .box { fill: #ffffff; stroke: #00796b; stroke-width: 1.5 }
  .soft { fill: #e0f2f1; stroke: #00796b; stroke-width: 1.5 }
  .warm { fill: #fff3e0; stroke: #ef6c00; stroke-width: 1.5 }
  .link { fill: none; stroke: #45606e; stroke-width: 1.5; marker-end: url(#arrow) }
  .back { fill: none; stroke: #ef6c00; stroke-width: 1.5; stroke-dasharray: 5 4; marker-end: url(#arrow) }
  .paper { fill: #fafafa }
"""
"""A light ground of its own keeps a picture readable on a dark page."""


class Picture:
    """An SVG of boxes, arrows and words."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = (width, height)
        self._title = title
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, *words: str, kind: str = "box") -> None:
        """A box with lines of words in its middle; the first is the name."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        first = y + height / 2 - 9 * (len(words) - 1) + 5
        for number, line in enumerate(words):
            self.words(x + width // 2, round(first + 18 * number), line, kind="small" if number else "")

    def words(self, x: int, y: int, text: str, kind: str = "small") -> None:
        """A line of words."""
        self._parts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int], kind: str = "link") -> None:
        """A line through points, with its head at the last."""
        path = " L ".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="{kind}" d="M {path}"/>')

    def text(self) -> str:
        """The whole file."""
        width, height = self._size
        return "\n".join([
            (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title">'),
            f'<title id="title">{escape(self._title)}</title>',
            f"<style>{STYLE}</style>",
            (
                '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
                'markerHeight="7" orient="auto-start-reverse"><path d="M 0 0 L 10 5 L 0 10 z" '
                'fill="#45606e"/></marker></defs>'
            ),
            f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
            *self._parts,
            "</svg>",
            "",
        ])  # fmt: skip


def mesh() -> Picture:
    """Who talks to whom."""
    drawn = Picture(
        760, 400, "Clients talk to a gateway; the gateway publishes to stores; towers introduce them"
    )
    drawn.box(40, 24, 200, 48, "Kafka clients", "Java, librdkafka, Python, Go ...")
    drawn.box(280, 24, 200, 48, "Spark", 'format("kafka")')
    drawn.box(520, 24, 200, 48, "dafka-pipeline", "PySpark jobs")
    drawn.box(
        200, 140, 360, 60, "gateway", "connections, topics, groups; one writer a partition", kind="soft"
    )
    for x in (140, 380, 620):
        drawn.arrow((x, 72), (380 + (x - 380) // 3, 138))
    drawn.words(655, 112, "Kafka's protocol, TCP")
    drawn.box(600, 150, 130, 40, "catalog", "one SQLite file")
    drawn.arrow((560, 170), (598, 170))
    for number, x in enumerate((200, 330, 460), 1):
        drawn.box(x, 310, 100, 56, f"store {number}", "RocksDB", kind="soft")
        drawn.arrow((380 - 36 + 36 * (number - 1) - 12, 200), (x + 40, 308))
        drawn.arrow((x + 62, 310), (380 - 36 + 36 * (number - 1) + 12, 202), kind="back")
    drawn.words(98, 262, "records, to all that keep")
    drawn.words(98, 280, "the partition: ZeroMQ")
    drawn.words(632, 262, "what is fsynced")
    drawn.box(620, 310, 110, 56, "tower", "who is where", kind="warm")
    return drawn


def produce() -> Picture:
    """The path of one Produce with acks=all on three stores."""
    drawn = Picture(
        760, 430, "A Produce: checked, appended, published to three stores, answered after two fsyncs"
    )
    lanes = {"producer": 80, "gateway": 250, "store 1": 420, "store 2": 550, "store 3": 680}
    for name, x in lanes.items():
        drawn.box(x - 55, 20, 110, 34, name, kind="box" if name == "producer" else "soft")
        drawn.arrow((x, 54), (x, 410))
    client, gateway = lanes["producer"], lanes["gateway"]
    drawn.arrow((client, 86), (gateway - 4, 86))
    drawn.words(165, 79, "Produce, acks=all")
    drawn.box(
        gateway - 75, 100, 150, 58, "check and append", "CRC, each record;", "offsets are given", kind="soft"
    )
    for name in ("store 1", "store 2", "store 3"):
        drawn.arrow((gateway, 190), (lanes[name] - 4, 190 + 12 * int(name[-1])))
    drawn.words(330, 178, "RECORD, to all three at once")
    for name, y in (("store 1", 236), ("store 2", 250), ("store 3", 318)):
        drawn.box(lanes[name] - 48, y, 96, 42, "write, fsync", kind="warm")
    drawn.arrow((lanes["store 1"], 278), (lanes["store 1"], 300), (gateway + 4, 300), kind="back")
    drawn.words(335, 294, "ACK")
    drawn.arrow((lanes["store 2"], 292), (lanes["store 2"], 316), (gateway + 4, 316), kind="back")
    drawn.box(gateway - 82, 326, 164, 34, "two of three: durable", kind="soft")
    drawn.arrow((gateway, 380), (client + 4, 380), kind="back")
    drawn.words(165, 373, "answer: the offset")
    drawn.arrow((lanes["store 3"], 360), (lanes["store 3"], 398), (gateway + 4, 398), kind="back")
    drawn.words(335, 392, "the third one follows")
    return drawn


def chain() -> Picture:
    """A partition as a chain of segments."""
    drawn = Picture(760, 250, "A partition is a chain of closed segments and one open segment")
    drawn.words(30, 36, "partition 0 of orders: its chain in the catalog", kind="left")
    for x, name, offsets, where in (
        (30, "segment, closed", "offsets 0 to 4,999", "stores 1 2 3"),
        (215, "segment, closed", "5,000 to 9,211", "stores 1 2 3"),
        (400, "segment, closed", "9,212 to 12,030", "stores 1 2 4"),
    ):
        drawn.box(x, 54, 165, 76, name, offsets, where)
        drawn.arrow((x + 165, 92), (x + 183, 92))
    drawn.box(585, 54, 150, 76, "segment, open", "12,031 and on", "stores 1 2 4", kind="warm")
    drawn.arrow((30, 176), (735, 176))
    drawn.words(30, 164, "log start", kind="small left")
    drawn.words(30, 204, "closed segments never change:", kind="small left")
    drawn.words(30, 222, "retention drops them, compaction replaces them", kind="small left")
    drawn.arrow((660, 214), (660, 180))
    drawn.words(630, 232, "high watermark: what two stores have")
    return drawn


PICTURES = {"mesh.svg": mesh, "produce.svg": produce, "chain.svg": chain}


def drawings() -> dict[str, str]:
    """The files' names and texts."""
    return {name: draw().text() for name, draw in PICTURES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, drawing in drawings().items():
        (FOLDER / file).write_text(drawing)
