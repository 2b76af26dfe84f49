"""One run: a server, a group of it whose members come and go, a producer, an observer, and the end of it."""

from __future__ import annotations

import heapq
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mixed_groups.events import SERVER, Assigned, Done, End, Events, Failed
from mixed_groups.members import MemberProcess, Membership, Program
from mixed_groups.observer import Observer, committed_offsets
from mixed_groups.plan import Action, Plan
from tests.clients.stored import create_topic
from tests.differential.wire import Connection
from tests.faults.history import History, Seen
from tests.faults.workloads import Load, read_all
from tests.peers.standalone import Standalone

TOPIC, GROUP = "mixed", "mixed-group"
PARTITIONS = 12
SESSION_MS = 5000
REBALANCE_MS = 15_000
QUICK_GROUPS = (
    "--group-min-session-timeout-ms", str(SESSION_MS),
    # By default an empty group waits as long as new members come, up to their rebalance timeout.
    "--group-initial-rebalance-delay-ms", "300",
)  # fmt: skip
WITHOUT_STATIC_MEMBERS = {"python_kafka_2"}
VALUE_BYTES = 60
PAUSE_SECONDS = 0.015
"""Between two records: each costs its consumer a line."""

TICK_SECONDS = 0.02
END_SECONDS = 180.0
"""From the last fault until everything is consumed and committed."""


@dataclass(frozen=True)
class Settings:
    """What a run is like."""

    seconds: float
    kills: int
    seed: int
    protocols: tuple[str, ...]
    static: bool = False
    """Whoever can be is a static member; one that runs may be replaced by another process."""
    bug: str | None = None
    """Planted into the server: see `mixed_groups.bugs`."""


