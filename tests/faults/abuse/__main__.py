"""`make abuse SECONDS=3600 SEED=s`: all attacks at random beside a good client.

The server, the good client and the attacker each have a host of their own (network namespaces, which take
root): what is shared fairly is shared by address. Half of the attacks come from one address, half from many.
The good client runs alone first. Then, over all attacks, its 99th percentile must stay below LIMIT times of
that; it must see no error that its library does not retry by itself; and after each attack the server's
memory must come back to RESIDENT_LIMIT times of what it was before.

Exit code 1 if one of these does not hold. The table names each attack.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.differential.batches import batch_of
from tests.faults.abuse import wire
from tests.faults.abuse.attacks import (
    ATTACKS,
    COMPACTED_TOPIC,
    FILLING_TOPIC,
    QUIET_TOPIC,
    VICTIM_TOPIC,
    ZSTD_TOPIC,
)
from tests.faults.network import Host, Network
from tests.peers.standalone import Standalone

LIMIT: Final = 3.0
RESIDENT_LIMIT: Final = 1.3
RESIDENT_SLACK: Final = 64 << 20
"""Bytes beside: what clients may leave behind for good (groups with their offsets, topics, producers)."""
FILLING_MIB: Final = 160
"""Written and read before anything is measured: the caches of gateway and store are full then, as they are in
a server that has been in use."""
ALONE_SECONDS: Final = 20.0
ATTACK_SECONDS: Final = (5, 15)
REST_SECONDS: Final = 12.0
SOURCES: Final = 20
"""Addresses of an attacker that has many: as many clients."""
METRICS_PORT: Final = 9404
ROOT: Final = Path(__file__).parents[3]
FIRST: Final = ("nice", "-n", "-10")
LAST: Final = ("nice", "-n", "10")
"""How processes are begun. An attack must not win by taking the processor, and other work of the machine must
not count as one."""


class Outcome(NamedTuple):
    """What the good client and the server's memory saw of an attack. Seconds and bytes."""

    name: str
    operations: int
    p50: float
    p99: float
    worst: float
    errors: list[str]
    before: int
    peak: int
    after: int


class GoodOnes:
    """What the good client has said so far."""

    def __init__(self, log: Path) -> None:
        self._log = log.open()
        self._rest = ""

    def news(self) -> list[dict[str, Any]]:
        """The operations since the last call."""
        text = self._rest + self._log.read()
        *lines, self._rest = text.split("\n")
        return [json.loads(line) for line in lines if line.startswith("{")]


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of them lie; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


class Scene:
    """A server on a host, a good client on another, an attacker on a third."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.server_host, self.client_host, self.attacker_host = (network.host() for _ in range(3))
        self._sources = [network.another_address(self.attacker_host) for _ in range(SOURCES)]
        self._directory = directory
        self.server = Standalone(
            None,
            "--metrics",
            f"{self.server_host.address}:{METRICS_PORT}",
            "--retention-check-interval-ms",
            "10000",
            directory=directory,
            wrapper=[*self.server_host.prefix, *FIRST],
        )
        self.server.host = self.server_host.address

    @contextlib.contextmanager
    def running(self) -> Iterator[GoodOnes]:
        """The server and the good client, with the topics of both."""
        with self.server:
            self._make_topics()
            log = self._directory / "good.jsonl"
            command = ["tests.faults.abuse.good_client", self.server.bootstrap, VICTIM_TOPIC]
            with log.open("w") as out:
                client = self._start(self.client_host, command, stdout=out)
                try:
                    yield GoodOnes(log)
                finally:
                    client.kill()
                    client.wait()

    def _make_topics(self) -> None:
        """By the good client's host: this process has no way to the server."""
        script = (
            "import sys; from tests.faults.abuse.__main__ import make_topics;"
            " make_topics(sys.argv[1], int(sys.argv[2]))"
        )
        command = [sys.executable, "-c", script, self.server.host, str(self.server.port)]
        subprocess.run([*self.client_host.prefix, *command], check=True, cwd=ROOT)

    def _start(self, host: Host, module: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*host.prefix, *FIRST, sys.executable, "-m", *module], cwd=ROOT, **streams)

    def resident(self) -> int:
        """Bytes of memory that the server has, 0 once it has ended."""
        return self.server.rss_bytes if self.server.returncode is None else 0

    def attack(self, name: str, seconds: int, seed: int) -> subprocess.Popen[bytes]:
        """Begin one, at a low priority: it must not win by taking the processor. Of two seeds, one's comes
        from many addresses.
        """
        numbers = map(str, (self.server.port, METRICS_PORT, seconds, seed))
        module = [sys.executable, "-m", "tests.faults.abuse.attacks", name, self.server.host, *numbers]
        sources = self._sources if seed % 2 else ()
        command = [*self.attacker_host.prefix, *LAST, *module, *sources]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def make_topics(host: str, port: int) -> None:
    """Those of the good client and of the attacks, and what fills the caches."""
    keep = {"retention.bytes": str(64 << 20), "segment.bytes": str(8 << 20)}
    with wire.Peer(host, port) as peer:
        peer.ask(wire.create_topics([VICTIM_TOPIC], 2, **keep))
        peer.ask(wire.create_topics([COMPACTED_TOPIC], 1, **{"cleanup.policy": "compact"}))
        zstd = {"compression.type": "zstd", "compression.zstd.level": "22", "max.message.bytes": "4000000"}
        peer.ask(wire.create_topics([ZSTD_TOPIC], 1, **zstd, **keep))
        peer.ask(wire.create_topics([QUIET_TOPIC, FILLING_TOPIC]))
        content = batch_of(bytes(1_000_000))
        for _ in range(FILLING_MIB):
            peer.ask(wire.produce(FILLING_TOPIC, [(0, content)]))
        for offset in range(FILLING_MIB):
            peer.ask(wire.fetch(FILLING_TOPIC, offset, 0))


