"""Failures that end the process, whoever meets them first."""

from __future__ import annotations

from typing import ClassVar


class ProcessEnds(Exception):
    """This process must acknowledge nothing any more, and ends with `exit_code`.

    The message says why and what to do. It passes through every connection and task.
    """

    exit_code: ClassVar[int]


class DiskFailed(ProcessEnds):
    """A disk did not keep what it was given (exit code 4). The message says which disk, and what failed."""

    exit_code = 4


def ends_process(error: BaseException) -> bool:
    """Whether this is ProcessEnds, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(ProcessEnds) is not None
    return isinstance(error, ProcessEnds)
