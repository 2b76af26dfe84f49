"""What happens how often in one turn of the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import trio

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Turns(trio.abc.Instrument):
    """Counts the turns of the run that makes it, and the calls of what it `watches` by turn."""

    def __init__(self) -> None:
        self.count = 0
        self.calls: Counter[int] = Counter()
        trio.lowlevel.add_instrument(self)

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - as trio calls it
        self.count += 1

    def watches(self, call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """The same, counted."""

        def counted(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            self.calls[self.count] += 1
            return call(*arguments, **named)

        return counted
