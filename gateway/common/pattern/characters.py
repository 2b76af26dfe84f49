"""Which characters a pattern means, and what may hold between two of them.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Test: TypeAlias = Callable[[str], bool]
"""Whether a character is meant."""

Holds: TypeAlias = Callable[[str | None, str | None], bool]
"""Whether something holds between two characters; None is the text's end."""


def is_digit(character: str) -> bool:
    return "0" <= character <= "9"


def is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def is_space(character: str) -> bool:
    return character in "\t\n\f\r "


def is_not(test: Test) -> Test:
    return lambda character: not test(character)


def is_one_of(tests: Iterable[Test]) -> Test:
    kept = tuple(tests)
    return lambda character: any(test(character) for test in kept)


def is_between(first: str, last: str, *, ignore_case: bool) -> Test:
    if not ignore_case:
        return lambda character: first <= character <= last
    return lambda character: any(
        first <= one <= last for one in (character, character.lower(), character.upper())
    )


def is_anything(_character: str) -> bool:
    return True


def is_no_line_feed(character: str) -> bool:
    return character != "\n"


CLASSES: Final[dict[str, Test]] = {
    "d": is_digit,
    "D": is_not(is_digit),
    "w": is_word,
    "W": is_not(is_word),
    "s": is_space,
    "S": is_not(is_space),
}

NAMED: Final[dict[str, Test]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": is_digit,
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}

CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def at_begin(before: str | None, _following: str | None) -> bool:
    return before is None


def at_end(_before: str | None, following: str | None) -> bool:
    return following is None


def at_word_boundary(before: str | None, following: str | None) -> bool:
    return (before is not None and is_word(before)) != (following is not None and is_word(following))


def inside_word(before: str | None, following: str | None) -> bool:
    return not at_word_boundary(before, following)


ASSERTIONS: Final = {"A": at_begin, "z": at_end, "b": at_word_boundary, "B": inside_word}
