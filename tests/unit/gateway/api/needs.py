"""What an API needs its client to be allowed: the answers of those who lack it, and of those who do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from gateway.security.access import UNRESTRICTED, Access, ByAcls, Question
from gateway.security.acls import Acl, PatternType, Permission
from gateway.security.authorizer import Authorizer
from gateway.security.principal import Principal
from tests.unit.gateway.api.asking import ALICE, CORRELATION_ID, REGISTRY, FakeBroker, ask_async
from wireproto.kafka.errors import ErrorCode
from wireproto.kafka.responses import encode_response
from wireproto.kafka.schemas import RESPONSE_CLASSES

Refused: TypeAlias = Callable[[ErrorCode], Any]
"""The answer of who is refused."""


class Need(NamedTuple):
    """One of these has to be allowed. Who may do none of them is refused with `error`, and the last one is
    what was denied.
    """

    error: ErrorCode
    any_of: tuple[Question, ...]
    refused: Refused


@dataclass
class Scene:
    """A broker, and what must stay as it is when a request is refused."""

    broker: FakeBroker
    observe: Callable[[], object] = int


Make: TypeAlias = Callable[[], AbstractAsyncContextManager[Scene]]


def versions(api_key: int) -> range:
    """All that the API has."""
    api = REGISTRY.lookup(api_key)
    assert api is not None
    return range(api.min_version, api.max_version + 1)


def whole(api_key: int, **fields: Any) -> Refused:
    """The answer of an API that says the error once for all of it."""
    return lambda error: RESPONSE_CLASSES[api_key](error_code=error, throttle_time_ms=0, **fields)


def of_one(api_key: int, many: str, one: str, **fields: Any) -> Refused:
    """The answer that says it for the only element of a list."""
    of = RESPONSE_CLASSES[api_key]
    return lambda error: of(**{many: [getattr(of, one)(error_code=error, **fields)], "throttle_time_ms": 0})


def only(allowances: Sequence[Question], denied: list[Question], principal: Principal = ALICE) -> Access:
    """The access of somebody who may do this and nothing else. What is denied is put into the list."""
    authorizer = Authorizer(
        [
            Acl(kind, name, PatternType.LITERAL, str(principal), "*", operation, Permission.ALLOW)
            for operation, kind, name in allowances
        ]
    )
    return ByAcls(principal, "127.0.0.1", lambda: authorizer, lambda _, question: denied.append(question))


async def check_needs(make: Make, request: Any, needs: Sequence[Need]) -> None:
    """Who is allowed all that is needed is answered as if there were no authorizer. Who lacks one thing is
    refused, and who lacks all as who lacks the first; nothing else is denied, and nothing happens.
    """
    everything = [need.any_of[0] for need in needs]
    open_to_all = await _answer(make, request, UNRESTRICTED)
    for index, need in enumerate(needs):
        others = [*everything[:index], *everything[index + 1 :]]
        for one in need.any_of:
            denied: list[Question] = []
            assert await _answer(make, request, only([*others, one], denied)) == open_to_all
            assert denied == []
        await _check_refused(make, request, others, need)
    await _check_refused(make, request, [], needs[0])


async def _check_refused(make: Make, request: Any, allowances: Sequence[Question], lacking: Need) -> None:
    denied: list[Question] = []
    answer = await _answer(make, request, only(allowances, denied), changes=False)
    assert answer == decoded(lacking.refused(lacking.error), request.API_VERSION)
    assert set(denied) == {lacking.any_of[-1]}  # where there is a short way it is asked as well


async def _answer(make: Make, request: Any, access: Access, *, changes: bool = True) -> Any:
    async with make() as scene:
        before = scene.observe()
        scene.broker.access = access
        answer = await ask_async(scene.broker, request)
        assert changes or scene.observe() == before
        return answer.to_dict(json=False)


def decoded(response: Any, version: int) -> Any:
    """As a client of this version has it."""
    framed = encode_response(response, version, CORRELATION_ID)
    decoded = RESPONSE_CLASSES[response.API_KEY].decode(framed, version=version, header=True, framed=True)
    return decoded.to_dict(json=False)
