"""By which listener a gateway reaches another one. Pure.

Kafka's brokers have `inter.broker.listener.name` for it. Without one it is the first listener, in the order
of this gateway's own, whose name the other one has as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.leadership.records import Address, GatewayRecord
from gateway.peers.failures import PeerUnreachable


def address_of(
    who: str, record: GatewayRecord | None, own: Iterable[str], wanted: str
) -> tuple[str, Address]:
    """The name of the listener to connect to, and where it is. `own` are the names of this gateway's
    listeners; `wanted` is the name that it was told to use, or "". Raises PeerUnreachable.
    """
    if record is None:
        raise PeerUnreachable(f"{who} has not said how it is reached")
    names = [wanted] if wanted else list(own)
    for name in names:
        if name in record.listeners:
            return name, record.listeners[name]
    raise PeerUnreachable(f"{who} has no listener {' or '.join(names) or 'at all'}")
