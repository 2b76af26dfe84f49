"""Filters of system calls as container runtimes and systemd make them, as programs that the kernel loads.

Made by libseccomp, which is on every machine with systemd. One that cannot be had is a failure, and not a
filter that lets everything pass.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.peers.requirements import require, unavailable

PROFILE: Final = Path("/usr/share/containers/seccomp.json")
"""What containers get unless they are told otherwise (Kubernetes: RuntimeDefault). It comes with buildah."""

ALLOW: Final = 0x7FFF0000
ERRNO: Final = 0x00050000
"""SCMP_ACT_ALLOW and SCMP_ACT_ERRNO of seccomp.h; the latter with the error's number added."""

NOT_EQUAL, EQUAL, MASKED_EQUAL = 1, 4, 7
"""Of enum scmp_compare."""

NAMESPACES: Final = (
    *(0x00020000, 0x02000000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000, 0x00000080),
)
"""CLONE_NEWNS, ..CGROUP, ..UTS, ..IPC, ..USER, ..PID, ..NET, ..TIME of sched.h."""

FAMILIES: Final = 46
"""AF_MAX of Linux 6: addresses have families with numbers below it."""

_COMPARED: Final = {"SCMP_CMP_NE": NOT_EQUAL, "SCMP_CMP_EQ": EQUAL}
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class _Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


Compared: TypeAlias = tuple[int, int, int, int]
"""An argument's number, how, and with what: a value, or a mask and a value."""


class _Filter:
    """One that is being made. Calls that this machine's architecture does not have are passed over."""

    def __init__(self, library: ctypes.CDLL, default: int) -> None:
        self._library, self._default = library, default
        self._context = library.seccomp_init(default)
        assert self._context, "seccomp_init"

    def add(self, name: str, action: int, comparisons: Sequence[Compared] = ()) -> None:
        """A rule for calls of which all of that holds."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0 or action == self._default:
            return
        made = (_Comparison * len(comparisons))(*(_Comparison(*one) for one in comparisons))
        code = self._library.seccomp_rule_add_array(self._context, action, number, len(comparisons), made)
        assert code == 0, (name, os.strerror(-code))

    def program(self) -> bytes:
        with tempfile.TemporaryFile() as file:
            code = self._library.seccomp_export_bpf(self._context, file.fileno())
            assert code == 0, os.strerror(-code)
            file.seek(0)
            return file.read()

    def release(self) -> None:
        self._library.seccomp_release(self._context)


@contextmanager
def _filter(default: int) -> Iterator[_Filter]:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        unavailable("libseccomp is not installed: apt-get install libseccomp2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [
        *(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint),
        ctypes.POINTER(_Comparison),
    ]
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    made = _Filter(library, default)
    try:
        yield made
    finally:
        made.release()


def of_containers() -> bytes:
    """The default profile of container runtimes, for a container without any capability."""
    if not PROFILE.exists():
        unavailable(f"{PROFILE} is not there: apt-get install golang-github-containers-common")
    profile = json.loads(PROFILE.read_text())
    with _filter(ERRNO | int(profile["defaultErrnoRet"])) as made:
        for rule in profile["syscalls"]:
            if _counts(rule):
                compared = [
                    (one["index"], _COMPARED[one["op"]], one["value"], 0) for one in rule["args"] or ()
                ]
                action = ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else ERRNO | int(rule["errnoRet"])
                for name in rule["names"]:
                    made.add(name, action, compared)
        return made.program()


def _counts(rule: dict[str, Any]) -> bool:
    """Whether a rule is for this architecture, and for who has no capability."""
    included, excluded = rule.get("includes") or {}, rule.get("excludes") or {}
    assert included.keys() | excluded.keys() <= {"arches", "caps"}, rule
    here = _ARCHITECTURES[os.uname().machine]
    wanted = not included.get("caps") and here in included.get("arches", [here])
    return wanted and here not in excluded.get("arches", ())


def of_unit(filtered: str, families: str, error: str) -> list[bytes]:
    """What systemd makes of SystemCallFilter, RestrictAddressFamilies, SystemCallErrorNumber, and
    RestrictNamespaces=yes.
    """
    with _filter(ERRNO | getattr(errno, error)) as calls:
        for name in _calls_of(filtered):
            calls.add(name, ALLOW)
        of_calls = calls.program()
    allowed = {int(getattr(socket, name)) for name in families.split()}
    with _filter(ALLOW) as sockets:
        for family in set(range(FAMILIES)) - allowed:
            sockets.add("socket", ERRNO | errno.EAFNOSUPPORT, [(0, EQUAL, family, 0)])
        of_sockets = sockets.program()
    with _filter(ALLOW) as spaces:
        for flag in NAMESPACES:
            for name in ("unshare", "clone"):
                spaces.add(name, ERRNO | errno.EPERM, [(0, MASKED_EQUAL, flag, flag)])
            spaces.add("setns", ERRNO | errno.EPERM, [(1, MASKED_EQUAL, flag, flag)])
        spaces.add("setns", ERRNO | errno.EPERM, [(1, EQUAL, 0, 0)])
        # Its flags are behind a pointer, where no filter can look: glibc goes on with the older call.
        spaces.add("clone3", ERRNO | errno.ENOSYS)
        return [of_calls, of_sockets, spaces.program()]


def _calls_of(group: str) -> set[str]:
    """The names of a group of system calls, with those of the groups that it has."""
    analyze = require("systemd-analyze")
    said = subprocess.run(
        [analyze, "syscall-filter", group], capture_output=True, text=True, check=True
    ).stdout
    found: set[str] = set()
    for line in said.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            found |= _calls_of(name)
        elif name and not name.startswith("#"):
            found.add(name)
    return found
