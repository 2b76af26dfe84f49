"""Points of several rounds become curves, and curves a picture."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.bench.curves import curves, draw
from tests.bench.measurement import Measurement, Point
from tests.bench.report import Results, Spread
from tests.bench.servers import Durability
from tests.peers.requirements import unavailable

TITLES = {"kafka": "Apache Kafka", "dafka": "dafka standalone"}


def grown() -> Results:
    results = Results(TITLES)
    for server, factor in (("kafka", 10.0), ("dafka", 1.0)):
        for number in (1, 2, 3):
            for x in (100, 1, 10):
                for what in ("produce p99, us", "memory, MB"):
                    value = factor * x * number
                    point = Point("partitions", x, what)
                    one = Measurement(f"{x} partitions: {what}", "", value, False, point=point)
                    results.add(Durability.FSYNC, server, number, one)
    results.add(Durability.FSYNC, "dafka", 1, Measurement("no point", "us", 1.0, False))
    return results


def test_curves_go_from_left_to_right_with_the_spread_of_the_rounds() -> None:
    found = curves(grown())
    assert list(found) == [("partitions", Durability.FSYNC)]
    panels = found["partitions", Durability.FSYNC]
    assert list(panels) == ["produce p99, us", "memory, MB"]
    assert panels["memory, MB"]["dafka"] == [
        (1, Spread(2.0, 1.0, 3.0)),
        (10, Spread(20.0, 10.0, 30.0)),
        (100, Spread(200.0, 100.0, 300.0)),
    ]
    assert panels["memory, MB"]["kafka"][0] == (1, Spread(20.0, 10.0, 30.0))


def test_a_plot_is_a_png(tmp_path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        unavailable("matplotlib is not installed: `make test` brings it")
    (path,) = draw(grown(), TITLES, "commit 0123", tmp_path)
    assert path.name == "growth-partitions-fsync.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
