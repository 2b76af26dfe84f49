"""The secret that delegation tokens are made with, from its file.

Whoever knows it can come in as everybody who has a token. So it is no argument, which all processes of a
machine can see, and the file is its owner's alone.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from gateway.security.delegation_tokens import MIN_SECRET_BYTES, TokenSecret

MAX_SECRET_BYTES: Final = 4_096
"""Longest secret: more is another file, given by mistake."""

OTHERS: Final = 0o077
"""The rights of everybody but the owner."""

_FLAG: Final = "--delegation-token-secret-file"


class BadTokenSecret(Exception):
    """The file is of no use: the user's to mend (exit code 2). The message says why, and what to do."""

    exit_code = 2


def read_token_secret(path: Path | None) -> TokenSecret | None:
    """What the file has, without the end of its line. Raises BadTokenSecret."""
    if path is None:
        return None
    try:
        secret = _content(path).rstrip(b"\r\n")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise BadTokenSecret(f"{_FLAG} {path} cannot be read: {reason}") from error
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise BadTokenSecret(
            f"the secret in {_FLAG} {path} has {len(secret)} bytes, and {MIN_SECRET_BYTES} to "
            f"{MAX_SECRET_BYTES} are needed: make one with 'openssl rand -base64 48'"
        )
    return TokenSecret(secret)


def _content(path: Path) -> bytes:
    # Nobody writes to a pipe that somebody put there.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BadTokenSecret(f"{_FLAG} {path} is no file")
        if found.st_mode & OTHERS:
            raise BadTokenSecret(
                f"others than its owner may use {_FLAG} {path}: 'chmod 600 {path}', and make another secret "
                "if somebody may have read it"
            )
        return file.read(MAX_SECRET_BYTES + 3)
