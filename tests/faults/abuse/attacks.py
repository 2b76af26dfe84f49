"""What an attacker without any rights does to a server, one function for each.

Each goes on until its time is over (`Target.going`), and takes refusals and closed connections as they come.
Run as a process of its own:
``python -m tests.faults.abuse.attacks NAME HOST PORT METRICS_PORT SECONDS SEED [SOURCE ADDRESSES]``.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import zstandard

from tests.differential.batches import Record, batch, batch_of
from tests.faults.abuse import wire

VICTIM_TOPIC: Final = "victim"
COMPACTED_TOPIC: Final = "compacted"
ZSTD_TOPIC: Final = "zstd-22"
FILLING_TOPIC: Final = "filling"
"""What was written to it fills the caches."""
QUIET_TOPIC: Final = "quiet"
"""Nobody ever writes to it."""
OPEN_FILES: Final = 20_000
SNAPPY_HEADER: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


class Target:
    """The server, how long it is attacked, and the addresses from where: "" for the host's own."""

    def __init__(
        self, host: str, port: int, metrics_port: int, seconds: float, seed: int, sources: Sequence[str]
    ) -> None:
        self.host, self.port, self.metrics_port = host, port, metrics_port
        self._sources = sources
        self.random = random.Random(seed)
        self._ends = time.monotonic() + seconds

    @property
    def going(self) -> bool:
        """There is time left."""
        return time.monotonic() < self._ends

    def peer(self) -> wire.Peer:
        """A connection. Raises OSError."""
        return wire.Peer(self.host, self.port, source=self.random.choice(self._sources))

    def peers(self) -> Iterator[wire.Peer]:
        """Connections, one after the other, until the time is over; each is closed after its use."""
        while self.going:
            with contextlib.suppress(OSError), self.peer() as peer:
                yield peer
            time.sleep(0.01)

    def repeat(self, make: Callable[[], bytes]) -> None:
        """Ask for an answer over and over."""
        for peer in self.peers():
            while self.going:
                peer.ask(make())

    def crowd(self, size: int, begin: Callable[[wire.Peer], None], keep_seconds: float = 2.0) -> None:
        """Many connections at once, which then go away without a word."""
        while self.going:
            held: list[wire.Peer] = []
            with contextlib.suppress(OSError):
                while len(held) < size and self.going:
                    held.append(self.peer())
                    begin(held[-1])
            time.sleep(min(keep_seconds, 2.0))
            for peer in held:
                peer.close()


ATTACKS: Final[dict[str, Callable[[Target], None]]] = {}


def attack(function: Callable[[Target], None]) -> Callable[[Target], None]:
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


# bytes that nobody could read -----------------------------------------------------------------------------


@attack
def poison(target: Target) -> None:
    """Batches that nobody can read, for the topic that the good client reads."""
    plain = wire.records(5)
    zipped = zlib.compressobj(wbits=31)
    gzip = zipped.compress(plain) + zipped.flush()
    base = wire.now_ms()
    kinds: list[Callable[[], bytes]] = [
        lambda: batch([], payload=zstandard.compress(plain)[:8] + target.random.randbytes(60), attributes=4,
                      count=5, last_offset_delta=4, base_timestamp=base, max_timestamp=base),
        lambda: batch([], payload=target.random.randbytes(100), count=3, last_offset_delta=2,
                      base_timestamp=base, max_timestamp=base),
        lambda: batch([], payload=gzip, attributes=1, count=7, last_offset_delta=6, base_timestamp=base,
                      max_timestamp=base),
        lambda: batch([], payload=plain, count=2**31 - 1, last_offset_delta=2**31 - 2, base_timestamp=base,
                      max_timestamp=base),
        lambda: batch([], payload=plain[:-3], count=5, last_offset_delta=4, base_timestamp=base,
                      max_timestamp=base),
    ]  # fmt: skip
    target.repeat(lambda: wire.produce(VICTIM_TOPIC, [(0, target.random.choice(kinds)())]))


# work -----------------------------------------------------------------------------------------------------


