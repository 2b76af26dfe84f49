"""From an exception to an exit code and one line."""

import errno
from pathlib import Path

import pytest

from dafka.commands.configuration import ConfigurationError
from dafka.commands.exits import CommandFailed, explain
from gateway.catalog.interface import CatalogFailed
from gateway.common.failures import DiskFailed
from gateway.front.listener_sockets import ListenError
from mesh.data_directory import DataDirectoryRefused


def os_error(code: int) -> OSError:
    return OSError(code, "as the system says it", "/data/x")


def raised(error: Exception) -> Exception:
    """The error with a traceback, as the last place sees it."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


CASES = {
    "usage": (ConfigurationError("--fsync: 'x' is none"), 2, "--fsync: 'x' is none"),
    "command": (CommandFailed("not there"), 2, "not there"),
    "port taken": (ListenError("the port is taken. Choose another"), 2, "the port is taken. Choose another"),
    "data refused": (
        DataDirectoryRefused(Path("/data"), "it is a store", "Take another"),
        3,
        "/data: it is a store. Take another.",
    ),
    "data not writable": (
        DataDirectoryRefused(Path("/data"), "no", "Do", exit_code=2),
        2,
        "/data: no. Do.",
    ),
    "catalog": (CatalogFailed("the disk is full"), 4, "the disk is full"),
    "store": (DiskFailed("fsync: EIO"), 4, "fsync: EIO"),
    "no permission": (
        os_error(errno.EACCES),
        2,
        "/data/x: Permission denied. Check the path and its permissions.",
    ),
    "disk full": (
        os_error(errno.ENOSPC),
        4,
        "/data/x: No space left on device. Free space or replace the disk, then start again.",
    ),
    "several lines": (CommandFailed("first\n   second\n"), 2, "first second"),
    "the worst of a group": (
        ExceptionGroup("", [ValueError("a consequence"), ExceptionGroup("", [DiskFailed("the cause")])]),
        4,
        "the cause",
    ),
    "a refusal beside a bug": (ExceptionGroup("", [KeyError("x"), CommandFailed("told")]), 2, "told"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_meant_for_the_user_is_said_as_it_is(name: str) -> None:
    error, code, text = CASES[name]
    assert explain(raised(error)) == (code, text)


@pytest.mark.parametrize(
    "error", [KeyError("a\nb"), OSError("no number"), OSError(errno.EBADF, "no file"), ValueError()]
)
def test_anything_else_is_a_bug_that_says_where(error: Exception) -> None:
    code, text = explain(raised(error))
    assert code == 1
    assert text.startswith(f"internal error: {type(error).__name__}: ")
    assert "(test_exits.py:" in text
    assert "This is a bug" in text
    assert "\n" not in text


def test_a_bug_that_was_never_raised_has_no_place() -> None:
    assert "(no place known)" in explain(KeyError("x"))[1]
