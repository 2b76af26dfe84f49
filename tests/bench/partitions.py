"""What many partitions cost: the start after a kill with all of them written, memory, and a lone produce.

`python -m tests.bench.partitions` makes a standalone of 10 topics of 1,000 partitions, writes a record to
each, ends it by SIGKILL, and starts copies of its data directory, one for each round. Of each start it says
the seconds, and the server's processor seconds, until the first Metadata answer, the first acknowledged
produce (to the last partition of the last topic, which recovery comes to last), and until all partitions are
served. After that single produces go to one partition, one at a time. With `--against CHECKOUT` each round
starts that one's server too, on a copy of the same data, so that the two are compared at the same moment; the
same for a few partitions instead of many is `--topics 1 --partitions 10`.
"""

import argparse
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.bench import clients
from tests.bench.facts import machine, say
from tests.bench.wire import messages
from tests.bench.wire.connection import Connection
from tests.peers.ports import free_ports
from tests.peers.standalone import Standalone
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode
from wireproto.records.builder import build_batch

# Partitions in one Produce while all of them are written.
AT_ONCE = 250
# Before the single produces that are counted.
WARM_UP = 200
PAUSE_SECONDS = 0.05
RECOVERED = re.compile(r"(\d+) of (\d+) partitions recovered")
LONGEST_SECONDS = 600.0
NONE = int(ErrorCode.NONE)


class Moment(NamedTuple):
    """Since the process was made."""

    seconds: float
    cpu_seconds: float


