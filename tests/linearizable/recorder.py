"""Writes down what clients ask and are told, in the order in which it happens."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import trio

from tests.linearizable.search import NEVER, UNKNOWN, Operation

Moment = tuple[float, int]
"""Seconds, and a number that tells what happens in the same one apart."""

LATER: Moment = (math.inf, 0)


@dataclass
class _Row:
    process: Hashable
    invoked: Moment
    returned: Moment
    asked: Any
    answered: Any


class Recorder:
    """Of one history."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._count = 0

    def now(self) -> Moment:
        """This moment: no other one is the same."""
        self._count += 1
        return trio.current_time(), self._count

    def begin(self, process: Hashable, asked: Any, since: Moment | None = None) -> _Row:
        """Something is asked for, or was: without an answer nobody is told what has become of it."""
        row = _Row(process, since or self.now(), LATER, asked, UNKNOWN)
        self._rows.append(row)
        return row

    def end(self, row: _Row, answered: Any) -> Moment:
        """It is answered."""
        row.returned, row.answered = self.now(), answered
        return row.returned

    def forget(self, row: _Row) -> None:
        """It has asked for nothing after all."""
        self._rows.remove(row)

    def operations(self) -> list[Operation]:
        """The history, with times that are numbers."""
        moments = {moment for row in self._rows for moment in (row.invoked, row.returned)}
        places = {moment: float(place) for place, moment in enumerate(sorted(moments))}
        places[LATER] = NEVER
        return [
            Operation(row.process, places[row.invoked], places[row.returned], row.asked, row.answered)
            for row in self._rows
        ]
