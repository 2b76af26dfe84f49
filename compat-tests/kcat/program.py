"""kcat as a command."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import confluent_kafka.admin

SECONDS = 60.0
library: Any = confluent_kafka.admin


class NotInKcat(Exception):
    """kcat cannot do this."""


class Kcat:
    """Runs kcat against one server."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._path = str(Path(os.environ["COMPAT_HOME"]) / "kcat")

    def run(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin, stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{arguments} ended with {done.returncode}: {done.stderr}"
        return done

    def produce(self, topic: str, records: Iterable[str], *more: str) -> None:
        """KEY:VALUE each, to partition 0 where nothing else is said."""
        place = () if "-p" in more else ("-p", "0")
        stdin = "".join(f"{record}\n" for record in records)
        self.run("-P", "-t", topic, "-K:", *place, *more, stdin=stdin)

    def read(self, topic: str, *more: str, form: str = "%k:%s\n") -> list[str]:
        """All lines of partition 0, from its beginning where nothing else is said."""
        start = () if "-o" in more else ("-o", "beginning")
        return self.run(
            "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", form, *start, *more
        ).stdout.splitlines()

    def member(self, group: str, topic: str, *more: str) -> list[str]:
        """What a member of a group reads until it ends by itself."""
        command = ("-G", group, *SESSION, "-q", "-f", "%k:%s\n", *more, topic)
        return self.run(*command).stdout.splitlines()

    def make_topic(self, topic: str, partitions: int) -> None:
        admin = library.AdminClient({"bootstrap.servers": self.bootstrap})
        (made,) = admin.create_topics([library.NewTopic(topic, num_partitions=partitions)]).values()
        made.result(SECONDS)

    def command(self, *arguments: str) -> list[str]:
        """The whole command line."""
        return [self._path, "-b", self.bootstrap, *arguments]


SESSION = ("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500")
