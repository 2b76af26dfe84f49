"""The members: a process each, of a client's program that says all it does.

A program is called with BOOTSTRAP TOPIC GROUP NAME PROTOCOLS SESSION_MS REBALANCE_MS INSTANCE (empty:
none). It reads as a member, commits every 0.3 s what it has read, and before partitions are taken from
it. SIGTERM has it commit and leave. It prints one JSON object a line, before it does the next thing:

    {"event": "assigned", "generation": 3, "member": "...", "partitions": [0, 1]}  all it owns from now on
    {"event": "revoked", "partitions": [0]}                                        or "lost"
    {"event": "consumed", "generation": 3, "partition": 0, "offset": 7, "value": "..."}
    {"event": "committing", "number": 1, "generation": 3, "member": "...", "offsets": [[0, 8]]}
    {"event": "committed", "number": 1}                                            or "refused" with "error"
    {"event": "failed", "error": "..."}                                            something went wrong
    {"event": "left", "generation": 3}                                             the last one

The metadata of a commit is NAME/GENERATION/NUMBER, so that the log tells who committed what.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.folders import ClientFolder, client_folders

from mixed_groups.events import (
    Assigned,
    Committed,
    Committing,
    Consumed,
    Event,
    Events,
    Failed,
    Refused,
    Revoked,
)

LEAVE_SECONDS = 40.0
"""Until a member that was told to leave is killed: its commit waits ten seconds when the server is away."""


@dataclass(frozen=True)
class Program:
    """A client's program, and what it needs."""

    client: ClientFolder
    home: Path

    @property
    def command(self) -> list[str]:
        home = str(self.home)
        match self.client.name.split("_")[0]:
            case "franz":
                return [f"{home}/client", "mixed-member"]
            case "java":
                jvm = ["java", "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
                quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
                return [*jvm, quiet, "-cp", f"{home}/classes:{home}/jars/*", "MixedMember"]
        if self.client.name == "python_confluent":
            return [f"{home}/bin/python", "-m", "python_confluent.mixed_member"]
        return [f"{home}/bin/python", "-m", "python_client.mixed_kafka_python"]

    @property
    def environment(self) -> Mapping[str, str]:
        return self.client.environment(self.home)


def programs(names: list[str]) -> dict[str, Program]:
    """By the folders' names; what is missing is brought first."""
    return {one.name: Program(one, one.bring()) for one in client_folders(names)}


@dataclass(frozen=True)
class Membership:
    """What all members of a group have in common."""

    bootstrap: str
    topic: str
    group: str
    session_ms: int
    rebalance_ms: int


class MemberProcess:
    """One member; what it says goes into the events."""

    def __init__(
        self,
        program: Program,
        name: str,
        membership: Membership,
        protocols: tuple[str, ...],
        events: Events,
        directory: Path,
        instance: str = "",
    ) -> None:
        self.name = name
        self.stopped = False
        self._events = events
        of = membership
        arguments = [
            of.bootstrap, of.topic, of.group, name, ",".join(protocols),
            str(of.session_ms), str(of.rebalance_ms), instance,
        ]  # fmt: skip
        with (directory / f"{name}.err").open("wb") as errors:
            self._process = subprocess.Popen(
                [*program.command, *arguments],
                env=dict(program.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name=f"member {name}", daemon=True)
        self._reader.start()

    @property
    def runs(self) -> bool:
        """Stopped ones do, too."""
        return self._process.poll() is None

    def stop(self) -> None:
        """SIGSTOP: it says and hears nothing, its connections stay open."""
        self.stopped = True
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        self.stopped = False
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: the group is told nothing."""
        self._process.kill()
        self._end()

    def ask_to_leave(self) -> None:
        """SIGTERM; `join` waits for it."""
        self._process.terminate()

    def join(self) -> int:
        """The exit status; it is killed when it does not end in time."""
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._events.add(Failed(self.name, f"did not leave within {LEAVE_SECONDS:g} s"))
            self._process.kill()
        return self._end()

    def _end(self) -> int:
        status = self._process.wait()
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                event = said(self.name, line)
                if event is not None:
                    self._events.add(event)


def said(process: str, line: str) -> Event | None:
    """The event that a line tells; None for one that is cut short by a SIGKILL, and for "left"."""
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError:
        return None if not line.endswith("\n") else Failed(process, f"says {line!r}")
    match fields.pop("event"):
        case "assigned":
            return Assigned(
                process, fields["generation"], fields["member"], tuple(sorted(fields["partitions"]))
            )
        case "revoked" | "lost" as kind:
            return Revoked(process, tuple(sorted(fields["partitions"])), kind == "lost")
        case "consumed":
            return Consumed(process, **fields)
        case "committing":
            offsets = tuple((partition, offset) for partition, offset in fields.pop("offsets"))
            return Committing(process, offsets=offsets, **fields)
        case "committed":
            return Committed(process, fields["number"])
        case "refused":
            return Refused(process, **fields)
        case "failed":
            return Failed(process, fields["error"])
    return None
