"""What a request asks for, and what becomes of it without that: each question is denied in turn.

Where another question comes up then, it is an either-or, and the other one is denied as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from tests.docs.authorization.recording import Question
from wireproto.kafka.errors import ErrorCode

REFUSALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

Place = tuple[str | int, ...]
"""Names of fields and indexes of lists, from the top of an answer."""

Ask = Callable[[frozenset[Question]], Awaitable[tuple[list[Question], dict[str, Any]]]]
"""Sends the request while this is denied: what was asked, and the answer."""


class Finding(NamedTuple):
    """Without `question`, and without all of `unless`, the request is refused with these errors; with none it
    is told less. `as_a_whole`: the error is at the top of the answer.
    """

    question: Question
    unless: tuple[Question, ...]
    errors: tuple[ErrorCode, ...]
    as_a_whole: bool


async def findings(ask: Ask) -> list[Finding]:
    """All that can be found out by one request, in the order in which it is asked."""
    asked, answer = await ask(frozenset())
    _, again = await ask(frozenset())
    explorer = _Explorer(ask, _volatile(answer, again))
    for question in asked:
        await explorer.deny((question,), asked, answer)
    return explorer.found


class _Explorer:
    def __init__(self, ask: Ask, volatile: set[Place]) -> None:
        self._ask = ask
        self._volatile = volatile
        self.found: list[Finding] = []

    async def deny(self, path: tuple[Question, ...], known: list[Question], before: dict[str, Any]) -> None:
        """Deny the last question of the path as well; `before` is the answer without that."""
        asked, answer = await self._ask(frozenset(path))
        refused = _refusals(answer) - _refusals(before)
        if refused or self._differs(answer, before):
            errors = tuple(sorted({error for _, error in refused}))
            self.found.append(Finding(path[-1], path[:-1], errors, any(len(at) == 1 for at, _ in refused)))
        for question in asked:
            if question not in known:
                await self.deny((*path, question), [*known, *asked], answer)

    def _differs(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        return bool(_differences(one, other) - self._volatile)


def _volatile(one: dict[str, Any], other: dict[str, Any]) -> set[Place]:
    """Where two answers to the same request differ: ids that the gateway chooses, times."""
    return _differences(one, other)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> set[Place]:
    leaves, others = dict(_leaves(one)), dict(_leaves(other))
    return {at for at in leaves.keys() | others.keys() if leaves.get(at) != others.get(at)}


def _refusals(answer: dict[str, Any]) -> set[tuple[Place, ErrorCode]]:
    return {
        (at, ErrorCode(value))
        for at, value in _leaves(answer)
        if str(at[-1]).endswith("error_code") and value in REFUSALS
    }


def _leaves(value: Any, at: Place = ()) -> Iterable[tuple[Place, Any]]:
    """Every value, and where it is; of an empty list, that it is empty."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*at, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*at, index))
    else:
        yield at, value
