"""Who may ask: browsers that were sent here by a web page elsewhere may not.

A page of another site cannot read what is answered here, for there is no CORS. But its name may lead to this
machine all at once (DNS rebinding), and then it can: so the name in `Host` must be one that this gateway is
known by. An address is none that a name can be put in the place of.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from http import HTTPStatus

from gateway.front.listeners import ListenerSpec
from gateway.http.failures import MAX_SHOWN, Failure

SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'"
        ),
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""On every answer."""


class Guard:
    """What may ask on one listener."""

    def __init__(self, spec: ListenerSpec) -> None:
        own = {"localhost", socket.gethostname(), spec.host, spec.advertised_host or ""}
        self._names = frozenset(name.lower().rstrip(".") for name in own if name)

    def check(self, headers: Mapping[bytes, bytes], *, page: bool) -> None:
        """`headers` are lower-case; `page`: a file of the page is asked for, which a link may lead to from
        anywhere. Raises Failure.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_ours(host):
            raise Failure(
                HTTPStatus.FORBIDDEN,
                "unknown-host",
                f"the request is for {host[:MAX_SHOWN]!r}, a name that this gateway is not known by",
                "Use the gateway's address, or give the name: --http HOST:PORT@NAME:PORT.",
            )
        site = headers.get(b"sec-fetch-site", b"none")
        followed = headers.get(b"sec-fetch-mode") == b"navigate" and page
        if site not in {b"none", b"same-origin"} and not followed:
            raise Failure(
                HTTPStatus.FORBIDDEN,
                "cross-site",
                "a page of another site asks for this",
                "Open the status page itself, or ask with a program.",
            )

    def check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        """For a request that changes something: a browser says in `Origin` whose page asks, and that must be
        one from here. Raises Failure.
        """
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, host = origin.partition(b"://")
        if scheme not in {b"http", b"https"} or host.lower() != headers.get(b"host", b"").lower():
            raise Failure(
                HTTPStatus.FORBIDDEN,
                "cross-site",
                "a page of another site asks for this",
                "Ask with a program, or from a page that comes from here.",
            )

    def _is_ours(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit() or host.endswith("]"):
            name = host
        if name.startswith("[") and name.endswith("]"):
            name = name[1:-1]
        name = name.lower().rstrip(".")
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
