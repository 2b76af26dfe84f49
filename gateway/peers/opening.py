"""Opens a connection to another gateway: the one place where it is made, and where it would say who it is.

Listeners are open to whoever reaches them, so there is nothing to say yet.
"""

from __future__ import annotations

import trio

from gateway.leadership.records import Address


async def open_connection(address: Address) -> trio.abc.Stream:
    """Raises OSError, or ValueError where the host cannot be one."""
    return await trio.open_tcp_stream(address.host, address.port)
