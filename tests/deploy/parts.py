"""What an arrangement is made of: processes, where each is reached, and how one hears that it is ready.

`compose.py` and `manifests.py` read such parts out of the files in deploy/; `arrangement.py` starts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """How readiness is asked for: a command in the container, or a page of its own address."""

    command: tuple[str, ...] = ()
    port: int = 0
    path: str = ""


@dataclass(frozen=True)
class Part:
    """One process, of `dafka` unless it has a `program` of its own."""

    name: str
    command: tuple[str, ...]
    """What follows the program."""
    environment: Mapping[str, str]
    volumes: Mapping[str, str]
    """Path in the container -> the volume's name."""
    names: tuple[str, ...]
    """Host names by which others reach it."""
    grace_seconds: float
    ready: Check
    live: Check | None = None
    program: str = ""
    first: tuple[tuple[str, ...], ...] = ()
    """Commands of `dafka` that run to their end before each start, with the same volumes and variables."""
    role: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self.program or self.command[0])
