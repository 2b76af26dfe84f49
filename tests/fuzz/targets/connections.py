"""Frames of somebody who is not known, to a real server: what he may ask for, and in which order.

He knows no right password. So nothing but ApiVersions and his own authentication is ever answered.
"""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import struct
import threading
from typing import Any, Final, Self

import trio
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from gateway.api import sasl_authenticate
from gateway.front import connection as connections
from gateway.front.listeners import Listener
from gateway.security.oauthbearer import OauthBearerExchange
from gateway.security.plain import PlainExchange
from gateway.security.sasl_session import SaslSession
from gateway.security.scram import Hash, ScramExchange
from tests.differential.wire import encode, frame
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Violation
from tests.fuzz.targets.web_tokens import VALIDATOR
from tests.unit.gateway.front.test_authentication import with_sasl
from tests.unit.gateway.kafka_wire import ECHO, Fakes, Running, request, running

MECHANISMS: Final = (
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "GSSAPI",
    "",
    "plain",
    "X" * 300,
)
_TOKENS: Final = (
    b"\0alice\0wrong",
    b"n,,n=alice,r=x",
    b"c=biws,r=x,p=AAAA",
    b"n,,\x01auth=Bearer a.b.c\x01\x01",
    b"\x01",
    b"",
    b"n,,n=alice,r=x,tokenauth=true",
    bytes(5_000),
)
_LOGS: Final = ("gateway.front.connection", "gateway.front.context", "gateway.front.server")
ENDS_SECONDS: Final = 20.0
"""How long a connection may take to end whose client has said all that it will."""


def _session(_listener: Listener) -> SaslSession:
    def scram(kind: Hash) -> ScramExchange:
        return ScramExchange(kind, lambda _name, _token: None, b"of the cluster", b"eighteen bytes ...")

    return SaslSession(
        {
            "PLAIN": lambda: PlainExchange(lambda _user, _password: False),
            "SCRAM-SHA-256": lambda: scram(Hash.SHA_256),
            "SCRAM-SHA-512": lambda: scram(Hash.SHA_512),
            "OAUTHBEARER": lambda: OauthBearerExchange(VALIDATOR.validate),
        }
    )


def _versions(version: int) -> ApiVersionsRequest:
    named = {"client_software_name": "x", "client_software_version": "1"} if version >= 3 else {}
    return ApiVersionsRequest(version=version, **named)


def _wait(seconds: float) -> None:
    """Before somebody is told that he has failed."""
    modules: tuple[Any, ...] = sasl_authenticate, connections
    for module in modules:
        module.FAILED_SECONDS = seconds


class Connections:
    """A server in a thread of its own; an input is what one client sends before it closes its side."""

    name = "sasl-frames"

    def __init__(self) -> None:
        tokens = (_TOKENS[0], _TOKENS[1], _TOKENS[1], _TOKENS[3])
        self.good = [
            encode(_versions(version))
            + encode(SaslHandshakeRequest(version=1, mechanism=mechanism))
            + encode(SaslAuthenticateRequest(version=version % 3, auth_bytes=token))
            for version in (0, 3)
            for mechanism, token in zip(MECHANISMS[:4], tokens, strict=True)
        ]
        self._failures: list[logging.LogRecord] = []

    def __enter__(self) -> Self:
        self._kept = sasl_authenticate.FAILED_SECONDS
        _wait(0.0)  # else each failure would take a tenth of a second
        started = threading.Event()
        self._stop = trio.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._serve, started), name="server")
        for name in _LOGS:
            logging.getLogger(name).addFilter(self.filter)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_how: object) -> None:
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join()
        for name in _LOGS:
            logging.getLogger(name).removeFilter(self.filter)
        _wait(self._kept)

    def filter(self, record: logging.LogRecord) -> bool:
        """Notes what the server says of its own defects, and keeps its lines from the terminal."""
        if record.levelno >= logging.ERROR:
            self._failures.append(record)
        return False

    async def _serve(self, started: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._fakes = with_sasl(Fakes())
        async with running(fakes=self._fakes, begin_session=_session) as server:
            self._server: Running = server
            started.set()
            await self._stop.wait()

    def make(self, chooser: random.Random) -> bytes:
        """Frames in any order, some with changes."""
        if chooser.random() < 0.4:
            return mutated(chooser.choice(self.good), self.good, chooser)
        frames = [self._frame(chooser) for _ in range(chooser.randrange(1, 6))]
        return b"".join(frames)

    def _frame(self, chooser: random.Random) -> bytes:
        kind = chooser.randrange(7)
        if kind == 0:
            made = request(ECHO, 1, b"hello")
        elif kind == 1:
            made = encode(ApiVersionsRequest(version=chooser.randrange(3)))
        elif kind == 2:
            made = frame(chooser.choice(_TOKENS))
        elif kind == 3:
            made = request(
                chooser.randrange(-1, 95), 1, chooser.randbytes(9), version=chooser.randrange(-1, 15)
            )
        elif kind == 4:
            made = encode(
                SaslAuthenticateRequest(version=chooser.randrange(3), auth_bytes=chooser.choice(_TOKENS))
            )
        else:
            mechanism = chooser.choice(MECHANISMS)
            made = encode(SaslHandshakeRequest(version=chooser.randrange(2), mechanism=mechanism))
        return mutated(made, self.good, chooser) if chooser.random() < 0.4 else made

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        answers = self._answers(data)
        if self._fakes.ran:
            raise Violation(f"who is not known is served: {self._fakes.ran.pop()!r}")
        if self._failures:
            record = self._failures.pop()
            raise Violation(f"the server says: {record.getMessage()} {record.exc_info or ''}")
        if self._server.server.context.request_memory.used:
            raise Violation("a connection has ended, and its memory is not given back")
        return f"{answers} answers"

    def _answers(self, data: bytes) -> int:
        """How many frames came back until the server hung up."""
        received = b""
        with socket.create_connection(self._server.address, timeout=ENDS_SECONDS) as one:
            with contextlib.suppress(ConnectionError):
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
            try:
                while chunk := one.recv(1 << 16):
                    received += chunk
            except ConnectionError:
                pass
            except TimeoutError:
                raise Violation("the server does not hang up") from None
        count = 0
        while received:
            (size,) = struct.unpack_from(">i", received)
            received = received[4 + size :]
            count += 1
        return count
