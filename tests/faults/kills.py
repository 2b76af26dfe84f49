"""Random SIGKILLs of gateway, stores and tower with produces in flight: `make kills N=1000 SEED=s`.

Each round has a mesh of its own and a seed of its own, which is printed: `--seed` of a round with its number
of kills does the same kills again (when exactly they meet the load is up to the machine).
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.clients.stored import create_replicated_topic
from tests.faults.checker import Problem, check, members_differ
from tests.faults.committing import CommitLoad
from tests.faults.disks import alter_records
from tests.faults.history import Event, History
from tests.faults.keyed import KeyedLoad
from tests.faults.mesh_scene import PARTITIONS, TOPIC
from tests.faults.older import OlderCopies
from tests.faults.scrubbing import scrub_often, until_scrubbed
from tests.faults.workloads import Load, WatermarkWatch, read_all
from tests.peers.mesh import GatewayProcess, MeshCluster, StoreProcess
from tests.peers.tower import TowerProcess

KILLS_OF_A_ROUND = 50
SIZES = (100, 1000, 6000)
PAUSE_SECONDS = 0.002
"""Between two records: how much is in flight matters, not how much there is in the end."""
WATCH_SECONDS = 0.05
"""Between two looks at the high watermarks: often enough for a life of a gateway, and no load."""
KEYED_PAUSE_SECONDS = 0.01
COMMIT_PAUSE_SECONDS = 0.1
WAIT_SECONDS = 120.0
OFTEN_CLEANED = ("--compaction-backoff-ms", "500", "--delete-delay-ms", "0")

# How often which kind is killed, and whether what was killed is awaited before the next.
VICTIMS = ("gateway",) * 4 + ("store",) * 5 + ("tower",)
AWAITED = 0.7
DAMAGED = 0.2
"""How often a store that was killed is damaged before it starts again, until one was."""

SET_BACK = 0.3
"""How often what was killed is copied, or comes up on the copy that was made before."""

KINDS = ("lost", "duplicate", "wrong content", "members differ")
"""Problems that are told by name; all others are told as well."""


class Round:
    """One mesh and so many kills."""

    def __init__(self, directory: Path, seed: int, count: int) -> None:
        self.history = History()
        self.killed: Counter[str] = Counter()
        self.acked = self.compactions = 0
        self.altered = 0
        """Records of which a byte was changed on a store's disk."""
        self.older = OlderCopies(directory)
        self._directory, self._count = directory, count
        self._damaged: int | None = None
        """The store of which it was: of one alone, so that two good copies are left."""
        self._seed = seed
        self._random = random.Random(seed)

    @property
    def said(self) -> str:
        """See `Kills`."""
        return (
            f"{self.compactions} compactions, {self.altered} altered records, "
            f"{self.older.put_back} older copies, "
        )

    def run(self) -> list[Problem]:
        """Kills, heals, and judges."""
        mesh = MeshCluster(self._directory, gateway_arguments=OFTEN_CLEANED)
        ports = scrub_often(mesh)
        with mesh:
            create_replicated_topic(mesh.bootstrap, TOPIC, PARTITIONS, len(mesh.stores))
            load = Load(
                mesh.bootstrap, TOPIC, self.history, partitions=PARTITIONS, sizes=SIZES, pause=PAUSE_SECONDS
            )
            watch = WatermarkWatch(mesh.bootstrap, TOPIC, self.history, PARTITIONS, WATCH_SECONDS)
            keyed = KeyedLoad(mesh.bootstrap, len(mesh.stores), pause=KEYED_PAUSE_SECONDS, seed=self._seed)
            commits = CommitLoad(mesh.bootstrap, TOPIC, PARTITIONS, pause=COMMIT_PAUSE_SECONDS)
            load.wait_for_acks(100, WAIT_SECONDS)
            for _ in range(self._count):
                self._kill(mesh, load)
            load.wait_for_acks(100, WAIT_SECONDS)
            load.stop()
            keyed.stop()
            commits.stop()
            watch.stop()
            self.acked = load.acked
            read_all(mesh.bootstrap, TOPIC, self.history, PARTITIONS)
            problems = self.older.problems + check(self.history) + keyed.check() + commits.check()
            self.compactions = mesh.gateway.log.count("was compacted up to")
            mesh.gateway.kill9()
            mesh.gateway.start()
            mesh.wait_until_all_have_all(WAIT_SECONDS)
            if self._damaged is not None:
                until_scrubbed(ports[self._damaged])
            mesh.stop()
            return problems + members_differ({store.name: store.contents() for store in mesh.stores})

    def _kill(self, mesh: MeshCluster, load: Load) -> None:
        choice = self._random
        kind, pick = choice.choice(VICTIMS), choice.randrange(len(mesh.stores))
        acks, seconds = choice.choice((0, 1, 20, 100)), choice.random() * 0.3
        awaited = choice.random() < AWAITED
        if awaited and acks:
            load.wait_for_acks(acks, WAIT_SECONDS)
        time.sleep(seconds)
        victim: StoreProcess | GatewayProcess | TowerProcess = mesh.stores[pick]
        if kind != "store":
            victim = mesh.gateway if kind == "gateway" else mesh.tower
        assert victim.returncode is None, f"ended by itself with {victim.returncode}:\n{victim.tail()}"
        victim.kill9()
        self.killed[kind] += 1
        self.history.add(Event(f"{kind} {pick} killed"))
        if isinstance(victim, StoreProcess) and self._damaged is None and choice.random() < DAMAGED:
            self._damaged = pick
            self.altered = alter_records(victim, every=20)
            self.history.add(Event(f"{self.altered} records of store {pick} altered"))
        if not isinstance(victim, TowerProcess) and choice.random() < SET_BACK:
            self._set_back(mesh, victim)
        _start(victim, awaited=awaited)

    def _set_back(self, mesh: MeshCluster, victim: StoreProcess | GatewayProcess) -> None:
        """What was killed comes up on an older copy first, if there is one that is old enough."""
        if not self.older.is_due(victim):
            return
        self.history.add(Event(f"{victim.directory.name} is put back to an older copy"))
        if isinstance(victim, GatewayProcess):
            self.older.try_gateway(victim)
        else:
            self.older.try_store(victim, mesh.gateway)
        self.history.add(Event(f"{victim.directory.name} has its newest data again"))


