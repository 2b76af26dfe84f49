"""What a pattern is made into, and how a text is matched against it.

Pure. See `gateway.common.pattern`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from gateway.common.pattern.characters import Holds, Test

MAX_INSTRUCTIONS: Final = 5_000
"""Instructions of a program: repetitions are written out."""


class InvalidPattern(ValueError):
    """Not a regular expression, or one that is not supported here."""


class Char(NamedTuple):
    """Takes one character; goes on with the next instruction."""

    test: Test


class Split(NamedTuple):
    """Goes on at each of these places, which count from its own: so a program may stand anywhere."""

    steps: tuple[int, ...]


class Assert(NamedTuple):
    """Goes on with the next instruction if it holds."""

    holds: Holds


Instruction: TypeAlias = Char | Split | Assert
Program: TypeAlias = tuple[Instruction, ...]


class Match:
    """One text against a program. Feed it all of it, then look whether it `is_whole`."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._before: str | None = None
        self._places: set[int] = {0}
        """Where characters are taken next, before what does not depend on the next one was followed."""

    def feed(self, text: str) -> None:
        """The next characters."""
        for character in text:
            if not self._places:
                return
            program = self._program
            taken: set[int] = set()
            for place in self._followed(character):
                if place < len(program):
                    instruction = program[place]
                    assert isinstance(instruction, Char), "all others were followed"
                    if instruction.test(character):
                        taken.add(place + 1)
            self._places, self._before = taken, character

    @property
    def is_whole(self) -> bool:
        """Whether the text that was fed is what the pattern means."""
        return len(self._program) in self._followed(None)

    def _followed(self, following: str | None) -> set[int]:
        """The places that take a character, or the end, on the way from those that there are."""
        program, end = self._program, len(self._program)
        found: set[int] = set()
        seen, waiting = set(self._places), list(self._places)
        while waiting:
            place = waiting.pop()
            if place == end or isinstance(instruction := program[place], Char):
                found.add(place)
                continue
            steps: tuple[int, ...]
            if isinstance(instruction, Split):
                steps = instruction.steps
            else:
                steps = (1,) if instruction.holds(self._before, following) else ()
            for step in steps:
                if place + step not in seen:
                    seen.add(place + step)
                    waiting.append(place + step)
        return found


def joined(*programs: Program) -> Program:
    """One after the other. Raises InvalidPattern."""
    _check_size(sum(map(len, programs)))
    return sum(programs, ())


def either(programs: list[Program]) -> Program:
    """Any of them. Raises InvalidPattern."""
    if len(programs) == 1:
        return programs[0]
    end = 1 + sum(len(program) + 1 for program in programs)
    _check_size(end)
    made: list[Instruction] = []
    starts = []
    for program in programs:
        starts.append(1 + len(made))
        made += program
        made.append(Split((end - 1 - len(made),)))
    return (Split(tuple(starts)), *made)


def repeated(program: Program, least: int, most: int | None) -> Program:
    """So many times; `most` is None: without end. Raises InvalidPattern."""
    _check_size((least + 1 if most is None else most) * (len(program) + 2))
    required = program * least
    if most is None:
        back = -len(program) - 1
        return (*required, Split((1, len(program) + 2)), *program, Split((back,)))
    optional: Program = ()
    for _ in range(most - least):
        optional = (Split((1, len(program) + len(optional) + 1)), *program, *optional)
    return (*required, *optional)


def _check_size(instructions: int) -> None:
    if instructions > MAX_INSTRUCTIONS:
        raise InvalidPattern(f"a pattern of more than {MAX_INSTRUCTIONS} instructions")
