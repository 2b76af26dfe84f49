"""Become the first process of a container, in namespaces of its own.

Its argument is the container as JSON (see `Container`). The root is read-only; only the volume and /tmp can
be written to. What runs there has the user, the environment and the command of the image, no privileges, and
runtimes' filter of system calls.
"""

import base64
import ctypes
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.deploy.few_rights import drop_privileges, load

SIGNAL_OF_PARENTS_DEATH = 1
"""prctl's PR_SET_PDEATHSIG."""

DEVICES = ("null", "zero", "full", "random", "urandom")


def main(text: str) -> None:
    container = json.loads(text)
    root = Path(container["root"])
    mount("--make-rprivate", "/")
    mount("--bind", root, root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", "mode=0755", "dev", root / "dev")
    for name in DEVICES:
        (root / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", root / "dev" / name)
    mount("-t", "tmpfs", "-o", "mode=1777", "tmp", root / "tmp")
    for inside, outside in container["mounts"].items():
        mount("--bind", outside, f"{root}{inside}")
    for inside, outside in container["read_only_mounts"].items():
        place = Path(f"{root}{inside}")
        place.mkdir(exist_ok=True)  # as a container runtime makes it
        mount("--bind", outside, place)
        mount("-o", "remount,bind,ro", place)
    mount("-o", "remount,bind,ro", root / "dev")
    mount("-o", "remount,bind,ro", root)

    os.chroot(root)
    os.chdir("/")
    drop_privileges(container["user"], container["group"])
    # Another user has not what was asked for before.
    ctypes.CDLL(None).prctl(SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)
    environment, command = container["environment"], container["command"]
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        raise SystemExit(f"{command[0]} is not in the image")
    os.umask(0o022)
    load(base64.b64decode(container["filter"]))
    os.execve(program, command, environment)


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)
