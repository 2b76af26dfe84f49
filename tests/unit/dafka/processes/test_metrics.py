"""What each process shows to Prometheus: dashboards and alerts rely on the names, so they stay."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from dafka.processes.gateway_metrics import register_gateway
from dafka.processes.mesh_metrics import register_beacon, register_nodes, register_tower
from dafka.processes.store_metrics import register_store
from gateway.common.metrics import Metrics

SHOWN = Path(__file__).with_name("metrics_shown.txt")

REGISTER: dict[str, Callable[[Metrics], None]] = {
    "nodes": lambda metrics: register_nodes(metrics, [MagicMock()]),
    "beacon": lambda metrics: register_beacon(metrics, MagicMock()),
    "gateway": lambda metrics: register_gateway(metrics, MagicMock()),
    "store": lambda metrics: register_store(metrics, MagicMock()),
    "tower": lambda metrics: register_tower(metrics, MagicMock()),
}


def described(register: Callable[[Metrics], None], *, with_clients: bool) -> list[str]:
    """Names with types, and help texts."""
    metrics = Metrics(with_process=False, with_clients=with_clients)
    register(metrics)
    return [line for line in metrics.text().decode().splitlines() if line.startswith("#")]


@pytest.mark.parametrize("who", REGISTER)
def test_names_and_help_texts(who: str) -> None:
    """After a change on purpose: put the lines that this test found into the file."""
    sections = SHOWN.read_text().split("\n\n")
    expected = {title: lines for title, *lines in (section.splitlines() for section in sections)}
    assert described(REGISTER[who], with_clients=who == "gateway") == expected[who]
