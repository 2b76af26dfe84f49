"""Deaths at fail points, in this process: what comes after one does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import pytest


class Killed(BaseException):
    """What a SIGKILL leaves: nothing after it runs. Not an Exception, so that nobody handles it."""


@contextmanager
def dying_at(
    place: str, time: int, modules: Sequence[ModuleType], death: type[BaseException] = Killed
) -> Iterator[None]:
    """While the block runs, these modules die at the fail point, at that time of passing it."""
    passed = 0

    def fail_point(name: str) -> None:
        nonlocal passed
        passed += name == place
        if name == place and passed == time:
            raise death

    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "fail_point", fail_point)
        yield
