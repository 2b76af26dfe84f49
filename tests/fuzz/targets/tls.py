"""TLS between two ends in memory, over the server's own context: hellos, handshakes and records with changes.

Clients have to show a certificate. So no changed handshake is ever over but that of who has a right one, and
what is read after it is what was written, or nothing.
"""

from __future__ import annotations

import random
import ssl
import struct
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Self

from gateway.front.certificates import CertificateFiles, Certificates, ClientAuth
from gateway.front.tls import TlsLink
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Violation
from tests.peers.certificates import self_signed, signed

HELLO, STRANGER, NOBODY, RECORDS = range(4)
"""What an input is, by its first byte: bytes of a client; or the seed of what becomes of a real one's. He has
a certificate of another authority, or none, or a right one: then his handshake is left in peace, and his
records are changed."""

VERSIONS: Final = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
SAID: Final = bytes(range(256)) * 20


class Tls:
    """See above."""

    name = "tls"

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="dafka-fuzz-")
        where = Path(self._directory.name)
        server, authority = self_signed(where), self_signed(where, "authority", "/CN=authority")
        alice, stranger = (
            signed(where, authority, "alice", "/CN=alice"),
            self_signed(where, "stranger", "/CN=alice"),
        )
        self._server = Certificates(CertificateFiles(*server, authority[0], ClientAuth.REQUIRED))
        self._clients = {
            (kind, version): _client(server[0], shown, version)
            for kind, shown in ((STRANGER, stranger), (NOBODY, None), (RECORDS, alice))
            for version in VERSIONS
        }
        hellos = [_End(context).said() for context in self._clients.values() for _ in range(2)]
        self.good = [bytes([HELLO]) + hello for hello in hellos]
        return self

    def __exit__(self, *_how: object) -> None:
        self._directory.cleanup()

    good: list[bytes]

    def make(self, chooser: random.Random) -> bytes:
        """Two of three are hellos."""
        if chooser.random() < 0.67:
            hello = chooser.choice(self.good)[1:]
            return bytes([HELLO]) + mutated(hello, [one[1:] for one in self.good], chooser)
        return bytes([chooser.choice((STRANGER, NOBODY, RECORDS))]) + chooser.randbytes(8)

    def check(self, data: bytes) -> str:
        """See `Target.check`."""
        kind, rest = data[0] % 4 if data else HELLO, data[1:]
        link = TlsLink(self._server.context)
        if kind == HELLO:
            return "hello: " + _taken(link, rest)
        chooser = random.Random(rest)
        end = _End(self._clients[kind, chooser.choice(VERSIONS)])
        if kind == RECORDS:
            return "records: " + _records(link, end, chooser)
        became = "goes on"
        changed = chooser.randrange(2)
        for flight in range(4):
            said = end.said()
            became = _taken(link, mutated(said, [said], chooser) if flight == changed and said else said)
            if became != "goes on" or not end.hears(link._to_send.read()):
                break
        return "handshake: " + became


def _client(server: Path, shown: tuple[Path, Path] | None, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=server)
    context.minimum_version = context.maximum_version = version
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


class _End:
    """A client."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.object = context.wrap_bio(self._in, self._out, server_hostname="localhost")

    def hears(self, data: bytes) -> bool:
        """Whether there is anything that it has not heard before."""
        self._in.write(data)
        return bool(data)

    def said(self) -> bytes:
        """What it says now."""
        try:
            self.object.do_handshake()
        except ssl.SSLError:
            pass  # it waits, or has been told that it is not let in
        return self._out.read()


def _taken(link: TlsLink, said: bytes) -> str:
    """What becomes of a client whose certificate is none, or wrong."""
    link._received.write(said)
    try:
        link._object.do_handshake()
    except ssl.SSLWantReadError:
        return "goes on"
    except ssl.SSLError as error:
        return error.reason or type(error).__name__
    raise Violation(f"a handshake is over without a right certificate: {link._object.cipher()}")


def _records(link: TlsLink, end: _End, chooser: random.Random) -> str:
    """What becomes of records that were changed. Raises Violation."""
    for _ in range(3):
        link._received.write(end.said())
        try:
            link._object.do_handshake()
        except ssl.SSLWantReadError:
            pass
        end.hears(link._to_send.read())
    if link._object.getpeercert() is None:
        raise Violation("who has a right certificate is not let in")
    end.object.write(SAID)
    written = mutated(end._out.read(), [bytes(struct.pack(">BHH", 22, 0x303, 4)) + bytes(4)], chooser)
    pieces = [written[: len(written) // 2], written[len(written) // 2 :], b""]
    kernel: Any = SimpleNamespace(recv=lambda _size: pieces.pop(0))
    heard, buffer = b"", memoryview(bytearray(len(SAID)))
    while pieces:
        try:
            count = link.recv_into(kernel, buffer)
        except BlockingIOError:
            continue
        except OSError as error:
            return getattr(error, "reason", None) or type(error).__name__
        if not count:
            break
        heard += bytes(buffer[:count])
        if not SAID.startswith(heard):
            raise Violation("something is read that was not written")
    return "read as written" if heard else "nothing read"
