"""The process whose end ends this one: whoever started it, as a rule.

The kernel can send a signal when a parent dies (`PR_SET_PDEATHSIG`), but it goes by the *thread* that started
the process: a test runner that starts servers from a pool of threads, as Java's do, would lose them while it
runs. So the process itself is watched: on Linux through a descriptor of it, at once; elsewhere by looking for
it every `LOOK_SECONDS`.
"""

import os
from collections.abc import Callable
from typing import Final

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks for a process, where the system tells nobody of its end."""


class Process:
    """A process, by its id."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_there(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # another user's
        return True

    async def watch(self, gone: Callable[[], object]) -> None:
        """Calls `gone` once the process has ended, then returns."""
        import trio  # takes longer than all else that the command line needs

        descriptor = self._open()
        try:
            while self.is_there():
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
        """A descriptor that becomes readable when the process ends; None where there is none such."""
        try:
            return os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            return (
                None  # not Linux, a kernel before 5.3, a sandbox; or it is gone already, which `watch` sees
            )


class Parent(Process):
    """The process that started this one: to be made early, before it may have gone unnoticed."""

    def __init__(self) -> None:
        super().__init__(os.getppid())

    def is_there(self) -> bool:
        """Whoever is left behind gets another parent."""
        return os.getppid() == self.pid


STARTED_BY: Final = Parent()
"""The parent of this process, noted when this module is imported: at the very start of a command."""