def watch(scene: Scene, good: GoodOnes, name: str, running: Sequence[subprocess.Popen[bytes]]) -> Outcome:
    """See how the good client fares until the attacks have ended and the server has rested."""
    before = peak = scene.resident()
    good.news()
    while any(one.poll() is None for one in running):
        peak = max(peak, scene.resident())
        time.sleep(0.2)
    time.sleep(REST_SECONDS)
    after = scene.resident()
    return outcome(name, good.news(), before, peak, after)


def outcome(name: str, operations: Sequence[dict[str, Any]], before: int, peak: int, after: int) -> Outcome:
    """What these operations amount to."""
    took = [one["took"] for one in operations]
    errors = [f"{one['what']}: {one['error']}" for one in operations if one["error"]]
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    return Outcome(name, len(took), p50, p99, max(took, default=0.0), errors, before, peak, after)


def line(one: Outcome) -> str:
    """A row of the table."""
    mib = 1 << 20
    return (
        f"{one.name:<50} {one.operations:>6} {one.p50 * 1000:>8.1f} {one.p99 * 1000:>8.1f} "
        f"{one.worst * 1000:>9.1f} {len(one.errors):>6} {one.before // mib:>6} {one.peak // mib:>6} "
        f"{one.after // mib:>6}"
    )


HEAD: Final = (
    f"{'attack':<50} {'good':>6} {'p50 ms':>8} {'p99 ms':>8} {'worst ms':>9} {'errors':>6} {'MiB':>6} "
    f"{'peak':>6} {'after':>6}"
)


def problems(alone: Outcome, outcomes: Sequence[Outcome], all_of_them: Outcome) -> list[str]:
    """What does not hold."""
    found = [f"{one.name}: {error}" for one in outcomes for error in one.errors]
    most = LIMIT * alone.p99
    if all_of_them.p99 >= most:
        found.append(f"the good client's p99 is {all_of_them.p99:.3f} s, {most:.3f} are allowed")
    found += [
        f"{one.name}: {one.after >> 20} MiB afterwards, {one.before >> 20} before"
        for one in outcomes
        if one.after > max(RESIDENT_LIMIT * one.before, one.before + RESIDENT_SLACK)
    ]
    found += [f"{one.name}: the good client did nothing" for one in outcomes if not one.operations]
    return found


def run(directory: Path, seconds: float, seed: int, only: Sequence[str]) -> int:
    """The exit code."""
    chooser = random.Random(seed)
    names = list(only) or list(ATTACKS)
    with Network() as network:
        scene = Scene(directory, network)
        with scene.running() as good:
            time.sleep(ALONE_SECONDS / 4)
            print(HEAD, flush=True)
            good.news()
            time.sleep(ALONE_SECONDS)
            size = scene.resident()
            alone = outcome("(alone)", good.news(), size, size, size)
            print(line(alone), flush=True)
            ends = time.monotonic() + seconds
            outcomes: list[Outcome] = []
            everything: list[dict[str, Any]] = []
            waiting: list[str] = []
            while time.monotonic() < ends and scene.server.returncode is None:
                while len(waiting) < 2:
                    waiting += chooser.sample(names, len(names))
                chosen = [waiting.pop() for _ in range(1 if outcomes and len(outcomes) % 3 else 2)][
                    : len(names)
                ]
                lasting = chooser.randint(*ATTACK_SECONDS)
                running = [scene.attack(name, lasting, chooser.getrandbits(30)) for name in chosen]
                one = watch(scene, Tee(good, everything), " + ".join(chosen), running)
                outcomes.append(one)
                print(line(one), *one.errors[:3], sep="\n    " if one.errors else "", flush=True)
            whole = outcome("(all attacks)", everything, size, size, scene.resident())
            print(line(whole))
            found = problems(alone, outcomes, whole)
            if scene.server.returncode is not None:
                found.append(f"the server ended with {scene.server.returncode}: {scene.server.tail()}")
    print(f"{len(outcomes)} attacks of seed {seed}: {len(found)} problems", *found, sep="\n  ")
    return 1 if found else 0


class Tee(GoodOnes):
    """The same news, kept for the sum as well."""

    def __init__(self, good: GoodOnes, everything: list[dict[str, Any]]) -> None:
        self._good, self._everything = good, everything

    def news(self) -> list[dict[str, Any]]:
        found = self._good.news()
        self._everything += found
        return found


def main() -> int:
    """See the module."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=sorted(ATTACKS))
    parser.add_argument("--directory", type=Path, help="for the server's data and logs, and kept")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = arguments.directory
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dafka-abuse-")))
        directory.mkdir(parents=True, exist_ok=True)
        return run(directory, arguments.seconds, arguments.seed, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
