"""A small blocking Kafka client for the commands: one connection, one request at a time, failures by name.

Requests and answers are kafka-python's containers, through `wireproto.kafka.schemas`.
"""

import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Any, Final, Self

from dafka.commands.client_sasl import BadServer, conversation
from dafka.commands.client_security import IN_THE_CLEAR, ClientSecurity
from dafka.commands.exits import CommandFailed
from gateway.front.listeners import InvalidListener, join_host_port, split_host_port
from wireproto.kafka.api_keys import ApiKey, is_flexible
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.schemas import REQUEST_CLASSES, RESPONSE_CLASSES

TIMEOUT_SECONDS: Final = 10.0
"""Wait for a connection and for each answer. A gateway answers in milliseconds; Kafka's own clients wait 30 s
and more, which nobody wants to sit through at a prompt."""

MAX_ANSWER_BYTES: Final = 100 * 1024 * 1024
"""Kafka's own limit on a message (`socket.request.max.bytes`): a larger size means that this is not Kafka."""

_NEWEST_API_VERSIONS: Final = 3
_CLIENT_ID: Final = "dafka-cli"
_NONCE_BYTES: Final = 18


class Trouble(Enum):
    """Why a server cannot be talked to."""

    NO_ADDRESS = "the host name has no address"
    REFUSED = "nothing listens there"
    TIMED_OUT = "no answer in time"
    NETWORK = "the network says no"
    CLOSED = "it closed the connection"
    NOT_KAFKA = "it does not answer as Kafka does"
    UNSUPPORTED = "it does not offer what is needed"
    NO_TLS = "it does not speak TLS"
    UNTRUSTED = "nobody whom --tls-ca names, or this machine trusts, has signed its certificate"
    EXPIRED = "its certificate has ended"
    NOT_YET = "its certificate is not good yet"
    OTHER_NAME = "its certificate is for another name"
    UNVERIFIED = "its certificate does not do"
    TLS = "no encrypted connection comes about"
    NO_SASL = "it asks nobody who he is"
    NO_MECHANISM = "it does not take this SASL mechanism"
    NOT_KNOWN = "it does not let this user in"


class KafkaTrouble(CommandFailed):
    """The server at `address` cannot be talked to; `detail` says more than `trouble` does."""

    def __init__(self, address: str, trouble: Trouble, detail: str = "") -> None:
        super().__init__(f"{address}: {trouble.value}{f' ({detail})' if detail else ''}.")
        self.address = address
        self.trouble = trouble
        self.detail = detail


