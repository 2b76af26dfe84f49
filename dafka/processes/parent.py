"""Whoever started this process, and what is to happen when they are gone.

The kernel can send a signal when a parent dies (`PR_SET_PDEATHSIG`), but it goes by the *thread* that started
the process: a test runner that starts servers from a pool of threads, as Java's do, would lose them while it
runs. So the parent process itself is watched: on Linux through a descriptor of it, at once; elsewhere by
asking for the parent's id, every `LOOK_SECONDS`.
"""

import os
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks for the parent, where the system tells nobody of its end."""


class Parent:
    """The process that started this one: to be made early, before it may have gone unnoticed."""

    def __init__(self) -> None:
        self.pid = os.getppid()

    async def watch(self, gone: Callable[[], object]) -> None:
        """Calls `gone` once the parent has ended, then returns."""
        import trio  # takes longer than all else that the command line needs

        descriptor = self._open()
        try:
            while os.getppid() == self.pid:
                if descriptor is None:
                    await trio.sleep(LOOK_SECONDS)
                else:
                    await trio.lowlevel.wait_readable(descriptor)
                    break
        finally:
            if descriptor is not None:
                os.close(descriptor)
        gone()

    def _open(self) -> int | None:
        """A descriptor that becomes readable when the parent ends; None where there is none such."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return (
                None  # not Linux, a kernel before 5.3, a sandbox; or it is gone already, which `watch` sees
            )


STARTED_BY: Final = Parent()
"""The parent of this process, noted when this module is imported: at the very start of a command."""
