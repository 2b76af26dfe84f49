"""The image of the Dockerfile, built for real by buildah on a base of Debian's packages.

The image that the Dockerfile names, python:3.11-slim, cannot be had everywhere; a base that debootstrap makes
stands in for it: Debian 12 with its Python, without any bytecode, as that image is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.requirements import require

ROOT = Path(__file__).parents[2]

BASE, IMAGE = "localhost/base", "localhost/dafka-gateway"

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""What this machine trusts: a registry behind a proxy may need it, and the base does not have it."""

LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")
"""What images of Debian leave out, too."""


@dataclass(frozen=True)
class Image:
    """What is said of an image, and `root`, its files; nobody writes there."""

    root: Path
    config: Mapping[str, Any]
    """Docker's: User, Env, Entrypoint, Cmd, Healthcheck, Labels, Volumes, StopSignal."""
    base_bytes: int
    bytes: int

    @property
    def environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["Env"])

    @property
    def user(self) -> tuple[int, int]:
        """Numbers of user and group."""
        user, _, group = self.config["User"].partition(":")
        return int(user), int(group)


class Builder:
    """Buildah with storage of its own in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._buildah = require("buildah")
        self._storage = ["--root", str(directory / "storage"), "--runroot", str(directory / "run")]

    def run(self, *arguments: str) -> str:
        """Its output. Raises AssertionError with the end of what it said."""
        done = subprocess.run(
            [self._buildah, *self._storage, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"buildah {arguments[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()

    def make_base(self) -> None:
        """An image of Debian's packages alone."""
        files = self._directory / "base"
        done = subprocess.run(
            [require("debootstrap"), "--variant=minbase", "--include=python3-venv", SUITE, files, MIRROR],
            capture_output=True,
            text=True,
            check=False,
            # It is a throw-away: nothing has to be forced to the disk.
            env={**os.environ, "DPKG_FORCE": "unsafe-io"},
        )
        assert done.returncode == 0, f"debootstrap: {done.stdout[-3000:]}{done.stderr[-1000:]}"
        for folder in [*(files / name for name in LEFT_OUT), *files.rglob("__pycache__")]:
            shutil.rmtree(folder, ignore_errors=True)
        container = self.run("from", "scratch")
        self.run("copy", "--quiet", container, str(files), "/")
        self.run("commit", "--quiet", "--rm", container, BASE)
        shutil.rmtree(files)

    def build(self) -> None:
        """What the Dockerfile says, on that base."""
        settings = self._directory / "pip.conf"
        index = os.environ.get("PIP_INDEX_URL")
        lines = ["[global]", f"cert = {CERTIFICATES}", *([f"index-url = {index}"] if index else [])]
        settings.write_text("\n".join(lines) + "\n")
        mounts = [f"{settings}:/etc/pip.conf:ro", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        revision = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        self.run(
            "build",
            *("--isolation", "chroot", "--format", "docker", "--tag", IMAGE),
            *(f"--volume={mount}" for mount in mounts),
            *("--build-arg", f"BASE={BASE}", "--build-arg", f"REVISION={revision.stdout.strip()}"),
            str(ROOT),
        )

    def bytes(self, name: str) -> int:
        """The size of all its layers, unpacked."""
        (image,) = json.loads(self.run("images", "--json", name))
        amount, unit = image["size"].split()
        return int(float(amount) * {"KB": 1000, "MB": 1000**2, "GB": 1000**3}[unit])

    def config(self, name: str) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(self.run("inspect", "--type", "image", name))["Docker"]["config"]
        return made


@contextmanager
def built_image(directory: Path) -> Iterator[Image]:
    """The image, built and unpacked. Needs root, buildah, debootstrap and Debian's packages."""
    builder = Builder(directory)
    try:
        builder.make_base()
        builder.build()
        container = builder.run("from", IMAGE)
        root = Path(builder.run("mount", container))
        yield Image(root, builder.config(IMAGE), builder.bytes(BASE), builder.bytes(IMAGE))
    finally:
        # The storage is made of mounts and of files of other users: only buildah takes it away whole.
        builder.run("rm", "--all")
        builder.run("rmi", "--all", "--force")
