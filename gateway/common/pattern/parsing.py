"""Reads patterns.

Pure. See `gateway.common.pattern`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.common.pattern.characters import (
    ASSERTIONS,
    CLASSES,
    CONTROLS,
    NAMED,
    Test,
    at_begin,
    at_end,
    is_anything,
    is_between,
    is_no_line_feed,
    is_not,
    is_one_of,
    is_word,
)
from gateway.common.pattern.program import (
    Assert,
    Char,
    InvalidPattern,
    Program,
    either,
    joined,
    repeated,
)

MAX_PATTERN_LENGTH: Final = 1_000
"""Characters of a pattern; a longer one counts as wrong."""

MAX_REPEAT: Final = 1_000
"""Of ``{n,m}``, as in RE2."""

MAX_DEPTH: Final = 100
"""Groups within groups."""


def compile_pattern(text: str) -> Program:
    """The program of a pattern. Raises InvalidPattern."""
    if len(text) > MAX_PATTERN_LENGTH:
        raise InvalidPattern(f"a pattern of {len(text)} characters, more than {MAX_PATTERN_LENGTH}")
    parser = _Parser(text)
    program = parser.alternatives(0)
    parser.end()
    return program


@dataclass
class _Flags:
    """What holds for the rest of a group."""

    ignore_case: bool = False
    dot_is_all: bool = False


class _Parser:
    """Goes through a pattern. Raises InvalidPattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._flags = _Flags()
        self._quotes = False
        r"""What follows is literal, up to ``\E``."""

    def end(self) -> None:
        if self._position < len(self._text):
            raise InvalidPattern("a group is closed that was not opened")

    def alternatives(self, depth: int) -> Program:
        if depth > MAX_DEPTH:
            raise InvalidPattern(f"groups within more than {MAX_DEPTH} others")
        programs = [self._sequence(depth)]
        while self._takes("|"):
            programs.append(self._sequence(depth))
        return either(programs)

    def _sequence(self, depth: int) -> Program:
        program: Program = ()
        while self._position < len(self._text) and (self._quotes or self._peek() not in "|)"):
            program = joined(program, self._repetition(self._atom(depth)))
        return program

    def _repetition(self, atom: Program) -> Program:
        """The atom, as often as is written behind it."""
        if self._quotes and self._takes("\\E"):
            self._quotes = False
        repeat = None if self._quotes else self._counts()
        if repeat is None:
            return atom
        self._takes("?")  # which of several ways it goes makes no difference
        if self._counts() is not None:
            raise InvalidPattern("a repetition of a repetition")
        return repeated(atom, *repeat)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return counts
        closed = self._text.find("}", self._position)
        if self._peek() != "{" or closed < 0:
            return None
        first, comma, second = self._text[self._position + 1 : closed].partition(",")
        if not _is_number(first) or (second and not _is_number(second)):
            return None  # then it is an ordinary character
        least = int(first)
        most = least if not comma else int(second) if second else None
        if least > MAX_REPEAT or (most is not None and not least <= most <= MAX_REPEAT):
            raise InvalidPattern(f"a repetition outside of 0 to {MAX_REPEAT}")
        self._position = closed + 1
        return least, most

    def _atom(self, depth: int) -> Program:
        character = self._next()
        if self._quotes:
            return self._literal(character)
        if character == "(":
            return self._group(depth)
        if character == "[":
            return (Char(self._class()),)
        if character == ".":
            return (Char(is_anything if self._flags.dot_is_all else is_no_line_feed),)
        if character == "^":
            return (Assert(at_begin),)
        if character == "$":
            return (Assert(at_end),)
        if character in "*+?":
            raise InvalidPattern("a repetition of nothing")
        if character == "\\":
            return self._escape()
        return self._literal(character)

    def _literal(self, character: str) -> Program:
        return (Char(is_between(character, character, ignore_case=self._flags.ignore_case)),)

    def _escape(self) -> Program:
        character = self._next()
        if character == "Q":
            self._quotes = True
            return ()
        if character in ASSERTIONS:
            return (Assert(ASSERTIONS[character]),)
        if character in CLASSES:
            return (Char(CLASSES[character]),)
        return self._literal(self._escaped(character))

    def _escaped(self, character: str) -> str:
        """The character that is meant by the one after a backslash."""
        if character in CONTROLS:
            return CONTROLS[character]
        if character == "x":
            return self._by_number()
        if character.isascii() and character.isalnum():
            raise InvalidPattern(f"\\{character} is not known")
        return character

    def _by_number(self) -> str:
        if self._takes("{"):
            digits, closed, _ = self._text[self._position :].partition("}")
            self._position += len(digits) + len(closed)
        else:
            digits = self._text[self._position : self._position + 2]
            closed = "}" if len(digits) == 2 else ""
            self._position += len(digits)
        try:
            if not closed or len(digits) > 8:
                raise ValueError
            return chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise InvalidPattern("the number of a character is wrong") from None

    def _group(self, depth: int) -> Program:
        flags = self._flags
        if self._takes("?"):
            if not self._opening():
                return ()  # only flags, for what follows
        else:
            self._flags = _Flags(flags.ignore_case, flags.dot_is_all)
        program = self.alternatives(depth + 1)
        if not self._takes(")"):
            raise InvalidPattern("a group is not closed")
        self._flags = flags
        return program

    def _opening(self) -> bool:
        """What follows ``(?``; whether a group does."""
        if self._takes("P<") or (self._peek() == "<" and self._text[self._position + 1 :][:1] not in "=!"):
            self._takes("<")
            name, closed, _ = self._text[self._position :].partition(">")
            if not closed or not name or not all(is_word(one) for one in name):
                raise InvalidPattern("the name of a group is wrong")
            self._position += len(name) + 1
            self._flags = _Flags(self._flags.ignore_case, self._flags.dot_is_all)
            return True
        flags, on = _Flags(self._flags.ignore_case, self._flags.dot_is_all), True
        while (character := self._next()) not in ":)":
            if character == "-":
                on = False
            elif character == "i":
                flags.ignore_case = on
            elif character == "s":
                flags.dot_is_all = on
            else:
                raise InvalidPattern(f"(?{character} is not known")
        self._flags = flags
        return character == ":"

    def _class(self) -> Test:
        """What is between brackets."""
        negated = self._takes("^")
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            first = False
            tests.append(self._named_class() or self._range())
        self._position += 1
        return is_not(is_one_of(tests)) if negated else is_one_of(tests)

    def _named_class(self) -> Test | None:
        r"""``[:name:]``, or one of ``\d`` and the like."""
        if self._takes("[:"):
            name, closed, _ = self._text[self._position :].partition(":]")
            test = NAMED.get(name.removeprefix("^"))
            if not closed or test is None:
                raise InvalidPattern("a class of characters that is not known")
            self._position += len(name) + 2
            return is_not(test) if name.startswith("^") else test
        if self._peek() == "\\" and (known := CLASSES.get(self._text[self._position + 1 :][:1])) is not None:
            self._position += 2
            return known
        return None

    def _range(self) -> Test:
        first = last = self._member()
        if self._peek() == "-" and self._text[self._position + 1 :][:1] not in {"", "]"}:
            self._position += 1
            last = self._member()
        if last < first:
            raise InvalidPattern("a range that ends before it begins")
        return is_between(first, last, ignore_case=self._flags.ignore_case)

    def _member(self) -> str:
        character = self._next()
        return self._escaped(self._next()) if character == "\\" else character

    def _takes(self, expected: str) -> bool:
        if self._text.startswith(expected, self._position):
            self._position += len(expected)
            return True
        return False

    def _peek(self) -> str:
        """The next character, "" at the end."""
        return self._text[self._position : self._position + 1]

    def _next(self) -> str:
        character = self._peek()
        if not character:
            raise InvalidPattern("it ends in the middle")
        self._position += 1
        return character


def _is_number(text: str) -> bool:
    return len(text) <= 4 and text.isascii() and text.isdigit()
