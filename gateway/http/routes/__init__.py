"""Every route of the JSON below /api/v1, in the order of docs/http-api.md."""

from __future__ import annotations

from typing import Final

from gateway.http.router import Route
from gateway.http.routes import overview, records, topics

ROUTES: Final[tuple[Route, ...]] = (*overview.ROUTES, *topics.ROUTES, *records.ROUTES)
"""The table that the server routes by, and the OpenAPI document is made from."""
