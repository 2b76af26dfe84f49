"""What the server's TLS agrees to: versions, suites, groups, and what it must never do. As testssl.sh looks.

Hellos are written down byte by byte (RFC 5246, RFC 8446): no library offers what is long forbidden.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.front.certificates import CertificateFiles, Certificates
from gateway.front.tls import TlsLink
from tests.peers.certificates import self_signed

SSL_3, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = range(0x300, 0x305)
HANDSHAKE_FAILURE, PROTOCOL_VERSION, INAPPROPRIATE_FALLBACK = 40, 70, 86
RENEGOTIATION_INFO, FALLBACK = 0x00FF, 0x5600
EVERY_SUITE = [
    *range(0x0001, RENEGOTIATION_INFO), *range(0xC001, 0xC100), *range(0xCC13, 0xCCB0), *range(0xD001, 0xD006)
]  # fmt: skip
"""Of TLS 1.2 and before, those of drafts among them: NULL, EXPORT, RC4, DES, 3DES, anonymous, static keys."""

EC_SUITES = {0xC02B, 0xC02C, 0xCCA9}
RSA_SUITES = {0xC02F, 0xC030, 0xCCA8}
"""ECDHE with AES-128-GCM, AES-256-GCM and ChaCha20-Poly1305."""

SUITES_OF_1_3 = {0x1301, 0x1302, 0x1303}
GROUPS = {29: "x25519", 23: "P-256", 24: "P-384", 25: "P-521", 30: "x448"}
SIGNATURES = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601)
SHA1_SIGNATURES = (0x0201, 0x0203)
ALPN, EXTENDED_MASTER_SECRET, HEARTBEAT = 16, 23, 15


class Told(NamedTuple):
    """What the server says first: a hello, or the number of an alert."""

    alert: int | None = None
    version: int = 0
    suite: int = 0
    compression: int = 0
    extensions: frozenset[int] = frozenset()


def extension(kind: int, content: bytes) -> bytes:
    return struct.pack(">HH", kind, len(content)) + content


def listed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">H{len(numbers)}H", 2 * len(numbers), *numbers)


def hello(
    suites: Sequence[int],
    version: int = TLS_1_2,
    *,
    groups: Sequence[int] = tuple(GROUPS),
    signatures: Sequence[int] = SIGNATURES,
    compressions: bytes = b"\0",
    more: bytes = b"",
) -> bytes:
    """A client's. Of 1.3 it has a key of x25519, whichever groups it names."""
    extensions = extension(10, listed(groups)) + extension(11, b"\x01\0") + extension(13, listed(signatures))
    if version >= TLS_1_3:
        share = struct.pack(">HHH", 36, 29, 32) + bytes(range(1, 33))
        extensions += extension(43, b"\x02" + struct.pack(">H", version)) + extension(51, share)
    extensions += more
    body = struct.pack(">H", min(version, TLS_1_2)) + bytes(32) + b"\0" + listed(suites)
    body += bytes([len(compressions)]) + compressions + struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def first_of(answer: bytes) -> Told:
    """What the first record of an answer says."""
    kind, size = answer[0], int.from_bytes(answer[3:5], "big")
    if kind == 21:
        return Told(alert=answer[6])
    body = answer[9 : 5 + size]
    at = 35 + body[34]  # behind version, random and session
    suite, compression = struct.unpack_from(">HB", body, at)
    extensions, at = {}, at + 5
    while at < len(body) and at < 5 + size:
        number, length = struct.unpack_from(">HH", body, at)
        extensions[number] = body[at + 4 : at + 4 + length]
        at += 4 + length
    version = int.from_bytes(extensions.get(43, body[:2]), "big")
    return Told(None, version, suite, compression, frozenset(extensions))


class Server:
    """The contexts of listeners and pages, with a certificate of either kind."""

    def __init__(self, directory: Path, key: Sequence[str]) -> None:
        self.pair = self_signed(directory, key=key)
        self.made = Certificates(CertificateFiles(*self.pair))

    def ask(self, said: bytes) -> Told:
        """The same of listeners and pages."""
        answers = []
        for context in (self.made.context, self.made.of_pages):
            link = TlsLink(context)
            link._received.write(said)
            try:
                link._object.do_handshake()
            except ssl.SSLError:
                pass  # it waits, or has refused
            answers.append(first_of(link._to_send.read()))
        assert answers[0] == answers[1]
        return answers[0]

    def agreed(self, suites: Sequence[int], version: int) -> Iterator[int]:
        """All that it takes of these."""
        left = list(suites)
        while left:
            told = self.ask(hello(left, version))
            if told.alert is not None:
                assert told.alert == HANDSHAKE_FAILURE
                return
            assert told.version == version
            yield told.suite
            left.remove(told.suite)


