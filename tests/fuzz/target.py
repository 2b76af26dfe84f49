"""What is given malformed input, and what has to hold of each."""

from __future__ import annotations

import random
from typing import Protocol, Self


class Violation(Exception):
    """Something happened that must not. The message says what."""


class Target(Protocol):
    """One parser, or one state machine of a connection. It is a context: what it started ends with it."""

    name: str

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *_how: object) -> None:
        """End."""

    @property
    def good(self) -> list[bytes]:
        """Inputs with which nothing is wrong: what is malformed is made of them."""

    def make(self, chooser: random.Random) -> bytes:
        """A malformed input, or one that may be."""

    def check(self, data: bytes) -> str:
        """Take an input; in a word or two, what became of it. Raises Violation; whatever else it raises is
        one, too: what a parser may raise is caught here.
        """
