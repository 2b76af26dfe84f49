"""The gateway's APIs with faults before their handlers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import trio

from dafka.chaos.answers import FAILED, WITH_TOPICS
from dafka.chaos.faults import Fault, Faults, Kind
from gateway.common.handlers import Api, Begin, Handler, PendingResponse, Registry, Request, Response
from wireproto.kafka.errors import ErrorCode, MalformedRequest


def with_faults(registry: Registry, faults: Faults) -> Registry:
    """The same APIs. The shorter ways that some have are left out: a fault may have to wait."""
    made = Registry()
    for api in registry.all():
        made.api(
            key=api.key,
            name=api.name,
            min_version=api.min_version,
            max_version=api.max_version,
            advertised_min=api.advertised_min,
            begin=api.begin is not None,
            decoder=api.decoder,
            large_decoder=api.large_decoder,
        )(_handler(api, faults) if api.begin is None else _begin(api, api.begin, faults))
    return made


def _handler(api: Api, faults: Faults) -> Handler:
    assert api.handler is not None
    handle = api.handler

    async def handler(request: Request, broker: Any) -> Response:
        met = await _meet(api, faults, request, broker)
        if met is None:
            return await handle(request, broker)
        if met.kind is Kind.ERROR:
            return FAILED[api.name](request, met.error)
        if met.kind is Kind.LOSE_ANSWER:
            await handle(request, broker)
        raise _closed(met)

    return handler


def _begin(api: Api, begin: Begin, faults: Faults) -> Begin:
    async def begin_with_faults(request: Request, broker: Any) -> PendingResponse:
        met = await _meet(api, faults, request, broker)
        if met is None:
            return await begin(request, broker)
        if met.kind is Kind.ERROR:
            return _Failed(request, FAILED[api.name], met.error)
        if met.kind is Kind.LOSE_ANSWER:
            (await begin(request, broker)).forget()
        raise _closed(met)

    return begin_with_faults


async def _meet(api: Api, faults: Faults, request: Request, broker: Any) -> Fault | None:
    if not faults.wanted(api.name):
        return None
    topics = _topics(request, broker) if api.name in WITH_TOPICS else ()
    delay_ms, fault = faults.meet(api.name, request.header.client_id or "", topics)
    if delay_ms:
        request.before_waiting()
        with trio.move_on_after(delay_ms / 1000):
            await request.shutting_down.wait()
    return fault


def _topics(request: Request, broker: Any) -> Collection[str]:
    """The names of the topics in a request."""
    found = set()
    for wanted in request.body.topics:
        topic = None if wanted.topic_id is None else broker.topics.by_id(wanted.topic_id)
        found.add(wanted.name or (topic.name if topic is not None else ""))
    return found


def _closed(fault: Fault) -> MalformedRequest:
    """What ends a connection without an answer."""
    return MalformedRequest(f"dafka chaos: {fault.kind.value} {fault.api}")


class _Failed:
    """A Produce that did nothing and is answered at once (`gateway.common.handlers.PendingResponse`)."""

    def __init__(
        self, request: Request, answer: Callable[[Request, ErrorCode], Response], error: ErrorCode
    ) -> None:
        self._request = request
        self._answer = answer
        self._error = error

    @property
    def ready(self) -> bool:
        return True

    def when_ready(self, call: Callable[[], None], /) -> None:
        """It is: nobody waits."""
        call()

    def forget(self) -> None:
        """Nothing is kept."""

    def response(self) -> Response:
        """Raises MalformedRequest where the client wants no answer: it learns of the failure all the same."""
        if self._request.body.acks == 0:
            raise MalformedRequest(f"dafka chaos: {self._error.name} without an answer")
        return self._answer(self._request, self._error)
