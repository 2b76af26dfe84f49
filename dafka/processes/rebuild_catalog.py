"""`dafka gateway rebuild-catalog`: a gateway that reads its catalog back from the stores, and ends.

It begins as every gateway does (`gateway.cluster.first_start` reads the catalog back) and stops before it
seals or serves anything: what it wrote is the catalog alone.
"""

import click
import trio

from dafka.commands.asking import count
from dafka.processes.gateway import GatewayProcess
from dafka.processes.gateway import run as run_process
from dafka.settings import GatewaySettings
from gateway.broker import Broker
from gateway.catalog import keys


def run(settings: GatewaySettings) -> int:
    """Rebuild it and say what it has; the exit code. Raises as `dafka.processes.life.Life`."""
    return run_process(settings, CatalogRebuild)


class CatalogRebuild(GatewayProcess):
    """One run of `dafka gateway rebuild-catalog`."""

    async def _recover(self, broker: Broker, nursery: trio.Nursery) -> None:  # noqa: ARG002
        """Nothing is recovered: only looked at."""
        topics = sorted(broker.topics.all(), key=lambda topic: topic.name)
        for topic in topics:
            segments = len(list(self.catalog.range(keys.segments_prefix(topic.id))))
            partitions = count(len(topic.partitions), "partition")
            click.echo(f"topic {topic.name}: {partitions}, {count(segments, 'segment')}")
        click.echo(
            f"The catalog in {self.directory.path} was read back from the stores: "
            f"{count(len(topics), 'topic')}. 'dafka gateway' with the same --data serves them."
        )

    async def _create_topics(self, broker: Broker) -> None:
        """None: nothing is served."""

    async def _serve(self, broker: Broker) -> None:
        """Nothing: it is over."""
