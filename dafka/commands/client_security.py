"""How the commands that talk to a Kafka secure that: encrypted or not, and who they say they are.

The words are Kafka's (`security.protocol`, `sasl.mechanism`). A password is read from a file, never from an
argument or a variable: those are seen by others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dafka.commands.exits import CommandFailed

if TYPE_CHECKING:
    import ssl

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """What is said to a server, and what is asked of it. The files are PEM; without `ca` the server's
    certificate has to be signed by somebody whom this machine trusts.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = DEFAULT_MECHANISM
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def has_sasl(self) -> bool:
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    def tls(self) -> ssl.SSLContext:
        """For connections. Raises CommandFailed: a file is of no use."""
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{self.ca}: {_said(error)}. Give certificates in PEM by --tls-ca") from None
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=_no_password)
            except (OSError, ValueError) as error:
                raise CommandFailed(
                    f"{self.certificate}: {_said(error)}. Give a certificate and its key, as PEM without a "
                    "password"
                ) from None
        return context


IN_THE_CLEAR: Final = ClientSecurity()


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Where a Kafka is, as HOST:PORT, and how it is talked to."""

    address: str
    security: ClientSecurity = IN_THE_CLEAR

    def __str__(self) -> str:
        return self.address


def client_security(given: Mapping[str, str | Path | None]) -> ClientSecurity:
    """What the options say (`dafka.commands.decorators.SECURITY_OPTIONS`), and for the rest the file of
    `client_config`. Raises CommandFailed.
    """
    from dafka.commands.client_properties import properties_in
    from dafka.commands.passwords import read_password

    file = given.get("client_config")
    found: dict[str, str | Path] = {}
    if file is not None:
        for name, value in properties_in(Path(file)).items():
            found[name] = Path(value) if name.startswith("tls_") else value
    found |= {name: value for name, value in given.items() if value is not None and name in _FIELDS}
    if (password_file := given.get("sasl_password_file")) is not None:
        found["sasl_password"] = read_password(Path(password_file))
    security = ClientSecurity(**{_FIELDS[name]: value for name, value in found.items()})  # type: ignore[arg-type]
    _check(security)
    return security


_FIELDS: Final = {
    "security_protocol": "protocol",
    "sasl_mechanism": "mechanism",
    "sasl_user": "user",
    "sasl_password": "password",
    "tls_ca": "ca",
    "tls_client_certificate": "certificate",
    "tls_client_key": "key",
}


def _check(security: ClientSecurity) -> None:
    if security.protocol not in PROTOCOLS:
        raise CommandFailed(f"security.protocol {security.protocol!r} is none of {', '.join(PROTOCOLS)}")
    if security.mechanism not in MECHANISMS:
        raise CommandFailed(f"sasl.mechanism {security.mechanism!r} is none of {', '.join(MECHANISMS)}")
    if security.has_sasl and not (security.user and security.password):
        raise CommandFailed(
            f"{security.protocol} asks who comes: give --sasl-user and --sasl-password-file, or "
            "--client-config"
        )
    if security.user and not security.has_sasl:
        raise CommandFailed(
            f"a user is for SASL, and the protocol is {security.protocol}: add --security-protocol SASL_SSL, "
            "or SASL_PLAINTEXT"
        )
    if (security.ca or security.certificate) and not security.has_tls:
        raise CommandFailed(
            f"certificates are for TLS, and the protocol is {security.protocol}: add --security-protocol SSL "
            "or SASL_SSL"
        )


def _no_password() -> str:
    """Else OpenSSL would ask for one on the terminal."""
    raise ValueError("the key has a password")


def _said(error: OSError | ValueError) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