@attack
def maximum_timestamps(target: Target) -> None:
    """Batches of ten thousand records in a hundred bytes, whose maximum timestamp cannot be true."""
    payload = zstandard.compress(wire.records(1) * 10_000)
    bad = batch([], payload=payload, attributes=4, count=10_000, last_offset_delta=9_999,
                base_timestamp=wire.now_ms(), max_timestamp=-1)  # fmt: skip
    target.repeat(lambda: wire.produce(COMPACTED_TOPIC, [(0, bad)] * 500))


@attack
def named_records(target: Target) -> None:
    """Records out of all time, or without a key, that an answer would name one by one."""
    payload = zstandard.compress(wire.records(1) * 10_000)
    late = wire.now_ms() + 10**10
    bad = batch([], payload=payload, attributes=4, count=10_000, last_offset_delta=9_999,
                base_timestamp=late, max_timestamp=late)  # fmt: skip
    keyless = batch([], payload=payload, attributes=4, count=10_000, last_offset_delta=9_999,
                    base_timestamp=wire.now_ms(), max_timestamp=wire.now_ms())  # fmt: skip
    target.repeat(
        lambda: wire.produce(COMPACTED_TOPIC, [(0, target.random.choice((bad, keyless)))] * 200, version=8)
    )


@attack
def empty_chunks(target: Target) -> None:
    """A megabyte of empty snappy chunks."""
    payload = SNAPPY_HEADER + b"\0\0\0\1\0" * 200_000
    bad = batch([], payload=payload, attributes=2, count=1, base_timestamp=1, max_timestamp=1)
    target.repeat(lambda: wire.produce(COMPACTED_TOPIC, [(0, bad)]))


@attack
def small_batches(target: Target) -> None:
    """Ten thousand batches in one request."""
    one = batch([Record(b"", b"k", wire.now_ms())] * 32)
    target.repeat(lambda: wire.produce(COMPACTED_TOPIC, [(0, one)] * 3_000))


@attack
def compress_anew(target: Target) -> None:
    """Batches that take seconds to compress at the level of their topic."""
    content = target.random.randbytes(1 << 16) * 14
    one = batch([Record(content, b"k", wire.now_ms())])
    for peer in target.peers():
        for _ in range(4):
            peer.send(wire.produce(ZSTD_TOPIC, [(0, one)]))
        time.sleep(1)


@attack
def many_partitions(target: Target) -> None:
    """Requests that name a hundred thousand partitions that are not there."""
    wanted = wire.fetch(VICTIM_TOPIC, 0, 0, partitions=90_000)
    names = wire.array([wire.text(f"t{number}") for number in range(40_000)])
    asked = [wanted, wire.request(wire.METADATA, 4, names + b"\0")]
    target.repeat(lambda: target.random.choice(asked))


# memory ---------------------------------------------------------------------------------------------------


@attack
def groups_without_end(target: Target) -> None:
    """A group for each commit."""
    for peer in target.peers():
        while target.going:
            names = [f"g{target.random.getrandbits(60):x}" for _ in range(100)]
            peer.send(b"".join(wire.commit(name, VICTIM_TOPIC, [0]) for name in names))
            for _ in names:
                peer.receive()


@attack
def long_metadata(target: Target) -> None:
    """Commits with as much metadata as there may be."""
    metadata = "m" * 4_000
    for peer in target.peers():
        while target.going:
            names = [f"m{target.random.randrange(100_000)}" for _ in range(20)]
            peer.send(b"".join(wire.commit(name, VICTIM_TOPIC, [0], metadata) for name in names))
            for _ in names:
                peer.receive()


@attack
def members_that_leave(target: Target) -> None:
    """Members that join and hang up, with large subscriptions."""

    def begin(peer: wire.Peer) -> None:
        group = f"j{target.random.randrange(50)}"
        peer.send(wire.join(group, b"s" * target.random.randrange(10_000)))

    target.crowd(500, begin)


