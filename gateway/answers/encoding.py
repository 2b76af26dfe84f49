"""What the handlers of several APIs share: framed answers, operations that everybody may do, log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import trio

from gateway.common.handlers import Request
from wireproto.kafka.errors import MalformedRequest
from wireproto.kafka.responses import encode_response

TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
"""What one may do to a topic (`AclOperation` codes: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE,
DESCRIBE_CONFIGS, ALTER_CONFIGS): all of it, as in a Kafka without an authorizer."""

CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})
"""What one may do to the cluster (CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS,
IDEMPOTENT_WRITE): all of it, as in a Kafka without an authorizer."""


def answer(request: Request, response: Any) -> bytes:
    """The framed answer to `request`: an instance of kafka-python's class, in the request's version."""
    return encode_response(response, request.header.api_version, request.header.correlation_id)


MANY_ELEMENTS: Final = 4096
"""Elements of an answer above which it is encoded in a worker thread: some ten milliseconds of work."""

_R = TypeVar("_R")


async def encoded(elements: int, encode: Callable[[], _R]) -> _R:
    """`encode()`, in a worker thread if the answer has many elements.

    Encoding cannot pause: 200,000 configs would keep every other client waiting for a second.
    """
    return encode() if elements <= MANY_ELEMENTS else await trio.to_thread.run_sync(encode)


async def answer_of(elements: int, request: Request, response: Any) -> bytes:
    """As :func:`answer`, for answers that may be large."""
    return await encoded(elements, partial(answer, request, response))


MAX_ELEMENTS: Final = 50_000
"""Elements of one request that are each answered: more than all topics and partitions that there may be. The
8 MiB that a request may have hold millions of empty names, and the answer to each takes half a kilobyte."""


def check_elements(count: int, what: str) -> None:
    """Whether a request may ask for so many. Raises MalformedRequest: the connection is closed."""
    if count > MAX_ELEMENTS:
        raise MalformedRequest(f"{count} {what} in one request, more than {MAX_ELEMENTS}")


BREATH: Final = 256
"""Elements of a request that are worked off before other tasks have their turn: about a millisecond."""


async def breathe(done: int) -> None:
    """Let other tasks run, if `done` elements have just made up another breath.

    For loops over what a client chose: a request may have 100,000 elements.
    """
    if done % BREATH == BREATH - 1:
        await trio.lowlevel.checkpoint()


_T = TypeVar("_T")


async def for_each(make: Callable[[_T], _R], elements: Iterable[_T]) -> list[_R]:
    """`make` of each element, with other tasks in between (:func:`breathe`)."""
    made = []
    for done, element in enumerate(elements):
        made.append(make(element))
        await breathe(done)
    return made


_said: set[str] = set()


def warn_once(logger: logging.Logger, message: str, *args: object) -> None:
    """Log a warning the first time that this message (not these arguments) comes up in the process."""
    if message not in _said:
        _said.add(message)
        logger.warning(message, *args)
