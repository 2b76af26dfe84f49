"""What all SASL mechanisms are to a connection: tokens in, tokens out, and in the end somebody who is known.

Pure. One exchange is one object; whoever has it gives it the client's tokens in their order.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from gateway.security.principal import Principal


class Refused(Exception):
    """The client is not who it says, or says nothing that makes sense. `told` is what it may be told; None:
    that its credentials are invalid, and no more. `why` is for the log, and has no secret.
    """

    def __init__(self, why: str, told: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.told = told


class Authenticated(NamedTuple):
    """Who the client is."""

    principal: Principal
    expires_ms: int | None = None
    """When what it has shown is over, ms since 1970; None: never."""
    token_id: str = ""
    """The delegation token by which it came in; "": it was none."""


class Step(NamedTuple):
    """What the client is answered; with `authenticated` the exchange is over."""

    token: bytes
    authenticated: Authenticated | None = None


class Exchange(Protocol):
    """One authentication by one mechanism."""

    def takes_long(self, token: bytes) -> bool:
        """Whether the step with this token may take milliseconds of processor time, and is for a worker
        thread.
        """

    def step(self, token: bytes) -> Step:
        """Take the client's next token. Raises Refused; then the exchange is over as well."""
