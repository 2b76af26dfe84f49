"""Become the first process of a container: this file is run, alone, in namespaces of its own.

Its argument is the container as JSON (see `Container`). The root is read-only; only the volume and /tmp can
be written to. What runs there has the user, the environment and the command of the image, and no privileges.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

NO_NEW_PRIVILEGES = 38
"""prctl's PR_SET_NO_NEW_PRIVS."""

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
    mount("-o", "remount,bind,ro", root / "dev")
    mount("-o", "remount,bind,ro", root)

    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setgid(container["group"])
    os.setuid(container["user"])
    if ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise SystemExit("no_new_privs cannot be set")
    environment, command = container["environment"], container["command"]
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        raise SystemExit(f"{command[0]} is not in the image")
    os.umask(0o022)
    os.execve(program, command, environment)


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
