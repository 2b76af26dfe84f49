"""The API versions that a server offers, by Kafka's own tool; and what Apache Kafka offers, kept as data.

`python -m tests.peers.api_versions` asks a Kafka that it starts, and writes the data anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.java import java_tool
from tests.peers.maven import KAFKA_VERSION

DATA = Path(__file__).parents[1] / "data" / "kafka" / "api_versions.tsv"
HEAD = f"# What a broker of Apache Kafka {KAFKA_VERSION} offers: API key, name, lowest and highest version.\n"
TOOL = "org.apache.kafka.tools.BrokerApiVersionsCommand"

LINE = re.compile(r"^\s+(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: ", re.MULTILINE)
"""`Produce(0): 0 to 13 [usable: 13],`; what the server does not have is `UNSUPPORTED` instead."""


@dataclass(frozen=True, order=True)
class OfferedApi:
    """A line of ApiVersions."""

    key: int
    name: str
    lowest: int
    highest: int

    @property
    def versions(self) -> str:
        """For people."""
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


def offered_by(bootstrap: str) -> list[OfferedApi]:
    """What a running server offers, by key."""
    said = java_tool(TOOL, "--bootstrap-server", bootstrap).stdout
    return sorted(
        OfferedApi(int(key), name, int(low), int(high or low)) for name, key, low, high in LINE.findall(said)
    )


def offered_by_kafka() -> list[OfferedApi]:
    """What Apache Kafka offers, from the data."""
    rows = [line.split("\t") for line in DATA.read_text().splitlines() if not line.startswith("#")]
    return [OfferedApi(int(key), name, int(low), int(high)) for key, name, low, high in rows]


def as_data(apis: list[OfferedApi]) -> str:
    """The file's text."""
    return HEAD + "".join(f"{one.key}\t{one.name}\t{one.lowest}\t{one.highest}\n" for one in apis)


if __name__ == "__main__":
    with ApacheKafka() as kafka:
        DATA.write_text(as_data(offered_by(kafka.bootstrap)))
