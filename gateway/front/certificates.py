"""The certificates of listeners with TLS, read from files, and again when those are different.

Rule: a key and a certificate that do not fit are never used: what was read before stays, and it is said.
Whoever is connected stays connected; the next handshake is by what was read last.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Final

import trio

from gateway.common.metrics import Figure, Gauge
from gateway.security.certificate import first_in_pem, parse_certificate
from mesh.private_files import warn_if_readable

LOOK_SECONDS: Final = 5.0
"""How often the files are looked at."""

logger = logging.getLogger(__name__)


class ClientAuth(Enum):
    """Whether clients show certificates of their own (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class BadCertificates(Exception):
    """The files are of no use: the user's to mend (exit code 2). The message says which, and why."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files. `key` may be in `certificate`, too. `client_ca` has those who sign clients' certificates."""

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE


class Certificates:
    """Those of a gateway. Raises BadCertificates when it is made. `run` reads them again."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._seen = self._looks()
        self.context, self.of_pages, self.ends = _read(files)
        """For the next handshake with a client of Kafka's, and with one of HTTP's, who is asked for no
        certificate; and the last second that the certificate is good for.
        """

    async def run(self) -> None:
        """Look at the files, for ever."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            if self._looks() != self._seen:
                self.read_again()

    def read_again(self) -> None:
        """Take what is in the files now, if that is of use."""
        self._seen = self._looks()
        try:
            self.context, self.of_pages, self.ends = _read(self._files)
        except BadCertificates as error:
            logger.error("the certificates are not read again, and those from before are used: %s", error)
        else:
            logger.info("the certificates were read again: %s", self._files.certificate)

    def seconds(self) -> float:
        """Until the certificate has ended; below 0: since."""
        return (self.ends - datetime.now(UTC)).total_seconds()

    def _looks(self) -> tuple[tuple[int, int, int], ...]:
        """What tells that a file is another one than before."""
        files = self._files
        return tuple(_stat(path) for path in (files.certificate, files.key, files.client_ca) if path)


CERTIFICATE: Final[Sequence[Figure[Certificates]]] = (
    Gauge(
        "dafka_tls_certificate_expiry_seconds",
        "Seconds until the certificate of listeners and pages with TLS ends; below 0: since it has ended.",
        Certificates.seconds,
    ),
)
"""What is shown of it, where there are such listeners."""


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(files: CertificateFiles) -> tuple[ssl.SSLContext, ssl.SSLContext, datetime]:
    """As `Certificates` has them. Raises BadCertificates."""
    warn_if_readable(files.key or files.certificate, "the private key in it")
    of_clients, of_pages = _context(files), _context(files)
    _ask_clients(of_clients, files)
    try:
        text = files.certificate.read_text(encoding="ascii", errors="replace")
        ends = parse_certificate(first_in_pem(text)).ends
    except (OSError, ValueError) as error:
        raise BadCertificates(f"{files.certificate}: {_said(error)}") from None
    if ends < datetime.now(UTC):
        logger.warning("%s: it has ended, at %s: clients refuse it", files.certificate, ends.isoformat())
    return of_clients, of_pages, ends


def _context(files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 and 1.3, with the ciphers that Python takes for good. Raises BadCertificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise BadCertificates(
            f"{_names(files.certificate, files.key)}: {_said(error)}; what is needed is a certificate with "
            "its chain, and the private key that fits, both as PEM, without a password"
        ) from None
    return context


def _ask_clients(context: ssl.SSLContext, files: CertificateFiles) -> None:
    """Have it ask clients for certificates, if they are to show some. Raises BadCertificates."""
    if files.client_auth is ClientAuth.NONE:
        return
    if files.client_ca is None:
        raise BadCertificates("clients are asked for certificates: say who signs them (--tls-client-ca)")
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ValueError) as error:
        raise BadCertificates(f"{files.client_ca}: {_said(error)}") from None
    is_required = files.client_auth is ClientAuth.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL


def _no_password() -> str:
    """Else OpenSSL would ask for one on the terminal."""
    raise ValueError("the key has a password")


def _names(*paths: Path | None) -> str:
    return " and ".join(str(path) for path in paths if path)


def _said(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "something in it is not PEM"
    return getattr(error, "strerror", None) or str(error)
