"""Failures that end the process, whoever meets them first."""

from __future__ import annotations


class DiskFailed(Exception):
    """A disk did not keep what it was given (exit code 4). Nothing may be acknowledged after it.

    The message says which disk, what failed and what to do. It passes through every connection and task.
    """

    exit_code = 4


def is_disk_failure(error: BaseException) -> bool:
    """Whether this is DiskFailed, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(DiskFailed) is not None
    return isinstance(error, DiskFailed)
