"""The text of metrics is what the prometheus_client would write."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway.common.metrics import Histogram, Metrics
from gateway.common.metrics_text import LINES_A_PIECE

NAMES = ("plain", 'quo"te', "back\\slash", "new\nline", "\u00fc\u4e2d", "")
NUMBERS = (0, 1, -3, 2.5, 1e-9, 123456789, 1e22, 2**62, math.inf, -math.inf, math.nan)


class Shown(Collector):
    """What the prometheus_client is given."""

    def __init__(self, *families: Any) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def own_text(metrics: Metrics) -> str:
    """Without what is shown of requests."""
    return metrics.text().decode().partition("# HELP dafka_requests_total")[0]


@pytest.mark.parametrize("as_iterator", [False, True])
def test_values_with_labels(as_iterator: bool) -> None:
    values = {(name, str(number)): number for name in NAMES for number in NUMBERS}
    metrics = Metrics(with_process=False, with_clients=False)
    metrics.gauge(
        "x_y", "What it is,\nwith a \\.", lambda: iter(values.items()) if as_iterator else values, ("t", "a")
    )
    metrics.counter("z_total", "Z.", lambda: {("one",): 1}, ("k",))
    metrics.gauge("empty", "Nothing.", dict, ("k",))
    metrics.gauge("lone", "A number.", lambda: 7)
    gauge = GaugeMetricFamily("x_y", "What it is,\nwith a \\.", labels=("t", "a"))
    for of, value in values.items():
        gauge.add_metric(of, value)
    counter = CounterMetricFamily("z_total", "Z.", labels=("k",))
    counter.add_metric(("one",), 1)
    empty = GaugeMetricFamily("empty", "Nothing.", labels=("k",))
    lone = GaugeMetricFamily("lone", "A number.", value=7)
    assert own_text(metrics) == generate_latest(Shown(gauge, counter, empty, lone)).decode()


def test_histograms() -> None:
    histogram = Histogram((0.001, 1.0, 30.0))
    for seen in (0.0001, 0.5, 0.5, 100):
        histogram.observe(seen)
    metrics = Metrics(with_process=False, with_clients=False)
    metrics.histogram("h_seconds", "H.", histogram)
    family = HistogramMetricFamily("h_seconds", "H.")
    family.add_metric([], histogram.cumulative(), histogram.total)
    assert own_text(metrics) == generate_latest(Shown(family)).decode()
    stats = metrics.api(1, "Fetch")
    stats.latency = histogram
    of_api = HistogramMetricFamily(
        "dafka_request_seconds", "From the whole request to its answer ready to be sent.", labels=("api",)
    )
    of_api.add_metric(["Fetch"], histogram.cumulative(), histogram.total)
    assert generate_latest(Shown(of_api)).decode() in metrics.text().decode()


def test_many_values_come_in_pieces_and_are_read_with_them() -> None:
    read = 0

    def values() -> Any:
        nonlocal read
        for number in range(10 * LINES_A_PIECE):
            read += 1
            yield (str(number),), number

    metrics = Metrics(with_process=False, with_clients=False)
    metrics.gauge("many", "Many.", values, ("n",))
    for piece in metrics.pieces():
        assert piece.count("\n") <= LINES_A_PIECE
        if piece.startswith('many{n="0"}'):
            assert read == LINES_A_PIECE
    assert read == 10 * LINES_A_PIECE
