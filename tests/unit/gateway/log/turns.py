"""What happens how often in one turn of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import trio

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Turns(trio.abc.Instrument):
    """Counts the calls of what it `watches`, by turn, in the run that it is added to."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self._turn = 0
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - as trio calls it
        self._turn += 1

    def watches(self, call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """The same, counted."""

        def counted(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            self.calls[self._turn] += 1
            return call(*arguments, **named)

        return counted
