"""Connections for the commands that are about groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dafka.commands.asking import connect
from dafka.commands.client_security import Bootstrap

if TYPE_CHECKING:
    from dafka.commands.cluster import Cluster
    from dafka.commands.groups_cluster import Groups
    from dafka.commands.kafka_client import KafkaClient


class Session:
    """Connections to a cluster. A context manager."""

    def __init__(self, bootstrap: Bootstrap | str) -> None:
        """A text is HOST:PORT, where nobody is asked who he is."""
        from dafka.commands.cluster import Cluster
        from dafka.commands.groups_cluster import Groups

        self.client: KafkaClient = connect(Bootstrap(bootstrap) if isinstance(bootstrap, str) else bootstrap)
        self.cluster: Cluster = Cluster(self.client)
        self.groups: Groups = Groups(self.client, self.cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        self.client.close()
