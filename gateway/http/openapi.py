"""The routes as an OpenAPI 3.1 document, made from the table that the server routes by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.http.failures import PROBLEM_TYPE
from gateway.http.router import API, Route

PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "next_step", "instance"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:dafka:problem:"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "The cause."},
        "next_step": {"type": "string", "description": "What to do about it."},
        "instance": {"type": "string"},
    },
}


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document; `version` is the program's."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Dafka's status page",
            "version": version,
            "description": "What a gateway knows. Read only. docs/http-api.md has every shape.",
        },
        "servers": [{"url": f"/{'/'.join(API)}"}],
        "paths": _paths(routes),
        "components": {"schemas": {"Problem": PROBLEM}},
    }


def _paths(routes: Sequence[Route]) -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route)
    return paths


def _body(route: Route) -> dict[str, Any]:
    if not route.body_types:
        return {}
    content = {kind: {"schema": {"type": "string"}} for kind in route.body_types}
    return {"requestBody": {"required": True, "content": content}}


def _operation(route: Route) -> dict[str, Any]:
    places = [part[1:-1] for part in route.parts if part[0] == "{"]
    problem = {"content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    shape = {"type": "object"} if route.content_type == "application/json" else {"type": "string"}
    done = {"description": "As asked.", "content": {route.content_type: {"schema": shape}}}
    prefix = () if route.method == "GET" else (route.method.lower(),)
    return {
        "summary": route.summary,
        "operationId": "-".join((*prefix, *(part.strip("{}") for part in route.parts))),
        **_body(route),
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in places
            ),
            *(
                {"name": one.name, "in": "query", "schema": one.schema}
                | ({"description": one.help} if one.help else {})
                for one in route.parameters
            ),
        ],
        "responses": {
            **dict.fromkeys(("200",) if route.method == "GET" else ("200", "201"), done),
            "4XX": {"description": "What was asked cannot be answered."} | problem,
            "5XX": {"description": "Not now, or a defect."} | problem,
        },
    }
