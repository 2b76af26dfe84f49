"""`python -m tests.bench.wire.heartbeats BOOTSTRAP TOPIC GROUPS MEMBERS`: groups whose members heartbeat.

Every member on a connection of its own, every three seconds as Kafka's consumers do by default, evenly
spread. Standard output: `formed` once all groups are. Standard input: `on` and `off`; `off` is answered with
the heartbeats answered since `on` and the seconds of processor time spent on them. Every heartbeat has to be
answered in time and without an error, else the program ends with why.
"""

import contextlib
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from tests.bench.wire.connection import Connection
from tests.bench.wire.groups import Group, Member, await_coordinator, error_of, form
from wireproto.kafka.errors import ErrorCode

HEARTBEAT_SECONDS = 3.0
# Groups that form at the same time: their first rebalances are over before others come.
FORMED_AT_ONCE = 250


class HeartbeatLate(AssertionError):
    """The answer to a member's heartbeat has not come when the next one is due."""


class Beating:
    """Members that heartbeat."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._lanes = [(member.connection, member.heartbeat()) for member in members]
        self._waiting: dict[int, Connection] = {}
        self._poll = select.epoll()
        for connection, _ in self._lanes:
            self._poll.register(connection.socket.fileno(), select.EPOLLIN)
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        self.answered = 0

    def run(self) -> None:
        """Heartbeat until there is a line to read."""
        gap = HEARTBEAT_SECONDS / len(self._lanes)
        began, sent = time.monotonic(), 0
        while True:
            while began + sent * gap <= time.monotonic():
                self._send(*self._lanes[sent % len(self._lanes)])
                sent += 1
            left = max(0.0, began + sent * gap - time.monotonic())
            for file, _ in self._poll.poll(left):
                if file == sys.stdin.fileno():
                    self._finish()
                    return
                self._receive(file)

    def _send(self, connection: Connection, heartbeat: bytes) -> None:
        file = connection.socket.fileno()
        if file in self._waiting:
            raise HeartbeatLate(f"a heartbeat was not answered within {HEARTBEAT_SECONDS:.0f} s")
        self._waiting[file] = connection
        connection.send(heartbeat)

    def _receive(self, file: int) -> None:
        error = error_of(self._waiting.pop(file).receive())
        if error is not ErrorCode.NONE:
            raise AssertionError(f"a heartbeat was answered with {error.name}")
        self.answered += 1

    def _finish(self) -> None:
        for file in list(self._waiting):
            self._receive(file)


def formed(bootstrap: str, topic: str, groups: int, members: int, prefix: str = "beside") -> list[Group]:
    """So many groups of so many members each, every member with a connection."""
    await_coordinator(bootstrap, f"{prefix}-0")
    made: list[Group] = []
    while len(made) < groups:
        names = [f"{prefix}-{number}" for number in range(len(made), min(groups, len(made) + FORMED_AT_ONCE))]
        some = [
            Group(name, topic, [Member(Connection(bootstrap), name, topic) for _ in range(members)])
            for name in names
        ]
        form(some)
        made += some
    return made


def main() -> None:
    bootstrap, topic, groups, members = sys.argv[1:]
    made = formed(bootstrap, topic, int(groups), int(members))
    beating = Beating([member for group in made for member in group.members])
    print("formed", flush=True)
    while sys.stdin.readline():  # "on", or the end
        used, before = time.process_time(), beating.answered
        beating.run()
        if not sys.stdin.readline():  # "off"
            return
        print(beating.answered - before, time.process_time() - used, flush=True)


class Heartbeats:
    """That program, as a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """While the block runs the members heartbeat. Raises AssertionError if it had no effect."""
        self._say("on")
        yield
        self._say("off")
        answered, _ = self.heard().split()
        if not int(answered):
            raise AssertionError("not one heartbeat was answered")

    def heard(self) -> str:
        """The next line. Raises AssertionError: it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the heartbeating members ended with {self._process.wait()}")
        return line.strip()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def heartbeating(bootstrap: str, topic: str, groups: int, members: int) -> Iterator[Heartbeats]:
    """Groups that are formed when the block begins, and heartbeat when they are told to."""
    command = [sys.executable, "-m", "tests.bench.wire.heartbeats", bootstrap, topic]
    process = subprocess.Popen(
        [*command, str(groups), str(members)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        found = Heartbeats(process)
        assert found.heard() == "formed"
        yield found
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
