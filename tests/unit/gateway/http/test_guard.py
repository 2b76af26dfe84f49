"""Who may ask."""

from __future__ import annotations

import pytest

from gateway.front.listeners import parse_listener
from gateway.http.failures import Failure
from gateway.http.guard import Guard

GUARD = Guard(parse_listener("gateway.lan:8080@console.example:443"))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "127.0.0.1:8080",
        "[::1]:8080",
        "[::1]",
        "10.1.2.3",
        "gateway.lan:8080",
        "console.example",
        "CONSOLE.example.:443",
        "page.localhost:80",
    ],
)
def test_names_of_its_own_and_addresses_are_let_in(host: str) -> None:
    GUARD.check({b"host": host.encode()}, page=False)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "a:b:c", "\xff"]
)
def test_other_names_are_refused(host: str) -> None:
    with pytest.raises(Failure) as refused:
        GUARD.check({b"host": host.encode("latin-1")}, page=True)
    assert refused.value.kind == "unknown-host"


@pytest.mark.parametrize(
    ("site", "mode", "page", "let_in"),
    [
        (b"same-origin", b"cors", False, True),
        (b"none", b"navigate", False, True),
        (b"cross-site", b"navigate", True, True),
        (b"cross-site", b"no-cors", True, False),
        (b"cross-site", b"navigate", False, False),
        (b"same-site", b"cors", False, False),
    ],
)
def test_pages_of_other_sites_are_refused(site: bytes, mode: bytes, page: bool, let_in: bool) -> None:
    headers = {b"host": b"localhost", b"sec-fetch-site": site, b"sec-fetch-mode": mode}
    if let_in:
        GUARD.check(headers, page=page)
        return
    with pytest.raises(Failure) as refused:
        GUARD.check(headers, page=page)
    assert refused.value.kind == "cross-site"
