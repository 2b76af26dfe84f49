"""From an exception to an exit code and one line for the user.

::

    0  done                     3  the data is not to be used as it lies there
    1  a bug of ours            4  a disk failed
    2  usage or environment

An exception that is meant for the user has an `exit_code` and a message that ends with what to do next.
Anything else is a bug: its message says where it happened and how to report it.
"""

import errno
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EXIT_OK: Final = 0
EXIT_BUG: Final = 1
EXIT_USAGE: Final = 2
EXIT_DATA_REFUSED: Final = 3
EXIT_DISK_FAILED: Final = 4

EXIT_INTERRUPTED: Final = 130
"""Ctrl-C in a command that only asks: 128 + SIGINT, as shells count."""

_DISK_ERRORS: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})


class CommandFailed(Exception):
    """A command cannot do what it was asked; the message says why and what to do."""

    exit_code = EXIT_USAGE


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the line, without an end of line in it.

    Of several failures at once the one with the highest code is told: a failed disk explains what else broke.
    """
    code, text = max((_explain_one(each) for each in _leaves(error)), key=lambda explained: explained[0])
    return code, " ".join(text.split())


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _explain_one(error: BaseException) -> tuple[int, str]:
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code, str(error)
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        reason = f"{error.filename}: {os.strerror(error.errno)}"
        if error.errno in _DISK_ERRORS:
            return EXIT_DISK_FAILED, f"{reason}. Free space or replace the disk, then start again."
        return EXIT_USAGE, f"{reason}. Check the path and its permissions."
    return EXIT_BUG, (
        f"internal error: {type(error).__name__}: {error} ({_place(error)}). "
        "This is a bug: please report it with the output of the same command with --log-level debug."
    )


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "no place known"