def _start(victim: StoreProcess | GatewayProcess | TowerProcess, *, awaited: bool) -> None:
    if awaited or isinstance(victim, TowerProcess):
        victim.start()
    else:
        victim.launch()  # and perhaps killed again before it serves


class Kept(Protocol):
    """What is kept of a round that went wrong."""

    def save(self, path: Path) -> None:
        """A file to read."""
        ...


class Kills(Protocol):
    """One round of them."""

    @property
    def history(self) -> Kept:
        """What happened."""
        ...

    killed: Counter[str]
    acked: int

    def run(self) -> list[Problem]:
        """Kills, heals, and judges."""
        ...

    @property
    def said(self) -> str:
        """What there is to say of it besides."""
        ...


def _keep(history: Kept, problems: Sequence[Problem], directory: Path, seed: int) -> None:
    """What happened in a round, and what its processes said, for whoever looks for the reason."""
    kept = Path("build/kills") / str(seed)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    history.save(kept / "history.jsonl")
    (kept / "problems.log").write_text("".join(f"{problem}\n" for problem in problems))
    for log in directory.rglob("*.log"):
        if "db" not in log.parts:
            shutil.copy(log, kept / "-".join(log.relative_to(directory).parts))


def run_rounds(make: Callable[[Path, int, int], Kills], description: str | None, most: int) -> int:
    """Rounds of so many kills at most, as the command line says; the exit code. `make` is given a directory,
    the round's seed, and how many kills it has.
    """
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("--count", type=int, default=1000, help="kills in all")
    arguments.add_argument(
        "--seed", type=int, default=0, help="of the first round; the next one has the next"
    )
    chosen = arguments.parse_args()
    # As by Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    left, seed = chosen.count, chosen.seed
    killed: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    acked = 0
    while left > 0:
        count = min(left, most)
        with tempfile.TemporaryDirectory(prefix="dafka-kills-") as directory:
            one = make(Path(directory), seed, count)
            began = time.monotonic()
            print(f"seed {seed}: ", end="", flush=True)
            try:
                found = one.run()
            except AssertionError as error:
                found = [Problem("did not go on", str(error))]
            if found:
                _keep(one.history, found, Path(directory), seed)
        print(
            f"{count} kills, {one.acked} acknowledged, {one.said}{len(found)} problems, "
            f"{time.monotonic() - began:.0f} s",
            *found[:5],
            sep="\n  " if found else "",
            flush=True,
        )
        killed += one.killed
        problems += Counter(problem.kind for problem in found)
        acked += one.acked
        left, seed = left - count, seed + 1
    print(f"{sum(killed.values())} kills {dict(killed)}, {acked} acknowledged:")
    others = sum(count for kind, count in problems.items() if kind not in KINDS)
    print(", ".join(f"{problems[kind]} {kind}" for kind in KINDS), f"and {others} others")
    return 1 if problems.total() else 0


if __name__ == "__main__":
    sys.exit(run_rounds(Round, __doc__, KILLS_OF_A_ROUND))
