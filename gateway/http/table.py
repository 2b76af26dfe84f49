"""Every route of the JSON below /api/v1, in the order of docs/http-api.md."""

from __future__ import annotations

from typing import Any, Final

from gateway.http.openapi import document
from gateway.http.router import Ask, Route
from gateway.http.routes import (
    appending,
    clients,
    events,
    following,
    groups,
    mesh,
    overview,
    problems,
    records,
    topics,
)


async def openapi(ask: Ask) -> dict[str, Any]:
    """The route of this table itself."""
    ask.target.only()
    return document(routes(data=ask.view.data), ask.view.surroundings.version)


ROUTES: Final[tuple[Route, ...]] = (
    *overview.ROUTES,
    *problems.ROUTES,
    *topics.ROUTES,
    *records.ROUTES,
    *groups.ROUTES,
    *mesh.ROUTES,
    *clients.ROUTES,
    *events.ROUTES,
    Route("openapi.json", "This document.", openapi),
)
"""The table that the server routes by, and the OpenAPI document is made from."""

DATA_ROUTES: Final = (*appending.ROUTES, *following.ROUTES)
"""Those by which programs append and read records."""


def routes(*, data: bool) -> tuple[Route, ...]:
    """The table; with `data` those routes, too, by which programs append and read records."""
    return (*ROUTES, *DATA_ROUTES) if data else ROUTES
