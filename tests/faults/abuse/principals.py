"""`python -m tests.faults.abuse.principals`: what one principal sees while another one floods.

Both come from one address, by SASL: only their names tell them apart. The good one produces a record, reads
it, commits, and begins again; first alone, then beside each flood, then beside the same with quotas for who
floods. The flood has a lower priority than server and good client: it must not win by taking the processor.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from tests.differential.batches import batch_of
from tests.differential.wire import Connection, encode
from tests.faults.abuse import wire
from tests.faults.abuse.__main__ import FIRST, LAST, ROOT, GoodOnes, Outcome, outcome
from tests.peers.standalone import READY, Standalone
from wireproto.kafka.schemas import REQUEST_CLASSES

GOOD, FLOOD, PASSWORD = "good", "flood", "measured"
"""Principals, and their topics."""

CONNECTIONS: Final = 20
IN_FLIGHT: Final = 10
"""Requests of each connection."""

FILLING: Final = 60
"""Megabytes to read."""

QUOTAS: Final = {"producer_byte_rate": 2e6, "consumer_byte_rate": 2e6, "request_percentage": 10.0}
BEGIN_SECONDS, REST_SECONDS = 3.0, 5.0


def many_names() -> bytes:
    """A Metadata of names that are not there; so many that it is some milliseconds of work."""
    return wire.request(wire.METADATA, 4, wire.array([wire.text(f"t{one}") for one in range(3_000)]) + b"\0")


FLOODS: Final[dict[str, Callable[[], bytes]]] = {
    "produces 100 KB each": lambda: wire.produce(FLOOD, [(0, batch_of(os.urandom(100_000)))]),
    "produces single records": lambda: wire.produce(FLOOD, [(0, batch_of(b"one"))]),
    "reads a megabyte each": lambda: wire.fetch(FLOOD, 0, 0),
    "asks for 3,000 topics each": many_names,
}


def flood(name: str, host: str, port: int, seconds: float) -> None:
    """By many connections, each of which has requests in flight all the time."""
    request, ends = FLOODS[name](), time.monotonic() + seconds

    def one() -> None:
        with contextlib.suppress(OSError), wire.Peer(host, port) as peer:
            peer.ask(encode(SaslHandshakeRequest(version=1, mechanism="PLAIN")))
            peer.ask(encode(SaslAuthenticateRequest(version=1, auth_bytes=f"\0{FLOOD}\0{PASSWORD}".encode())))
            peer.send(request * IN_FLIGHT)
            while time.monotonic() < ends:
                peer.receive()
                peer.send(request)

    threads = [threading.Thread(target=one, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, ends + REST_SECONDS / 2 - time.monotonic()))


class Scene:
    """A server with both, and the good one at work."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        listen = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0")
        self.server = Standalone(None, *listen, directory=directory, wrapper=FIRST)

    @contextlib.contextmanager
    def running(self) -> Iterator[GoodOnes]:
        """What the good one says."""
        with self.server:
            self.port = int(READY.findall(self.server.stdout)[1][1])
            self._prepare()
            log = self._directory / "good.jsonl"
            module = ["tests.faults.abuse.good_client", f"127.0.0.1:{self.port}", GOOD, GOOD, PASSWORD]
            with log.open("w") as out:
                client = subprocess.Popen([*FIRST, sys.executable, "-m", *module], cwd=ROOT, stdout=out)
                try:
                    yield GoodOnes(log)
                finally:
                    client.kill()
                    client.wait()

    def _prepare(self) -> None:
        with wire.Peer(self.server.host, self.server.port) as peer:
            peer.ask(wire.create_topics([GOOD, FLOOD]))
            for _ in range(FILLING):
                peer.ask(wire.produce(FLOOD, [(0, batch_of(os.urandom(1_000_000)))]))
        of: Any = REQUEST_CLASSES[51]
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 4096)
        known = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": salted}
        users = [of.ScramCredentialUpsertion(name=name, **known) for name in (GOOD, FLOOD)]
        self._change(of(version=0, deletions=[], upsertions=users))

    def set_quotas(self) -> None:
        """For who floods."""
        of: Any = REQUEST_CLASSES[49]
        entry = of.EntryData(
            entity=[of.EntryData.EntityData(entity_type="user", entity_name=FLOOD)],
            ops=[of.EntryData.OpData(key=key, value=value, remove=False) for key, value in QUOTAS.items()],
        )
        self._change(of(version=0, entries=[entry], validate_only=False))

    def _change(self, request: Any) -> None:
        with Connection(self.server.bootstrap) as one:
            told = one.ask(request).to_dict(json=False)
        codes = [each["error_code"] for each in told.get("results") or told["entries"]]
        assert set(codes) == {0}, told

    def measure(self, good: GoodOnes, name: str, flooded_by: str, seconds: float) -> Outcome:
        """How the good one fares meanwhile."""
        running = None
        if flooded_by:
            own = ["--flood", flooded_by, "--port", str(self.port), "--seconds", str(BEGIN_SECONDS + seconds)]
            command = [*LAST, sys.executable, "-m", "tests.faults.abuse.principals", *own]
            running = subprocess.Popen(command, cwd=ROOT)
        time.sleep(BEGIN_SECONDS)
        good.news()
        time.sleep(seconds)
        found = outcome(name, good.news(), 0, 0, self.server.rss_bytes)
        if running is not None:
            running.wait()
            time.sleep(REST_SECONDS)
        return found


HEAD: Final = (
    f"{'beside':<44} {'operations':>10} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8} {'x alone':>8} {'errors':>6}"
)


def line(one: Outcome, alone: Outcome) -> str:
    """A row of the table."""
    return (
        f"{one.name:<44} {one.operations:>10} {one.p50 * 1000:>8.1f} {one.p99 * 1000:>8.1f} "
        f"{one.worst * 1000:>8.1f} {one.p99 / alone.p99:>8.1f} {len(one.errors):>6}"
    )


def run(directory: Path, seconds: float) -> int:
    """The exit code: 1 if the good one has seen an error."""
    scene = Scene(directory)
    print(HEAD, flush=True)
    with scene.running() as good:
        alone = scene.measure(good, "nobody", "", 2 * seconds)
        found = [alone]
        print(line(alone, alone), flush=True)
        for with_quotas in (False, True):
            if with_quotas:
                scene.set_quotas()
            for name in FLOODS:
                one = scene.measure(good, f"who {name}{', with quotas' * with_quotas}", name, seconds)
                found.append(one)
                print(line(one, alone), *one.errors[:3], sep="\n    " if one.errors else "", flush=True)
    return int(any(one.errors for one in found))


def main() -> int:
    """See the module."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=10, help="of each")
    parser.add_argument("--flood", choices=sorted(FLOODS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood:
        flood(arguments.flood, "127.0.0.1", arguments.port, arguments.seconds)
        return 0
    with tempfile.TemporaryDirectory(prefix="dafka-principals-") as directory:
        return run(Path(directory), arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