class Run:
    """Members are named by their client and a number."""

    def __init__(self, programs: dict[str, Program], settings: Settings, directory: Path) -> None:
        self.events, self.history = Events(), History()
        self.done: Counter[str] = Counter()
        self.acked = 0
        self.away: list[float] = []
        """How many seconds the server was away after each kill."""
        self._programs, self._settings, self._directory = programs, settings, directory
        self._plan = Plan(settings.seed, list(programs), SESSION_MS / 1000)
        self._members: dict[str, MemberProcess] = {}
        self._leaving: list[MemberProcess] = []
        self._stopped: list[tuple[float, str]] = []
        """When who goes on, the earliest first."""
        self._numbers = 0
        self._membership = Membership("", TOPIC, GROUP, SESSION_MS, REBALANCE_MS)

    def run(self) -> None:
        """Faults, then peace until all is consumed and committed, then the end. Raises AssertionError."""
        with self._server() as server:
            create_topic(server.bootstrap, TOPIC, PARTITIONS)
            self._membership = Membership(server.bootstrap, TOPIC, GROUP, SESSION_MS, REBALANCE_MS)
            load = Load(
                server.bootstrap, TOPIC, self.history, partitions=PARTITIONS, sizes=(VALUE_BYTES,),
                pause=PAUSE_SECONDS, seed=self._settings.seed,
            )  # fmt: skip
            observer = Observer(self._membership, PARTITIONS, self.events)
            try:
                self._faults(server)
                self._peace()
                load.stop()
                self.acked = load.acked
                self._end(server, observer)
            finally:
                observer.stop()
                self._read_errors(server)
                for member in [*self._members.values(), *self._leaving]:
                    member.kill()

    def _server(self) -> Standalone:
        directory, bug = self._directory / "server", self._settings.bug
        if bug is None:
            return Standalone(None, *QUICK_GROUPS, directory=directory)
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        program = (sys.executable, "-m", "mixed_groups.bugs", bug)
        return Standalone(None, *QUICK_GROUPS, directory=directory, program=program, environment=path)

    # faults -------------------------------------------------------------------------------------------------

    def _faults(self, server: Standalone) -> None:
        began = time.monotonic()
        kills = self._plan.kills(self._settings.seconds, self._settings.kills)
        due = 0.0
        while (passed := time.monotonic() - began) < self._settings.seconds:
            self._wake(time.monotonic())
            self._collect()
            if kills and passed >= kills[0]:
                kills.pop(0)
                self._note("the server is killed")
                assert server.returncode is None, server.tail()
                server.kill9()
                server.start()
                self.away.append(time.monotonic() - began - passed)
                self._note("the server serves again")
                self.done["SIGKILLs of the server"] += 1
            elif passed >= due:
                action = self._plan.next({name: one.stopped for name, one in self._members.items()})
                self._do(action)
                due = passed + action.pause
            time.sleep(TICK_SECONDS)

    def _do(self, action: Action) -> None:
        if action.what == "wait":
            return
        self._note(f"{action.what} {action.whom}")
        self.done[action.what] += 1
        if action.what == "start":
            self._start(action.whom)
            return
        member = self._members[action.whom]
        if action.what == "stop":
            member.stop()
            heapq.heappush(self._stopped, (time.monotonic() + action.seconds, member.name))
            return
        del self._members[action.whom]
        if action.what == "kill":
            member.kill()
        else:
            member.ask_to_leave()
            self._leaving.append(member)

    def _start(self, client: str) -> None:
        self._numbers += 1
        name = f"{client}-{self._numbers}"
        protocols = self._plan.protocols(self._settings.protocols)
        static = self._settings.static and client not in WITHOUT_STATIC_MEMBERS
        instance = self._plan.instance(client) if static else ""
        self._members[name] = MemberProcess(
            self._programs[client], name, self._membership, protocols, self.events, self._directory, instance
        )

    def _wake(self, now: float) -> None:
        while self._stopped and self._stopped[0][0] <= now:
            _, name = heapq.heappop(self._stopped)
            if name in self._members:
                self._note(f"go on {name}")
                self._members[name].go_on()

    def _collect(self) -> None:
        """Those that have ended: asked to, or by themselves."""
        for member in [one for one in self._leaving if not one.runs]:
            self._leaving.remove(member)
            self._note(f"{member.name} has left with {member.join()}")
        for member in [one for one in self._members.values() if not one.runs]:
            del self._members[member.name]
            self.done["ended by itself"] += 1
            self._note(f"{member.name} ended by itself with {member.join()}")

    def _note(self, what: str) -> None:
        self.events.add(Done(what))

    def _read_errors(self, server: Standalone) -> None:
        for log in sorted(server.directory.glob("stderr-*.log")):
            for line in log.read_text(errors="replace").splitlines():
                if " ERROR " in line or line.startswith("Traceback"):
                    self.events.add(Failed(SERVER, line))

    # the end ------------------------------------------------------------------------------------------------

    def _peace(self) -> None:
        """Whoever was stopped goes on, and there is one member of each client."""
        self._wake(float("inf"))
        for member in self._leaving:
            member.join()
        self._leaving.clear()
        self._note("peace")
        clients = {name.rpartition("-")[0] for name in self._members}
        for client in self._programs.keys() - clients:
            self._start(client)

    def _end(self, server: Standalone, observer: Observer) -> None:
        read_all(server.bootstrap, TOPIC, self.history, PARTITIONS)
        ends = _ends(self.history)
        self.events.add(*(End(partition, offset) for partition, offset in ends.items()))
        self._until(lambda: self._committed(server) == ends, "all is committed")
        self._until(lambda: not self._idle_clients(), "every client has taken part")
        for member in self._members.values():
            member.ask_to_leave()
        for member in self._members.values():
            self._note(f"{member.name} has left with {member.join()}")
        self._members.clear()
        assert not self._idle_clients(), f"{self._idle_clients()} were never assigned anything"
        end = observer.end_of_log()
        self._until(lambda: observer.position >= end, "the log is read to its end")

    def _idle_clients(self) -> set[str]:
        owners = {one.process.rpartition("-")[0] for one in self.events if isinstance(one, Assigned)}
        return self._programs.keys() - owners

    def _committed(self, server: Standalone) -> dict[int, int]:
        with Connection(server.bootstrap) as connection:
            return committed_offsets(connection, self._membership, PARTITIONS)

    def _until(self, true: Callable[[], bool], what: str) -> None:
        """Not in time: the checker tells what is missing."""
        deadline = time.monotonic() + END_SECONDS
        while not true() and time.monotonic() < deadline:
            time.sleep(0.2)
        self._note(f"{what}: {true()}")


def _ends(history: History) -> dict[int, int]:
    ends: dict[int, int] = {}
    for one in history:
        if isinstance(one, Seen):
            ends[one.partition] = max(ends.get(one.partition, 0), one.offset + 1)
    return ends