@pytest.fixture(scope="module", params=["ec", "rsa"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, kind: str) -> Server:
    directory = tmp_path_factory.mktemp("tls")
    of_rsa = ["-newkey", "rsa:2048", "-nodes"]
    of_ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    return Server(directory, of_rsa if kind == "rsa" else of_ec)


def good(kind: str) -> list[int]:
    return sorted(RSA_SUITES if kind == "rsa" else EC_SUITES)


@pytest.mark.parametrize("version", [0x0002, SSL_3, TLS_1_0, TLS_1_1])
def test_old_versions_are_refused(server: Server, version: int) -> None:
    assert server.ask(hello(EVERY_SUITE, version)).alert in {HANDSHAKE_FAILURE, PROTOCOL_VERSION}


def test_a_hello_of_ssl_2_is_refused(server: Server) -> None:
    body = b"\x01\0\x02" + struct.pack(">HHH", 3, 0, 16) + b"\x01\0\x80" + bytes(16)
    link = TlsLink(server.made.context)
    link._received.write(struct.pack(">H", 0x8000 | len(body)) + body)
    with pytest.raises(ssl.SSLError):
        link._object.do_handshake()


def test_the_suites_of_1_2_are_the_good_ones_and_no_others(server: Server, kind: str) -> None:
    assert sorted(server.agreed(EVERY_SUITE, TLS_1_2)) == good(kind)


def test_the_suites_of_1_3(server: Server) -> None:
    assert set(server.agreed(list(range(0x1301, 0x1310)), TLS_1_3)) == SUITES_OF_1_3


def test_the_groups_of_keys(server: Server, kind: str) -> None:
    """Of a certificate of elliptic curves, the client has to take its own curve, too (RFC 8422, 5.1)."""

    def is_taken(group: int) -> bool:
        return server.ask(hello(good(kind), groups=[group])).alert is None

    assert {group for group in range(1, 42) if is_taken(group)} == ({23} if kind == "ec" else set(GROUPS))


def test_sha_1_signs_nothing(server: Server, kind: str) -> None:
    assert server.ask(hello(good(kind), signatures=SHA1_SIGNATURES)).alert == HANDSHAKE_FAILURE


def test_nothing_is_compressed_and_no_heart_beats(server: Server, kind: str) -> None:
    more = (
        extension(HEARTBEAT, b"\x01") + extension(EXTENDED_MASTER_SECRET, b"") + extension(ALPN, b"\0\3\2h2")
    )
    told = server.ask(hello([*good(kind), RENEGOTIATION_INFO], compressions=b"\x01\0", more=more))
    assert (told.alert, told.compression) == (None, 0)
    assert told.extensions >= {EXTENDED_MASTER_SECRET, 0xFF01}, "renegotiation is by RFC 5746, or not at all"
    assert not told.extensions & {HEARTBEAT, ALPN}


def test_a_beat_before_the_handshake_is_refused(server: Server) -> None:
    assert server.ask(b"\x18\x03\x02\0\3\x01\x40\0").alert is not None


def test_who_falls_back_without_need_is_told_so(server: Server, kind: str) -> None:
    assert server.ask(hello([*good(kind), FALLBACK])) == Told(alert=INAPPROPRIATE_FALLBACK)


def test_nobody_makes_it_shake_hands_again(server: Server) -> None:
    for context in (server.made.context, server.made.of_pages):
        assert context.options & ssl.OP_NO_RENEGOTIATION


def test_these_hellos_are_what_a_client_says(server: Server, kind: str) -> None:
    """Else all of them would be refused for another reason."""
    for version in (TLS_1_2, TLS_1_3):
        suites = good(kind) if version == TLS_1_2 else sorted(SUITES_OF_1_3)
        told = server.ask(hello(suites, version))
        assert (told.alert, told.version) == (None, version)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    context.load_cert_chain(*server.pair)
    link = TlsLink(context)
    link._received.write(hello(EVERY_SUITE, TLS_1_0, signatures=SHA1_SIGNATURES))
    with pytest.raises(ssl.SSLWantReadError):
        link._object.do_handshake()
    assert first_of(link._to_send.read()).version == TLS_1_0
