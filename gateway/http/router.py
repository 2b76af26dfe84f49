"""Paths to routes: a table that the server routes by and the OpenAPI document is made from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.http.failures import not_found, wrong_method

if TYPE_CHECKING:
    from gateway.http.connection import ReadBody
    from gateway.http.target import Target
    from gateway.http.view import View

API: Final = ("api", "v1")
"""The first parts of every route's path."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the target, what its path's placeholders stand for, and headers by lower-case name."""

    view: View
    target: Target
    places: dict[str, str]
    headers: dict[bytes, bytes]
    read_body: ReadBody | None = None
    """For a POST."""

    host: str = ""
    """The address of who asks."""


Handler: TypeAlias = Callable[[Ask], Awaitable[Any]]
"""Answers what is to be written as JSON. Raises Failure."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the OpenAPI document shows it: a JSON schema."""

    name: str
    schema: dict[str, Any]
    help: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """`path` below /api/v1, with `{names}` of places."""

    path: str
    summary: str
    handler: Handler
    parameters: Sequence[Parameter] = ()
    content_type: str = "application/json"
    method: str = "GET"
    """GET, which HEAD is asked by, too; or POST."""

    body_types: Sequence[str] = ()
    """Content types of the body that a POST takes."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


class Router:
    """Finds the route of a path, by how many parts it has and those that are no places."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes
        self._by_length: dict[int, list[Route]] = {}
        for route in routes:
            self._by_length.setdefault(len(route.parts), []).append(route)

    def find(self, parts: tuple[str, ...], method: str = "GET") -> tuple[Route, dict[str, str]]:
        """The route, and what its places stand for; `parts` are those after /api/v1. Raises Failure."""
        others = []
        for route in self._by_length.get(len(parts), ()):
            places: dict[str, str] = {}
            for wanted, part in zip(route.parts, parts, strict=True):
                if wanted[0] == "{":
                    places[wanted[1:-1]] = part
                elif wanted != part:
                    break
            else:
                if route.method == method:
                    return route, places
                others.append(route.method)
        if others:
            raise wrong_method(["GET", "HEAD"] if "GET" in others else others)
        raise not_found(
            "unknown-path", "there is nothing at this path", "See /api/v1/openapi.json for what there is."
        )
