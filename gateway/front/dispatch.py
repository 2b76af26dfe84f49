"""From a frame to the function that answers it: header, API key, version, body.

What Kafka does with what it does not know, and so do we (`SocketServer.processCompletedReceives`,
`RequestContext.parseRequest`, KIP-511):

| request | answer |
|---|---|
| unknown API key, or unsupported version | the connection is closed |
| ApiVersions of an unsupported version | a v0 answer: error 35 and every API |
| a body that does not fit its schema | the connection is closed |
"""

from __future__ import annotations

from typing import Any

from gateway.api.api_versions import API_VERSIONS_KEY, unsupported_version_handler
from gateway.common.handlers import Api, AtOnce, Begin, BeginSmall, Decoder, Handler, Registry
from gateway.common.metrics import ApiStats, Metrics
from wireproto.kafka.api_keys import API_NAMES
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.headers import RequestHeader, parse_request_header

MAX_DECODED_ON_LOOP_BYTES = 64 * 1024
"""Bytes of a request that is decoded on the loop: about a millisecond for a Fetch of 2,000 partitions. One of
200,000 elements takes a tenth of a second, in which nobody else would be served. (The interpreter's lock is
handed over each tenth of a millisecond meanwhile.)"""


class UnsupportedRequest(Exception):
    """An API key or a version that is not offered here: the connection is closed."""


class Route:
    """An API as the hot path wants it: one look-up gives everything that a request needs."""

    __slots__ = (
        "at_once",
        "begin",
        "begin_small",
        "changes_cluster",
        "decoder",
        "handler",
        "key",
        "large_decoder",
        "max_version",
        "min_version",
        "name",
        "stats",
    )

    def __init__(self, api: Api, stats: ApiStats) -> None:
        self.key = api.key
        self.name = api.name
        self.min_version = api.min_version
        self.max_version = api.max_version
        self.decoder: Decoder = api.decoder
        self.large_decoder: Decoder = api.large_decoder or api.decoder
        self.handler: Handler | None = api.handler
        self.begin: Begin | None = api.begin
        self.begin_small: BeginSmall | None = api.begin_small
        self.at_once: AtOnce | None = api.at_once
        self.changes_cluster = api.changes_cluster
        self.stats = stats


class Dispatcher:
    """The routes of one gateway. The APIs are those that are registered when it is made."""

    def __init__(self, registry: Registry, metrics: Metrics) -> None:
        self._routes = {api.key: Route(api, metrics.api(api.key, api.name)) for api in registry.all()}
        self._unsupported_api_versions: Route | None = None
        if (api := registry.lookup(API_VERSIONS_KEY)) is not None:
            route = Route(api, metrics.api(api.key, api.name))
            route.handler = unsupported_version_handler(registry)
            route.decoder = _without_body
            self._unsupported_api_versions = route

    def route(self, frame: memoryview, max_other_bytes: int) -> tuple[Route, RequestHeader]:
        """The route and header of one request; `decode` gives its body.

        Only Produce may have more than `max_other_bytes`. Raises MalformedRequest or UnsupportedRequest: the
        connection is to be closed.
        """
        header = parse_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            raise UnsupportedRequest(_describe(header))
        if not route.min_version <= header.api_version <= route.max_version:
            if header.api_key == API_VERSIONS_KEY and self._unsupported_api_versions is not None:
                return self._unsupported_api_versions, header
            raise UnsupportedRequest(_describe(header))
        if len(frame) > max_other_bytes and route.begin is None:
            raise MalformedRequest(f"{route.name} request of {len(frame)} bytes, more than {max_other_bytes}")
        return route, header

    def takes_long(self, route: Route, frame: memoryview) -> bool:
        """Whether the body may have so many elements that it is to be decoded in a worker thread.

        A Produce has its size from its records, which are not decoded: see `decode`.
        """
        return len(frame) > MAX_DECODED_ON_LOOP_BYTES and route.begin is None

    def decode(self, route: Route, header: RequestHeader, frame: memoryview) -> Any:
        """The body. Raises MalformedRequest; and, for a Produce of very many partitions, ManyPartitions:
        `decode_large` decodes it, in a worker thread.
        """
        return route.decoder(header.api_version, frame, header.body_offset)

    @staticmethod
    def decode_large(route: Route, header: RequestHeader, frame: memoryview) -> Any:
        """As `decode`, whatever it has. Raises MalformedRequest."""
        return route.large_decoder(header.api_version, frame, header.body_offset)


def _without_body(_version: int, _frame: memoryview, _pos: int) -> None:
    """Of a version that is not known nobody can say what its body is."""


def _describe(header: RequestHeader) -> str:
    name = API_NAMES.get(header.api_key, "unknown API")
    client = "no client id" if header.client_id is None else f"client id {header.client_id[:64]!r}"
    return f"{name} (key {header.api_key}) version {header.api_version} is not supported here; {client}"
