"""The tables of docs/metrics.md from the code: every metric of every process.

`python -m tests.docs.metrics_page` writes them; a test compares them with what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from unittest.mock import MagicMock

from dafka.processes.gateway_metrics import register_gateway
from dafka.processes.health import Health, register_process
from dafka.processes.loop_watch import LoopWatch, show_loop
from dafka.processes.mesh_metrics import register_beacon, register_keys, register_nodes, register_tower
from dafka.processes.store_metrics import register_store
from dafka.processes.survey_metrics import register_survey
from gateway.audit.audit import AUDIT, Audit
from gateway.common.metrics import Described, Metrics
from gateway.front.certificates import CERTIFICATE, Certificates
from gateway.front.quota_metrics import QUOTAS, Quotas
from gateway.front.server import MEMORY

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"

BEGIN, END = "<!-- made from the code -->\n", "<!-- end -->\n"

SECTIONS: Final[dict[str, Callable[[Metrics], None]]] = {
    "Every process": lambda metrics: register_process(metrics, Health()),
    "The event loop of gateways and stores": lambda metrics: show_loop(metrics, LoopWatch()),
    "Nodes of the mesh: gateways and stores": lambda metrics: register_nodes(metrics, []),
    "Links to other nodes: gateways and stores of a mesh": lambda metrics: register_beacon(
        metrics, MagicMock()
    ),
    "Keys of the mesh: towers, gateways and stores": lambda metrics: register_keys(metrics, MagicMock()),
    "Partitions, topics and the lag of groups: gateways": lambda metrics: register_survey(
        metrics, MagicMock(by_partition=True)
    ),
    "Clients: gateways": lambda metrics: metrics.register(MEMORY, {}),
    "Whoever serves over TLS": lambda metrics: metrics.register(CERTIFICATE, _some_certificates()),
    "Quotas: gateways": lambda metrics: metrics.register(QUOTAS, Quotas(MagicMock(), MagicMock())),
    "Where there is an audit: gateways": lambda metrics: metrics.register(AUDIT, _some_audit()),
    "The log and groups: gateways": lambda metrics: register_gateway(metrics, MagicMock()),
    "Stores": lambda metrics: register_store(metrics, MagicMock()),
    "Towers": lambda metrics: register_tower(metrics, MagicMock()),
}
"""What registers which. `dafka standalone` is a gateway and a store, without links."""


ON_OPTIONS: Final = frozenset(("Whoever serves over TLS", "Where there is an audit: gateways"))
"""Sections of which there is nothing where nobody has asked for it."""


def _some_audit() -> Audit:
    made: Audit = MagicMock()
    return made


def _some_certificates() -> Certificates:
    made: Certificates = MagicMock()
    return made


OF_CLIENTS: Final = "Clients: gateways"
"""The section that has the requests, too."""


def metrics_of(section: str) -> list[Described]:
    """The metrics of one section, in the order in which they are served."""
    metrics = Metrics(with_process=False, with_clients=section == OF_CLIENTS)
    SECTIONS[section](metrics)
    return list(metrics.described())


def tables() -> str:
    """All of them, with their headings."""
    return "\n".join(f"### {section}\n\n{_table(metrics_of(section))}" for section in SECTIONS)


def _table(metrics: Iterable[Described]) -> str:
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |"
        for one in metrics
    ]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows]) + "\n"


def page(text: str) -> str:
    """The page with the tables of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + tables() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
