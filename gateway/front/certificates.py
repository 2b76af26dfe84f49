"""The certificates of listeners with TLS, read from files, and again when those are different.

Rule: a key and a certificate that do not fit are never used: what was read before stays, and it is said.
Whoever is connected stays connected; the next handshake is by what was read last.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final

import trio

from gateway.common.file_looks import Looks, looks_of_all
from gateway.common.metrics import Figure, Gauge
from gateway.security.certificate import ENDS_SOON, NotACertificate, parse_certificate
from gateway.security.key_store import BadStore
from gateway.security.tls_files import authorities, load_own
from mesh.private_files import warn_if_readable

LOOK_SECONDS: Final = 5.0
"""How often the files are looked at."""

SUITES: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, as OpenSSL writes them: those of Mozilla's "intermediate" with elliptic curves. Python's own
choice has those of CBC besides, which went wrong again and again. All of TLS 1.3 are good."""

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
    """PEM files, or PKCS#12 stores. `key` may be in `certificate`, too. `client_ca` has those who sign
    clients' certificates. The passwords of `certificate`, or `key`, and of `client_ca` are in files of their
    own.
    """

    certificate: Path
    key: Path | None = None
    client_ca: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    password_file: Path | None = None
    ca_password_file: Path | None = None


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

    def _looks(self) -> tuple[Looks, ...]:
        files = self._files
        passwords = files.password_file, files.ca_password_file
        return looks_of_all((files.certificate, files.key, files.client_ca, *passwords))


CERTIFICATE: Final[Sequence[Figure[Certificates]]] = (
    Gauge(
        "dafka_tls_certificate_expiry_seconds",
        "Seconds until the certificate of listeners and pages with TLS ends; below 0: since it has ended.",
        Certificates.seconds,
    ),
)
"""What is shown of it, where there are such listeners."""


def _read(files: CertificateFiles) -> tuple[ssl.SSLContext, ssl.SSLContext, datetime]:
    """As `Certificates` has them. Raises BadCertificates."""
    warn_if_readable(files.key or files.certificate, "the private key in it")
    (of_clients, certificate), (of_pages, _) = _context(files), _context(files)
    _ask_clients(of_clients, files)
    try:
        ends = parse_certificate(certificate).ends
    except NotACertificate as error:
        raise BadCertificates(f"{files.certificate}: {_said(error)}") from None
    left = ends - datetime.now(UTC)
    if left < timedelta(0):
        logger.warning("%s: it has ended, at %s: clients refuse it", files.certificate, ends.isoformat())
    elif left < ENDS_SOON:
        logger.warning(
            "%s: it ends in %d days, at %s: replace the file; the gateway reads it again by itself",
            files.certificate,
            left.days,
            ends.isoformat(),
        )
    return of_clients, of_pages, ends


def _context(files: CertificateFiles) -> tuple[ssl.SSLContext, bytes]:
    """TLS 1.2 and 1.3 (`SUITES`); and the certificate that it shows, as DER. Raises BadCertificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(SUITES)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        certificate = load_own(context, files.certificate, files.key, files.password_file)
    except BadStore as error:
        raise BadCertificates(f"{files.certificate}: {error}") from None
    except (OSError, ValueError) as error:
        raise BadCertificates(
            f"{_named(error, files.certificate, files.key)}: {_said(error)}; what is needed is a "
            "certificate with its chain and the private key that fits, both as PEM, or a PKCS#12 store; the "
            "password of either is in the file of --tls-certificate-password-file"
        ) from None
    return context, certificate


def _ask_clients(context: ssl.SSLContext, files: CertificateFiles) -> None:
    """Have it ask clients for certificates, if they are to show some. Raises BadCertificates."""
    if files.client_auth is ClientAuth.NONE:
        return
    if files.client_ca is None:
        raise BadCertificates("clients are asked for certificates: say who signs them (--tls-client-ca)")
    try:
        context.load_verify_locations(**authorities(files.client_ca, files.ca_password_file))
    except (OSError, ValueError) as error:
        raise BadCertificates(f"{_named(error, files.client_ca)}: {_said(error)}") from None
    is_required = files.client_auth is ClientAuth.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL


def _named(error: OSError | ValueError, *paths: Path | None) -> str:
    """The file that could not be read, such as one of a password; of these OpenSSL does not say which."""
    return getattr(error, "filename", None) or " and ".join(str(path) for path in paths if path)


def _said(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "it is not PEM, or the password does not open the key"
    return getattr(error, "strerror", None) or str(error)
