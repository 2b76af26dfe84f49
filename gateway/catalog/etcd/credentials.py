"""Who a gateway is to etcd, as files say it: certificates and a password can be replaced while it runs.

Rule: files that are of no use never take the place of what was read before, and it is said. A connection that
is there stays; the next one, and the next token, is by what the files have then.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from gateway.common.file_looks import looks_of_all

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.common.file_looks import Looks

MAX_PASSWORD_BYTES: Final = 4096
"""More than any password: a larger file is not one."""

logger = logging.getLogger(__name__)


class BadFile(OSError):
    """A file is of no use: the user's to mend. The message says which, and why, and not what is in it."""

    exit_code = 2


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
    """What is read of the files. Raises OSError (BadFile) when it is made: one cannot be used."""

    def __init__(self, credentials: Credentials) -> None:
        self.user = credentials.user
        self._credentials = credentials
        self._seen = self._looks()
        self._context = _context(credentials)
        self._password = _password(credentials)
        self._complaint = ""
        """What was said last of the password's file, so that it is said once."""

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
            if self._complaint != (complaint := str(error)):
                self._complaint = complaint
                logger.error(
                    "the password for etcd is not read again, and the one from before is used: %s", complaint
                )
        else:
            self._complaint = ""
        return self._password

    def _looks(self) -> tuple[Looks, ...]:
        return looks_of_all((self._credentials.ca, self._credentials.cert, self._credentials.key))


def _context(credentials: Credentials) -> ssl.SSLContext | None:
    """Raises BadFile."""
    if not credentials.is_encrypted:
        return None
    with _naming(credentials.ca):
        context = ssl.create_default_context(cafile=credentials.ca)
    if credentials.cert is not None:
        with _naming(credentials.cert, credentials.key):
            context.load_cert_chain(credentials.cert, credentials.key, password=_no_password)
    return context


@contextmanager
def _naming(*paths: Path | None) -> Iterator[None]:
    """What goes wrong is raised as BadFile: neither Python nor OpenSSL says with which file it did."""
    try:
        yield
    except OSError as error:
        names = " and ".join(str(path) for path in paths if path is not None)
        if isinstance(error, ssl.SSLError):
            raise BadFile(f"{names}: {error.reason or 'something in it is not PEM'}") from None
        raise BadFile(f"{names}: {error.strerror or error}") from None


def _no_password() -> NoReturn:
    """Else OpenSSL would ask for one on the terminal."""
    raise OSError("the key has a password: give one without")


def _password(credentials: Credentials) -> str:
    """Raises OSError, also where there is none in the file, as while it is being written."""
    path = credentials.password_file
    if path is None:
        return ""
    with path.open("rb") as file:
        content = file.read(MAX_PASSWORD_BYTES + 1)
    if len(content) > MAX_PASSWORD_BYTES:
        raise BadFile(f"{path}: it has more than {MAX_PASSWORD_BYTES} bytes, and is no password")
    try:
        password = content.decode().rstrip("\r\n")
    except ValueError:
        raise BadFile(f"{path}: it is not UTF-8, and no password") from None
    if not password:
        raise BadFile(f"{path}: there is no password in it")
    return password
