"""The gateways of a mesh share one catalog: one that has another finds out before it takes anything from the
first, and ends.

A gateway answers PINGs to `ANY_GATEWAY` as stores answer those to themselves. That a second one asks is a
courtesy to operators: should it not hear the first (a link that is not up yet), it seals the first one's
segments and the first is fenced, so nothing is lost by it.
"""

from collections.abc import Callable

import trio

from mesh.node import Node
from mesh.presence import ANY_GATEWAY
from mesh.requests import Requests
from wireproto.dafka import ids
from wireproto.dafka.additions import Ping, Pong
from wireproto.dafka.messages import directed_topic

LOOK_SECONDS = 0.5
"""How long a starting gateway waits for the answer of another one: its links to the stores are up by then.
Each start waits so long."""


class AnotherGateway(Exception):
    """Another gateway serves this cluster; the text says which and what to do."""

    exit_code = 2


class OtherGateways:
    """Made before anything is connected; `serve` from then on says who this one is."""

    def __init__(self, node: Node, requests: Requests) -> None:
        self._node = node
        self._requests = requests
        self._cluster_id: str | None = None
        self._name = ""
        node.subscribe(ids.PING + directed_topic(ANY_GATEWAY, ""))

    async def refuse(self, cluster_id: str, is_ours: Callable[[str], bool]) -> None:
        """Raises AnotherGateway if one answers that serves this cluster, unless its name says that it is one
        of those that share this one's catalog.
        """
        with trio.move_on_after(LOOK_SECONDS):
            pong = await self._requests.ask(ANY_GATEWAY, lambda requester: Ping(ANY_GATEWAY, requester))
            if pong.cluster_id == cluster_id and not is_ours(pong.name):
                raise AnotherGateway(
                    f"another gateway ({pong.name}) serves this cluster, {cluster_id}, from another catalog. "
                    "Stop it first: gateways of one mesh share one catalog in an etcd (--catalog)"
                )

    def serve(self, cluster_id: str, name: str) -> None:
        """This one serves a cluster now; `name` tells operators which it is."""
        self._cluster_id = cluster_id
        self._name = name

    def on_ping(self, ping: Ping) -> None:
        """Another gateway asks who serves."""
        if ping.store == ANY_GATEWAY and self._cluster_id is not None:
            self._node.send(Pong(ping.requester, ANY_GATEWAY, self._cluster_id, self._name))
