"""Turns for other tasks while one request with very many elements is worked off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import trio

_T = TypeVar("_T")
_R = TypeVar("_R")

BREATH: Final = 256
"""Elements of a request that are worked off before other tasks have their turn: about a millisecond."""


async def breathe(done: int) -> None:
    """Let other tasks run, if `done` elements have just made up another breath.

    For loops over what a client chose: a request may have 100,000 elements.
    """
    if done % BREATH == BREATH - 1:
        await trio.lowlevel.checkpoint()


async def for_each(make: Callable[[_T], _R], elements: Iterable[_T]) -> list[_R]:
    """`make` of each element, with other tasks in between (:func:`breathe`)."""
    made = []
    for done, element in enumerate(elements):
        made.append(make(element))
        await breathe(done)
    return made
