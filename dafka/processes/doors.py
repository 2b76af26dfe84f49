"""What a process opens its ports with: certificates and tokens, read from files, and again when those are
others.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from dafka.settings import ServerSettings, ServingSettings
from gateway.common.access_token import AccessToken
from gateway.common.metrics import Metrics
from gateway.front.certificates import (
    CERTIFICATE,
    BadCertificates,
    CertificateFiles,
    Certificates,
    ClientAuth,
)
from gateway.front.door import Door


class Doors:
    """Those of one process. Raises BadCertificates, BadToken."""

    def __init__(self, settings: ServerSettings) -> None:
        self.certificates = _certificates(settings)
        """Of listeners and pages with TLS; None: there are none."""
        tls = self._page_tls if self.certificates is not None else None
        self.metrics = _door("--metrics", settings.metrics_token_file, tls if settings.metrics_tls else None)
        self.http: Door | None = None
        """Of the status page, in processes that can serve it."""
        if isinstance(settings, ServingSettings):
            self.http = _door("--http", settings.http_token_file, tls if settings.http_tls else None)

    async def run(self) -> None:
        """Look whether the certificates have changed, for ever."""
        if self.certificates is not None:
            await self.certificates.run()

    def read_again(self) -> None:
        """Take the certificates that are in the files now, if they are of use. (Tokens are read again by
        themselves.)
        """
        if self.certificates is not None:
            self.certificates.read_again()

    def register(self, metrics: Metrics) -> None:
        """Show Prometheus how long the certificate is good for."""
        if self.certificates is not None:
            metrics.register(CERTIFICATE, self.certificates)

    def _page_tls(self) -> ssl.SSLContext:
        assert self.certificates is not None
        return self.certificates.of_pages


def _door(name: str, token_file: Path | None, tls: Callable[[], ssl.SSLContext] | None) -> Door:
    return Door(name, None if token_file is None else AccessToken(token_file), tls)


def _certificates(settings: ServerSettings) -> Certificates | None:
    """Those of what has TLS, if anything has. Raises BadCertificates, also where a gateway is given a
    certificate and serves nothing over TLS: whoever gives one does not mean listeners in the clear.
    """
    auth, client_ca, ca_password_file = ClientAuth.NONE, None, None
    with_tls = ["--metrics-tls"] if settings.metrics_tls else []
    if isinstance(settings, ServingSettings):
        with_tls += ["--http-tls"] if settings.http_tls else []
        with_tls += [f"listener {one}" for one in settings.listen if one.protocol.has_tls]
        auth, client_ca = ClientAuth(settings.tls_client_auth), settings.tls_client_ca
        ca_password_file = settings.tls_ca_password_file
        if not with_tls and settings.tls_certificate is not None:
            raise BadCertificates(
                f"--tls-certificate {settings.tls_certificate}: nothing is served over TLS. Give --listen "
                "SASL_SSL://HOST:PORT, or SSL://, or leave the certificate away"
            )
    if not with_tls:
        return None
    if settings.tls_certificate is None:
        raise BadCertificates(f"{with_tls[-1]} needs a certificate: --tls-certificate FILE")
    files = CertificateFiles(
        settings.tls_certificate,
        settings.tls_key,
        client_ca,
        auth,
        settings.tls_certificate_password_file,
        ca_password_file,
    )
    return Certificates(files)