def parse_bootstrap(text: str) -> tuple[str, int]:
    """The first HOST:PORT of a bootstrap list.

    Raises:
        CommandFailed: It is none.
    """
    try:
        return split_host_port(text.split(",", maxsplit=1)[0].strip())
    except InvalidListener as error:
        raise CommandFailed(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9092") from error


class KafkaClient:
    """A connection, with the versions that the server offers. A context manager.

    Raises, here and in `ask`:
        KafkaTrouble: See `Trouble`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        security: ClientSecurity = IN_THE_CLEAR,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.address = join_host_port(host, port)
        self.security = security
        self.versions: dict[int, tuple[int, int]] = {}
        """Lowest and highest version by API key; see `negotiate`."""
        self._correlation_id = 0
        self._is_let_in = False
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_seconds)
        except OSError as error:
            raise self._trouble(error) from error
        if security.has_tls:
            self._encrypt(host)

    def _encrypt(self, host: str) -> None:
        try:
            self._socket = self.security.tls().wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            self._socket.close()
            if isinstance(error, (ssl.SSLEOFError, ConnectionResetError)) or _is_in_the_clear(error):
                raise KafkaTrouble(self.address, Trouble.NO_TLS) from error
            raise self._trouble(error) from error

    def certificate_ends(self) -> datetime | None:
        """Until when the server's certificate is good; None without TLS."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return None
        shown = self._socket.getpeercert()
        return ends_of(shown) if shown else None

    def negotiate(self) -> None:
        """Asks for the server's versions, as every client does first, and says who it is if that is asked."""
        version = _NEWEST_API_VERSIONS
        answer = self._ask_version(ApiKey.API_VERSIONS, version, _software())
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self._ask_version(ApiKey.API_VERSIONS, 0, {})
        if answer.error_code:
            raise KafkaTrouble(self.address, Trouble.UNSUPPORTED, error_name(answer.error_code))
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if self.security.has_sasl:
            self._authenticate()

    def _authenticate(self) -> None:
        security = self.security
        shaken = self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=security.mechanism)
        if shaken.error_code:
            if not shaken.mechanisms:
                raise KafkaTrouble(self.address, Trouble.NO_SASL)
            offered = f"not {security.mechanism}, but {', '.join(shaken.mechanisms)}"
            raise KafkaTrouble(self.address, Trouble.NO_MECHANISM, offered)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        said = conversation(security.mechanism, security.user, security.password, nonce)
        try:
            token = next(said)
            while True:
                answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
                if answer.error_code:
                    raise KafkaTrouble(self.address, Trouble.NOT_KNOWN, answer.error_message or "")
                token = said.send(bytes(answer.auth_bytes))
        except StopIteration:
            self._is_let_in = True
        except BadServer as error:
            raise KafkaTrouble(self.address, Trouble.NOT_KNOWN, str(error)) from None

    def version(self, api_key: ApiKey, highest: int) -> int:
        """The version to use: the server's highest that is also ours, and not above `highest`."""
        offered = self.versions.get(api_key)
        ours = RESPONSE_CLASSES[api_key].valid_versions
        if offered is None:
            raise KafkaTrouble(self.address, Trouble.UNSUPPORTED, f"no {api_key.name}")
        version = min(offered[1], ours[1], highest)
        if version < max(offered[0], ours[0]):
            raise KafkaTrouble(
                self.address,
                Trouble.UNSUPPORTED,
                f"{api_key.name} only in versions {offered[0]} to {offered[1]}",
            )
        return int(version)

    def ask(self, api_key: ApiKey, highest: int, **fields: Any) -> Any:
        """Asks, in a version up to `highest`, and waits for the answer; fields that it lacks are left out."""
        return self._ask_version(api_key, self.version(api_key, highest), fields)

    def begin(self, api_key: ApiKey, highest: int, **fields: Any) -> Callable[[], Any]:
        """As `ask`, without waiting: what is returned waits for the answer. Answers are taken in order."""
        version = self.version(api_key, highest)
        correlation_id = self._send(api_key, version, fields)
        return lambda: self._answer(api_key, version, correlation_id)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask_version(self, api_key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        return self._answer(api_key, version, self._send(api_key, version, fields))

    def _send(self, api_key: ApiKey, version: int, fields: dict[str, Any]) -> int:
        """The number that the answer will have."""
        self._correlation_id += 1
        request = REQUEST_CLASSES[api_key](version=version, **fields)
        request.with_header(correlation_id=self._correlation_id, client_id=_CLIENT_ID)
        try:
            self._socket.sendall(request.encode(version=version, header=True, framed=True))
        except OSError as error:
            raise self._trouble(error) from error
        return self._correlation_id

    def _answer(self, api_key: ApiKey, version: int, expected: int) -> Any:
        try:
            frame = self._receive_frame()
        except OSError as error:
            raise self._trouble(error) from error
        return self._decode(api_key, version, frame, expected)

    def _receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= MAX_ANSWER_BYTES:
            raise KafkaTrouble(self.address, Trouble.NOT_KAFKA, _guess(size))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(min(size - len(received), 1 << 20))
            if not chunk:
                raise KafkaTrouble(self.address, Trouble.CLOSED, self._why_closed())
            received += chunk
        return bytes(received)

    def _decode(self, api_key: ApiKey, version: int, frame: bytes, expected: int) -> Any:
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != expected:
            raise KafkaTrouble(self.address, Trouble.NOT_KAFKA, "it answers another request")
        start = 4
        if api_key is ApiKey.API_VERSIONS:
            # A server that does not know our version answers in version 0, which all can read (KIP-511).
            if struct.unpack_from(">h", frame.ljust(6, b"\0"), 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
                version = 0
        elif is_flexible(api_key, version):
            start = 5  # an empty tag section
        try:
            return RESPONSE_CLASSES[api_key].decode(frame[start:], version=version)
        except Exception as error:  # kafka-python's decoder raises whatever the bytes lead it to
            detail = f"its {api_key.name} answer cannot be read: {error!r}"
            raise KafkaTrouble(self.address, Trouble.NOT_KAFKA, detail) from error

    def _why_closed(self) -> str:
        if self._is_let_in:
            return (
                "without answering, after it had let this user in: what was asked may have been done; it "
                "ends connections of who is deleted, or given another password"
            )
        if self.security == IN_THE_CLEAR:
            return "without answering: perhaps it wants TLS, or to know who comes (--security-protocol)"
        if not self.security.has_sasl:
            return "without answering: perhaps it wants to know who comes (--security-protocol SASL_SSL)"
        if not self.security.has_tls:
            return "without answering: perhaps it wants TLS (--security-protocol SASL_SSL)"
        return "without answering"

    def _trouble(self, error: OSError) -> KafkaTrouble:
        match error:
            case ssl.SSLCertVerificationError():
                trouble, detail = _VERIFIED.get(error.verify_code, Trouble.UNVERIFIED), error.verify_message
            case ssl.SSLEOFError():
                trouble, detail = Trouble.CLOSED, self._why_closed()
            case ssl.SSLError():
                trouble, detail = Trouble.TLS, error.reason or ""
            case socket.gaierror():
                trouble, detail = Trouble.NO_ADDRESS, ""
            case TimeoutError():
                trouble, detail = Trouble.TIMED_OUT, ""
            case ConnectionRefusedError():
                trouble, detail = Trouble.REFUSED, ""
            case ConnectionResetError() | BrokenPipeError():
                trouble, detail = Trouble.CLOSED, self._why_closed()
            case _:
                trouble, detail = Trouble.NETWORK, error.strerror or str(error)
        return KafkaTrouble(self.address, trouble, detail)


def ends_of(certificate: Mapping[str, Any]) -> datetime:
    """Until when a certificate is good, as Python has one that it has checked."""
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)


def _is_in_the_clear(error: OSError) -> bool:
    """Whether what answers does not speak TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in {
        "WRONG_VERSION_NUMBER",
        "RECORD_LAYER_FAILURE",
    }


_VERIFIED: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21), Trouble.UNTRUSTED),
    9: Trouble.NOT_YET,
    10: Trouble.EXPIRED,
    **dict.fromkeys((62, 64), Trouble.OTHER_NAME),
}
"""By OpenSSL's number of what is wrong (X509_V_ERR_...); of all else its own words say more."""


def error_name(code: int) -> str:
    """A Kafka error by its name."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _software() -> dict[str, str]:
    return {"client_software_name": "dafka", "client_software_version": "1"}


def _guess(size: int) -> str:
    first = struct.pack(">i", size)
    if first.startswith(b"HTTP"):
        return "that is a web server"
    if first[:2] in {b"\x15\x03", b"\x16\x03"}:
        return "it wants TLS: --security-protocol SSL, or SASL_SSL"
    return "perhaps it is another service, or wants TLS"
