"""How a port that serves HTTP lets visitors in: over TLS or not, and with a token or without."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

from gateway.common.access_token import AccessToken
from gateway.common.log_limit import LogLimit
from gateway.front.tls import HANDSHAKES_AT_ONCE, HandshakeFailed, TlsLink
from gateway.front.tls_stream import TlsStream

HANDSHAKE_SECONDS: Final = 10.0
"""Seconds for a visitor's handshake: as many as for a request."""

HttpStream: TypeAlias = trio.SocketStream | TlsStream

logger = logging.getLogger(__name__)


class Door:
    """One port's. `name` is the option that it is of. `tls` gives the certificate of the moment; None: what
    is said can be read by all. Without `token` whoever comes is let in.
    """

    def __init__(
        self,
        name: str,
        token: AccessToken | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.name = name
        self.token = token
        self._tls = tls
        self._handshakes = trio.CapacityLimiter(HANDSHAKES_AT_ONCE)
        self._log = LogLimit(logger)

    @property
    def scheme(self) -> str:
        """How its addresses begin."""
        return "https" if self._tls is not None else "http"

    async def open(self, stream: trio.SocketStream) -> HttpStream | None:
        """What to speak with a visitor by, whose socket it takes; None: he does not speak TLS, and is gone.
        Raises OSError, trio.TooSlowError.
        """
        if self._tls is None:
            return stream
        host = stream.socket.getpeername()[0]
        sock = socket.socket(fileno=stream.socket.detach())
        sock.setblocking(False)
        made = TlsStream(sock, TlsLink(self._tls()))
        try:
            with trio.fail_after(HANDSHAKE_SECONDS):
                await made.shake_hands(self._handshakes)
        except HandshakeFailed as failure:
            self._log.warning("%s: closing the connection of %s: %s", self.name, host, failure)
            await _close(made)
            return None
        except BaseException:
            await _close(made)
            raise
        return made

    def lets_in(self, authorization: bytes, host: str) -> bool:
        """Whether who asks with this header `Authorization`, from this address, may."""
        if self.token is None or self.token.is_in(authorization):
            return True
        if authorization:  # a browser's first request has none
            self._log.warning("%s: a request of %s shows a wrong token", self.name, host)
        return False


async def _close(stream: TlsStream) -> None:
    with trio.CancelScope(shield=True):
        await stream.aclose()