class Figures(NamedTuple):
    """Of one start. `us` are microseconds."""

    metadata: Moment
    produce: Moment
    all_served: Moment
    rss: int
    p50_us: float
    p99_us: float
    server_us: float
    """Of the server's processor, for one produce."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.partitions", description=__doc__)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=1000, help="of each topic")
    parser.add_argument("--records", type=int, default=1, help="written to each, one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--produces", type=int, default=2000)
    parser.add_argument("--against", type=Path, help="another checkout, started in turn with this one")
    arguments = parser.parse_args()
    topics = {f"many-{number}": arguments.partitions for number in range(arguments.topics)}
    checkouts = [Path.cwd(), *([arguments.against] if arguments.against else [])]
    with tempfile.TemporaryDirectory(prefix="dafka-partitions-") as directory:
        image = Path(directory) / "image"
        loaded = fill(image, topics, arguments.records)
        figures: dict[Path, list[Figures]] = {checkout: [] for checkout in checkouts}
        for number in range(arguments.rounds):
            for checkout in checkouts if number % 2 == 0 else reversed(checkouts):
                figures[checkout].append(
                    one_start(image, Path(directory) / "copy", checkout, topics, arguments.produces)
                )
                say(f"{checkout}: {figures[checkout][-1]}")
    print(f"\n{machine()}\n\n{sum(topics.values())} partitions, {loaded >> 20} MB when all were written")
    print("medians of rounds: seconds / processor seconds\n")
    print("| checkout | Metadata | produce | all served | RSS MB | p50 us | p99 us | server us a produce |")
    print("|---|---|---|---|---|---|---|---|")
    for checkout, rounds in figures.items():
        print(f"| {checkout} | {' | '.join(_medians(rounds))} |")


def _medians(rounds: list[Figures]) -> Iterator[str]:
    for name in ("metadata", "produce", "all_served"):
        moments = [getattr(one, name) for one in rounds]
        wall, cpu = (statistics.median(moment[field] for moment in moments) for field in (0, 1))
        yield f"{wall:.2f} / {cpu:.2f}"
    yield f"{statistics.median(one.rss for one in rounds) / 2**20:.0f}"
    for name in ("p50_us", "p99_us", "server_us"):
        yield f"{statistics.median(getattr(one, name) for one in rounds):.0f}"


def fill(image: Path, topics: dict[str, int], records: int) -> int:
    """A data directory as SIGKILL leaves it, every partition written to; the memory it took then."""
    with Standalone(image) as server:
        for topic, partitions in topics.items():
            clients.create_topics(server.bootstrap, [topic], partitions)
        connection = Connection(server.bootstrap)
        say(f"{sum(topics.values())} partitions made, {server.rss_bytes >> 20} MB")
        for _ in range(records):
            for topic, partitions in topics.items():
                for first in range(0, partitions, AT_ONCE):
                    batches = {index: _batch() for index in range(first, min(partitions, first + AT_ONCE))}
                    codes = _codes(connection.ask(messages.produce({topic: batches})))
                    if codes != {NONE}:
                        raise AssertionError(f"records were answered with {codes}")
        connection.close()
        say(f"and written: {server.rss_bytes >> 20} MB, {server.cpu_seconds:.1f} s of processor time")
        return server.rss_bytes


def one_start(image: Path, copy: Path, checkout: Path, topics: dict[str, int], produces: int) -> Figures:
    """Start a server on a copy of what was killed, and measure it."""
    shutil.copytree(image, copy, ignore=shutil.ignore_patterns("*.sock"))
    # Without -P the working directory would come before the checkout that is meant.
    program = (sys.executable, "-P", "-m", "dafka.cli")
    server = Standalone(copy, program=program, environment={"PYTHONPATH": str(checkout)})
    (server.port,) = free_ports(1)
    try:
        server.launch()
        return _measured(server, topics, produces)
    finally:
        server.__exit__()
        shutil.rmtree(copy)


def _measured(server: Standalone, topics: dict[str, int], produces: int) -> Figures:
    last = list(topics)[-1]
    deadline = time.monotonic() + LONGEST_SECONDS

    def now() -> Moment:
        if server.returncode is not None:
            raise AssertionError(f"it has ended:\n{server.tail()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"not served after {LONGEST_SECONDS} s:\n{server.tail()}")
        return Moment(time.monotonic() - server.started_at, server.cpu_seconds)

    connection = _connected(server, now)
    connection.ask(messages.metadata([last]))
    metadata = now()
    single = messages.produce({last: {topics[last] - 1: _batch()}})
    while _codes(connection.ask(single)) != {NONE}:
        now()
        time.sleep(PAUSE_SECONDS)
    produce = now()
    # To ask the server would cost it more than it measures.
    while (found := RECOVERED.search(server.log)) is None:
        now()
        time.sleep(PAUSE_SECONDS)
    all_served = now()
    assert found[1] == found[2], found[0]
    assert _all_served(connection)
    for _ in range(WARM_UP):
        connection.ask(single)
    before, took = server.cpu_seconds, []
    for _ in range(produces):
        begun = time.perf_counter()
        connection.ask(single)
        took.append((time.perf_counter() - begun) * 1e6)
    cpu_us = (server.cpu_seconds - before) / produces * 1e6
    connection.close()
    cut = statistics.quantiles(took, n=100)
    return Figures(metadata, produce, all_served, server.rss_bytes, cut[49], cut[98], cpu_us)


def _connected(server: Standalone, now: Callable[[], object]) -> Connection:
    while True:
        try:
            return Connection(server.bootstrap)
        except OSError:
            now()
            time.sleep(PAUSE_SECONDS)


def _all_served(connection: Connection) -> bool:
    answer = connection.ask(messages.metadata(None))
    found = messages.decoded(ApiKey.METADATA, messages.METADATA_VERSION, answer)["topics"]
    return all(partition["error_code"] == NONE for topic in found for partition in topic["partitions"])


def _batch() -> bytes:
    return build_batch([(None, bytes(100), [], time.time_ns() // 1_000_000)])


def _codes(answer: bytes) -> set[int]:
    found = messages.decoded(ApiKey.PRODUCE, messages.PRODUCE_VERSION, answer)["responses"]
    return {partition["error_code"] for topic in found for partition in topic["partition_responses"]}


if __name__ == "__main__":
    main()
