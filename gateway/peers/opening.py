"""Opens a connection to another gateway, and says there who this one is: as the listener wants it.

The listener of the other one has the name of one of this one's, and so its protocol: gateways of a cluster
are started alike. Under TLS the certificate of the other one has to be signed by somebody whom this one
trusts, and to name the address that it is reached by; this one shows its own, if it is asked for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from gateway.leadership.records import Address
from gateway.peers.authentication import authenticate
from gateway.peers.failures import PeerFailed
from gateway.security.protocol import SecurityProtocol


class PeerSecurity(NamedTuple):
    """`protocols`: of this gateway's listeners, by their names. `ca`: a PEM file with those who sign the
    certificates of gateways; None: whom the system trusts. `certificate`, `key`: this gateway's own, PEM.
    """

    protocols: Mapping[str, SecurityProtocol] = {}
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class Opening:
    """Of gateway `own`. `secret` gives the cluster's (`ScramUsers.secret`)."""

    def __init__(self, own: int, security: PeerSecurity, secret: Callable[[], Awaitable[bytes]]) -> None:
        self._own = own
        self._security = security
        self._secret = secret

    async def open(self, listener: str, address: Address) -> trio.abc.Stream:
        """Raises PeerFailed, OSError, or ValueError where the host cannot be one."""
        who = f"what listens at {address.host}:{address.port}"
        protocol = self._security.protocols.get(listener, SecurityProtocol.PLAINTEXT)
        stream: trio.abc.Stream = await trio.open_tcp_stream(address.host, address.port)
        try:
            if protocol.has_tls:
                stream = await self._encrypted(stream, who, address.host)
            if protocol.has_sasl:
                await authenticate(stream, who, self._own, await self._secret())
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, (trio.BrokenResourceError, trio.ClosedResourceError)):
                raise PeerFailed(f"{who} has ended the connection") from None
            raise
        return stream

    async def _encrypted(self, stream: trio.abc.Stream, who: str, host: str) -> trio.abc.Stream:
        try:
            context = await trio.to_thread.run_sync(partial(_context, self._security))
            encrypted = trio.SSLStream(stream, context, server_hostname=host)
            await encrypted.do_handshake()
        except (OSError, trio.BrokenResourceError) as error:
            why = error.__cause__ or error
            raise PeerFailed(f"no TLS with {who}: {why}") from None
        return encrypted


def _context(security: PeerSecurity) -> ssl.SSLContext:
    """Made anew for each connection, so that files which have changed are read again. Raises OSError."""
    context = ssl.create_default_context(cafile=security.ca)
    if security.certificate is not None:
        context.load_cert_chain(security.certificate, security.key)
    return context
