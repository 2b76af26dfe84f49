"""A secret that who asks over HTTP has to show, read from a file.

As `Authorization: Bearer TOKEN` (RFC 6750), or as the password of any user name (Basic, RFC 7617), for which
browsers ask by themselves. Never in the address, which logs and histories keep.
"""

from __future__ import annotations

import binascii
import hmac
import logging
import os
from base64 import b64decode
from pathlib import Path
from typing import Final

from gateway.common.file_looks import looks_of
from mesh.private_files import warn_if_readable

MIN_CHARS: Final = 16
"""Of a token: one that cannot be guessed has as many."""

MAX_CHARS: Final = 1024
"""Of a token. More does not go through what is between, as a header."""

CHALLENGE: Final = (
    ("WWW-Authenticate", 'Basic realm="Dafka", charset="UTF-8"'),
    ("WWW-Authenticate", 'Bearer realm="Dafka"'),
)
"""What an answer without a token has: how one is shown."""

logger = logging.getLogger(__name__)


class BadToken(Exception):
    """The file has no token: the user's to mend. The message says which, and why, and not what is in it."""

    exit_code = 2


class AccessToken:
    """One, in a file of its own, which is read again when that is another one. Raises BadToken when it is
    made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = looks_of(path)
        self._token = _read(path)

    def _read_again(self) -> None:
        """Take what is in the file now, if that is a token."""
        try:
            self._token = _read(self._path)
        except BadToken as error:
            logger.error("the token is not read again, and the one from before is used: %s", error)
        else:
            logger.info("the token was read again: %s", self._path)

    def is_in(self, authorization: bytes) -> bool:
        """Whether a header `Authorization` has it. Takes as long for one wrong token as for another of its
        length.
        """
        if (looks := looks_of(self._path)) != self._seen:
            self._seen = looks
            self._read_again()
        scheme, _, shown = authorization.strip().partition(b" ")
        match scheme.lower():
            case b"bearer":
                token = shown.strip()
            case b"basic":
                try:
                    token = b64decode(shown.strip(), validate=True).partition(b":")[2]
                except binascii.Error:
                    return False
            case _:
                return False
        return hmac.compare_digest(token, self._token)


def _read(path: Path) -> bytes:
    warn_if_readable(path, "the token in it")
    try:
        with path.open("rb") as file:
            token = file.read(MAX_CHARS + 3).rstrip(b"\r\n")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise BadToken(f"{path}: {reason}; what is needed is a file with a token: {_HOW}") from None
    if not MIN_CHARS <= len(token) <= MAX_CHARS or not all(0x21 <= byte <= 0x7E for byte in token):
        raise BadToken(
            f"{path}: a token has {MIN_CHARS} to {MAX_CHARS} printable ASCII characters without spaces, and "
            f"is alone in its file: {_HOW}"
        )
    return token


_HOW: Final = "make one by 'openssl rand -hex 32'"
