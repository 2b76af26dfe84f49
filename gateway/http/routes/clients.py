"""Kafka clients that are connected, by what they call themselves."""

from __future__ import annotations

from typing import Any, Final

from gateway.http.router import Ask, Route
from gateway.http.routes.overview import api_row, rounded
from gateway.http.view import View, now_ms

MAX_KINDS: Final = 200
"""Kinds of clients that are listed, those with most connections."""

MAX_COUNTED_KINDS: Final = 2_000
"""Kinds that are told apart: clients may call themselves what they like. What is beyond counts as unnamed."""

MAX_CLIENT_IDS: Final = 5
"""Client ids that a kind shows."""


class _Kind:
    __slots__ = ("client_ids", "connections", "hosts", "requests")

    def __init__(self) -> None:
        self.connections = 0
        self.hosts: set[str] = set()
        self.client_ids: dict[str, None] = {}
        self.requests: float | None = None


async def clients(ask: Ask) -> dict[str, Any]:
    """The route."""
    ask.target.only()
    view = ask.view
    await view.sums.first()
    async with view.turns.working():
        return await clients_of(view)


async def clients_of(view: View) -> dict[str, Any]:
    """All kinds of clients, and the APIs that they use. The caller works."""
    server = view.kafka()
    connections = [] if server is None else list(server.connections)
    kinds: dict[tuple[str | None, str | None], _Kind] = {}
    for connection in connections:
        software = connection.software
        key = (None, None) if software is None else (software.library, software.version)
        if key not in kinds and len(kinds) >= MAX_COUNTED_KINDS:
            key = None, None
        kind = kinds.setdefault(key, _Kind())
        kind.connections += 1
        kind.hosts.add(connection.client_address.rpartition(":")[0])
        if software is not None and software.client_id and len(kind.client_ids) < MAX_CLIENT_IDS:
            kind.client_ids[software.client_id] = None
        rate = view.sums.requests.get(connection)
        if rate is not None:
            kind.requests = (kind.requests or 0.0) + rate
        await view.turns.breathe()
    largest = sorted(kinds.items(), key=lambda one: (-one[1].connections, one[0][0] or "", one[0][1] or ""))
    return {
        "as_of": now_ms(),
        "connections": view.metrics.connections_open,
        "refused": int(sum(view.metrics.connections_refused.values())),
        "items": [_row(*key, kind) for key, kind in largest[:MAX_KINDS]],
        "total": len(kinds),
        "apis": [api_row(name, rates) for name, rates in sorted(view.sums.apis.items()) if rates.counted[0]],
    }


def _row(library: str | None, version: str | None, kind: _Kind) -> dict[str, Any]:
    return {
        "library": library,
        "version": version,
        "connections": kind.connections,
        "hosts": len(kind.hosts),
        "client_ids": sorted(kind.client_ids),
        "requests": rounded(kind.requests),
    }


ROUTES: Final = (Route("clients", "Kafka clients, by library and version.", clients),)
