"""The other gateways of a cluster, as this one asks them: by Kafka's protocol, as Kafka's brokers do.

Who they are and where is what the catalog says (`gateway.cluster.gateways`). Each is asked over channels of
its own, by name: a gateway answers what comes over one of them in its order, so what may take long has
another one than what is quick. One that ceases to live is forgotten at once, and those who wait for it hear
that.

    answer = await peers.ask(3, Question(request), deadline_seconds=5)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from gateway.peers.address import address_of
from gateway.peers.channel import Channel
from gateway.peers.failures import PeerGone

if TYPE_CHECKING:
    from gateway.cluster.gateways import SharedGateways
    from gateway.leadership.records import Address
    from gateway.peers.question import Question


class _Peer(NamedTuple):
    life: str
    channel: Channel


class Peers:
    """Those that share this one's catalog; `run` has to run. `listener`: the name of the listener by which
    they are asked, or "" (`gateway.peers.address`). `open_stream` opens a connection to a listener of this
    name, at this address.
    """

    def __init__(
        self,
        gateways: SharedGateways,
        own: int,
        listener: str,
        open_stream: Callable[[str, Address], Awaitable[trio.abc.Stream]],
    ) -> None:
        self._gateways = gateways
        self._own = own
        self._listener = listener
        self._open_stream = open_stream
        self._peers: dict[tuple[int, str], _Peer] = {}
        self._nursery: trio.Nursery | None = None
        self._on_closed: list[Callable[[str], None]] = []
        gateways.on_changed(self._forget_dead)

    def on_closed(self, tell: Callable[[str], None]) -> None:
        """Have this called with the life of a gateway that has ended a connection, or whose system has."""
        self._on_closed.append(tell)

    async def ask(self, gateway: int, question: Question, deadline_seconds: float, channel: str = "") -> Any:
        """The answer to `question`, an instance of kafka-python's class for it. Raises PeerFailed.

        A deadline that passes ends the connection of this `channel`, and with it what others have asked over
        it: it is for one that says nothing any more, and not for who has no more time to wait.
        """
        deadline = trio.current_time() + deadline_seconds
        return await self._channel(gateway, channel).ask(question, deadline)

    async def run(self) -> None:
        """Keep the channels, for ever."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    def _channel(self, gateway: int, name: str) -> Channel:
        """Raises PeerGone."""
        peer = self._peers.get((gateway, name))
        if peer is not None:
            return peer.channel
        living = self._gateways.living.get(gateway)
        if living is None or gateway == self._own:
            raise PeerGone(f"gateway {gateway} is not alive, or is this one")
        if self._nursery is None:
            raise PeerGone("this gateway asks nobody yet")
        life = living.life

        def closed() -> None:
            for tell in self._on_closed:
                tell(life)

        channel = Channel(
            f"gateway {gateway}",
            f"gateway-{self._own}",
            self._gateways.release,
            lambda: self._open(gateway),
            closed,
        )
        self._peers[gateway, name] = _Peer(life, channel)
        self._nursery.start_soon(channel.run)
        return channel

    async def _open(self, gateway: int) -> trio.abc.Stream:
        """As `Channel` wants it. The address is looked up each time: a gateway says it once it listens."""
        living = self._gateways.living.get(gateway)
        record = None if living is None else living.record
        reached = address_of(f"gateway {gateway}", record, self._gateways.own_listeners, self._listener)
        return await self._open_stream(*reached)

    def _forget_dead(self) -> None:
        for (gateway, name), peer in list(self._peers.items()):
            living = self._gateways.living.get(gateway)
            if living is None or living.life != peer.life:
                del self._peers[gateway, name]
                peer.channel.close(PeerGone(f"gateway {gateway} does not live any more"))
