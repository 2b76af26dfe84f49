"""Connections for the commands that are about groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dafka.commands.asking import connect

if TYPE_CHECKING:
    from dafka.commands.cluster import Cluster
    from dafka.commands.groups_cluster import Groups


class Session:
    """Connections to a cluster. A context manager."""

    def __init__(self, bootstrap: str) -> None:
        from dafka.commands.cluster import Cluster
        from dafka.commands.groups_cluster import Groups

        self._client = connect(bootstrap)
        self.cluster: Cluster = Cluster(self._client)
        self.groups: Groups = Groups(self._client, self.cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        self._client.close()