@attack
def producer_ids(target: Target) -> None:
    """A producer id for each batch, in the good client's partition."""
    for peer in target.peers():
        while target.going:
            made = [
                batch_of(b"", producer_id=target.random.getrandbits(40), producer_epoch=0, base_sequence=0)
                for _ in range(50)
            ]
            peer.send(b"".join(wire.produce(VICTIM_TOPIC, [(1, one)]) for one in made))
            for _ in made:
                peer.receive()


@attack
def topics_without_end(target: Target) -> None:
    """Topics, created by hundreds and asked for by name."""
    for peer in target.peers():
        names = [f"n{target.random.getrandbits(60):x}" for _ in range(20)]
        peer.ask(wire.create_topics(names))
        more = wire.array([wire.text(f"a{target.random.getrandbits(60):x}") for _ in range(20)])
        peer.ask(wire.request(wire.METADATA, 4, more + b"\1"))
        time.sleep(0.5)


# clients that are gone, slow, or greedy -------------------------------------------------------------------


@attack
def gone_while_waiting(target: Target) -> None:
    """Fetches that wait for ever, of clients that have gone."""
    target.crowd(2_000, lambda peer: peer.send(wire.fetch(QUIET_TOPIC, 0, wire.FOREVER_MS)), 0)


@attack
def parked_on_one_partition(target: Target) -> None:
    """Thousands of fetches that all wake up with each record."""
    with target.peer() as peer:
        end = wire.end_offset(peer, VICTIM_TOPIC)
    target.crowd(3_000, lambda peer: peer.send(wire.fetch(VICTIM_TOPIC, end, wire.FOREVER_MS)))


@attack
def read_from_the_start(target: Target) -> None:
    """Thousands who read what no cache has any more, and do not take it."""
    target.crowd(3_000, lambda peer: peer.send(wire.fetch(FILLING_TOPIC, 0, wire.FOREVER_MS)))


@attack
def half_requests(target: Target) -> None:
    """Large requests that begin and do not go on."""
    start = struct.pack(">i", 100_000) + struct.pack(">hhi", 0, 7, 1) + wire.text("x")
    target.crowd(2_900, lambda peer: peer.send(start))


@attack
def slow_requests(target: Target) -> None:
    """A byte at a time, on many connections."""
    data = wire.produce(VICTIM_TOPIC, [(1, batch_of(b"slow"))])
    held: list[wire.Peer] = []
    position = 0
    while target.going:
        with contextlib.suppress(OSError):
            while len(held) < 300:
                held.append(target.peer())
            for peer in held:
                peer.send(data[position : position + 1])
        position = (position + 1) % len(data)
        time.sleep(0.05)


@attack
def answers_unread(target: Target) -> None:
    """Requests whose answers nobody reads."""
    target.crowd(200, lambda peer: peer.send(wire.fetch(VICTIM_TOPIC, 0, 0) * 50))


@attack
def garbage(target: Target) -> None:
    """Bytes that are no request."""

    def begin(peer: wire.Peer) -> None:
        noise = target.random.randbytes(target.random.randrange(1, 200))
        peer.send(target.random.choice((noise, wire.request(target.random.randrange(70), 3, noise))))

    target.crowd(200, begin, 0)


@attack
def scrapers(target: Target) -> None:
    """Slow readers of metrics and health."""
    while target.going:
        held = []
        with contextlib.suppress(OSError):
            for _ in range(40):
                held.append(socket.create_connection((target.host, target.metrics_port), timeout=5))
                held[-1].send(target.random.choice((b"GET /hea", b"GET /metrics HTTP/1.1\r\n\r\n")))
        time.sleep(1)
        for one in held:
            one.close()


def main(name: str, host: str, *rest: str) -> None:
    """One attack."""
    port, metrics_port, seconds, seed = map(int, rest[:4])
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    target = Target(host, port, metrics_port, seconds, seed, rest[4:] or ("",))
    while target.going:
        with contextlib.suppress(OSError):  # hung up on, or not let in
            ATTACKS[name](target)


if __name__ == "__main__":
    main(*sys.argv[1:])
