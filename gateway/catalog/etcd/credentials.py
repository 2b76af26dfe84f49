"""Who a gateway is to etcd, as files say it: certificates and a password can be replaced while it runs.

Rule: files that are of no use never take the place of what was read before, and it is said. A connection that
is there stays; the next one, and the next token, is by what the files have then.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

MAX_PASSWORD_BYTES: Final = 4096
"""More than any password: a larger file is not one."""

logger = logging.getLogger(__name__)

Looks: TypeAlias = tuple[tuple[int, int, int], ...]
"""What tells that files are others than before."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """`ca`: the certificates that members' are signed by; None with `cert`: the system's. Without both
    nothing is encrypted. `user`, with what the password file says: etcd's own users.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password_file: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        return self.ca is not None or self.cert is not None


class Identity:
    """What is read of the files. Raises OSError (ssl.SSLError, too) when it is made: one cannot be used."""

    def __init__(self, credentials: Credentials) -> None:
        self.user = credentials.user
        self._credentials = credentials
        self._seen = self._looks()
        self._context = _context(credentials)
        self._password = _password(credentials)

    def context(self) -> ssl.SSLContext | None:
        """For the next connection; None where nothing is encrypted."""
        looks = self._looks()
        if looks != self._seen:
            self._seen = looks
            try:
                self._context = _context(self._credentials)
            except OSError as error:
                logger.error(
                    "the certificates for etcd are not read again, and those from before are used: %s", error
                )
            else:
                logger.info("the certificates for etcd were read again")
        return self._context

    def password(self) -> str:
        """For the next token."""
        try:
            self._password = _password(self._credentials)
        except OSError as error:
            logger.error(
                "the password for etcd is not read again, and the one from before is used: %s", error
            )
        return self._password

    def _looks(self) -> Looks:
        files = (self._credentials.ca, self._credentials.cert, self._credentials.key)
        return tuple(_stat(path) for path in files if path is not None)


def _context(credentials: Credentials) -> ssl.SSLContext | None:
    if not credentials.is_encrypted:
        return None
    context = ssl.create_default_context(cafile=credentials.ca)
    if credentials.cert is not None:
        context.load_cert_chain(credentials.cert, credentials.key)
    return context


def _password(credentials: Credentials) -> str:
    if credentials.password_file is None:
        return ""
    with credentials.password_file.open() as file:
        return file.read(MAX_PASSWORD_BYTES).rstrip("\r\n")


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
