"""Run a command with as few rights as a unit of systemd gives it. Root starts it; see `command`.

The root is read-only, /tmp is its own, the directory in STATE_DIRECTORY is the only one that it may change,
and that in CREDENTIALS_DIRECTORY one that it may read. It has another user, no capability and no way to get
any, the unit's filters of system calls, and executes no memory that it wrote. Its process keeps the id that
this one has.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

USER: Final = 61184
"""The first of those that DynamicUser=yes gives."""

NEW_MOUNTS: Final = 0x00020000
"""CLONE_NEWNS."""

MS_BIND: Final = 4096
"""Of mount(2)."""

SET_SECCOMP, FILTER = 22, 2
DROP_BOUNDING = 24
NO_NEW_PRIVILEGES = 38
SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
"""Of prctl. PR_SET_MDWE is there from Linux 6.3 on; older kernels run the command without it."""

CAPABILITIES: Final = 64
"""More than there are: what the kernel does not know it refuses."""


WRITABLE: Final = {("dev",), ("proc",), ("sys",), ("tmp",)}
"""What ProtectSystem=strict leaves to other settings, and the new /tmp."""


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def command(filters: Sequence[bytes]) -> list[str]:
    """What to write in front of a command."""
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); from tests.deploy.few_rights import main; main()"
    said = json.dumps([base64.b64encode(one).decode() for one in filters])
    return [sys.executable, "-I", "-c", program, said]


def main() -> None:
    """Become the command: the arguments are the filters, and it."""
    filters = [base64.b64decode(one) for one in json.loads(sys.argv[1])]
    _hide_the_rest(Path(os.environ["STATE_DIRECTORY"]), os.environ.get("CREDENTIALS_DIRECTORY"))
    drop_privileges(USER, USER)
    never_execute_what_was_written()
    for one in filters:
        load(one)
    os.umask(0o077)
    os.execvp(sys.argv[2], sys.argv[2:])


def _hide_the_rest(state: Path, credentials: str | None) -> None:
    if ctypes.CDLL(None).unshare(NEW_MOUNTS) != 0:
        raise SystemExit("no mounts of its own: it has to be root that starts it")
    _mount("--make-rprivate", "/")
    kept = [Path(sys.base_prefix), state, *([Path(credentials)] if credentials else [])]
    held = [os.open(folder, os.O_PATH) for folder in kept]
    _mount("-t", "tmpfs", "-o", "mode=1777", "tmp", "/tmp")
    if not _is_open_to_others(Path(sys.base_prefix)):
        _mount("-t", "tmpfs", "-o", "mode=0755", "home", "/root")
    for folder, descriptor in zip(kept, held, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        _bind(descriptor, folder)
    for mounted in _mounts():
        if mounted != state and mounted.parts[1:2] not in WRITABLE and mounted.is_mount():
            _mount("-o", "remount,bind,ro", mounted)
    if credentials:
        _mount("-o", "remount,bind,ro", credentials)
    os.chown(state, USER, USER)


def _is_open_to_others(folder: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (folder, *folder.parents))


def _mounts() -> set[Path]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {Path(line.split()[4].encode().decode("unicode_escape")) for line in lines}


def _bind(descriptor: int, folder: Path) -> None:
    """What was opened before its way was hidden: mount(8) would look for it by its name."""
    libc = ctypes.CDLL(None, use_errno=True)
    source = f"/proc/self/fd/{descriptor}"
    if libc.mount(source.encode(), str(folder).encode(), None, ctypes.c_ulong(MS_BIND), None) != 0:
        raise SystemExit(f"{folder}: {os.strerror(ctypes.get_errno())}")


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def drop_privileges(user: int, group: int) -> None:
    """Be that user, without capabilities and without a way to get any."""
    for number in range(CAPABILITIES):
        ctypes.CDLL(None).prctl(DROP_BOUNDING, number, 0, 0, 0)
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    _prctl(NO_NEW_PRIVILEGES, 1)


def never_execute_what_was_written() -> None:
    """As MemoryDenyWriteExecute=yes."""
    ctypes.CDLL(None).prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0)


def load(program: bytes) -> None:
    """Have the kernel filter system calls by a program. New privileges are given up before."""
    instructions = ctypes.c_char_p(program)
    _prctl(SET_SECCOMP, FILTER, ctypes.byref(_Program(len(program) // 8, instructions)))


def _prctl(what: int, value: int, pointer: object = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(what, ctypes.c_ulong(value), pointer, 0, 0) != 0:
        raise SystemExit(f"prctl({what}, {value}): {os.strerror(ctypes.get_errno())}")
