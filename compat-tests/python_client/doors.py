"""Listeners that ask who comes, as a client is told of them."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass

AUTHENTICATION, CERTIFICATE = "authentication", "certificate"
"""Why a client says that it did not come in (`Adapter.refusal`)."""


@dataclass(frozen=True)
class Door:
    """A listener, and what a client shows there: a user's password or a token, by its mechanism.

    `is_hopeless`: it will not let in, and a client that tries for a while need not try for long.
    """

    protocol: str
    ca: str
    mechanism: str = ""
    user: str = ""
    secret: str = ""
    is_hopeless: bool = False

    @property
    def bootstrap(self) -> str:
        return os.environ[f"COMPAT_{self.protocol}"]

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def context(self) -> ssl.SSLContext | None:
        """For clients that take one of Python's."""
        return ssl.create_default_context(cafile=self.ca) if self.has_tls else None


class Heard(logging.Handler):
    """What a client said in its log: some say there alone why they do not come in.

    `hung_up` is what one says that has not read why the server closed its connection (its FINDINGS.md).
    """

    def __init__(self, logger: str, hung_up: str) -> None:
        super().__init__(logging.WARNING)
        self._said: list[str] = []
        self._hung_up = hung_up
        logging.getLogger(logger).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())

    def refusal(self, error: Exception) -> str:
        """Which this error, and what was said until now, mean; where it is none, the words."""
        words = " ".join([repr(error), *self._said])
        self._said.clear()
        if "CERTIFICATE_VERIFY_FAILED" in words:
            return CERTIFICATE
        return AUTHENTICATION if "Authentication" in words or self._hung_up in words else words
