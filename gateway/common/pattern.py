"""Patterns that clients send, or that are matched with what clients send: regular expressions that have to
match a whole text (RE2, as Kafka's RE2J).

Python's `re` tries one way after the other, and a client could choose a pattern for which that takes for
ever. RE2 follows all ways at once, in time and memory that are bounded.
"""

from typing import Any, Final

MAX_PATTERN_LENGTH: Final = 1_000
"""Characters of a pattern; a longer one counts as wrong."""

MAX_MEMORY: Final = 1024 * 1024
"""Bytes that a pattern may take once it is compiled; one that takes more counts as wrong."""


class InvalidPattern(Exception):
    """The text says why it is none."""


class Pattern:
    """A pattern. Raises InvalidPattern."""

    __slots__ = ("_compiled",)

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN_LENGTH:
            raise InvalidPattern(f"a pattern of {len(text)} characters: {MAX_PATTERN_LENGTH} may be")
        import re2  # a server without patterns does without its memory

        options = re2.Options()
        options.max_mem, options.log_errors = MAX_MEMORY, False
        try:
            self._compiled: Any = re2.compile(text.encode(), options)
        except UnicodeEncodeError as error:
            raise InvalidPattern(f"no UTF-8: {error.reason}") from None
        except re2.error as error:
            (why,) = error.args
            raise InvalidPattern(why.decode(errors="replace") if isinstance(why, bytes) else why) from None

    @property
    def groups(self) -> int:
        """How many parts of it are in parentheses that are remembered."""
        return int(self._compiled.groups)

    def taken_apart(self, text: str) -> tuple[str, ...] | None:
        """What it and its groups match, if it matches all of the text; "" for a group that has no part in
        it.
        """
        found = self._compiled.fullmatch(text.encode(errors="replace"))
        if found is None:
            return None
        return tuple((part or b"").decode() for part in (found.group(), *found.groups()))

    def matches(self, text: str) -> bool:
        """Whether it matches all of the text."""
        return self._compiled.fullmatch(text.encode(errors="replace")) is not None
