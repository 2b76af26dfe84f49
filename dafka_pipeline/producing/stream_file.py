"""What a stream keeps beside its table, so that whoever goes on with it knows where and when. Pure.

::

    targets   which topics it writes to (a topic made again is another one), and where its records can begin
    sent      the last own record of each target partition after the last round that ended well
    lease     until when producers of it may live, and whether they have ended since

**The tail of a target must be final before it is read**: what a dead attempt has sent may still land. A
round's producers end with its lease. So after an unclean end the next one waits until the lease is over,
and then for as long as a sent batch may be on its way. Transactions need no waiting: the server fences the
dead one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dafka_pipeline.failures import Refused
from dafka_pipeline.kafka.cluster import TopicPartition
from dafka_pipeline.producing.plan import Timing
from dafka_pipeline.producing.positions import Position

FORMAT: Final = 1


@dataclass(frozen=True)
class Tail:
    """A target partition's last own record: its position, and the offset at which it lies."""

    position: Position
    offset: int


@dataclass(frozen=True)
class Target:
    """A topic that is written to.

    floors: for each partition the offset at which it ended before the stream's first record.
    """

    topic_id: str | None
    floors: tuple[int, ...]


@dataclass(frozen=True)
class Lease:
    """When the producers of the newest round end at the latest.

    owner: of the process that made them. until: seconds since 1970.
    clean: they have ended, and everything they sent was acknowledged.
    machine: where all of them ran, when that was within one machine and below one process; empty otherwise.
    """

    owner: str = ""
    until: float = 0.0
    clean: bool = True
    machine: str = ""


@dataclass(frozen=True)
class Stream:
    """The whole file."""

    stream: str
    header: str
    transactions: bool
    append: bool
    targets: Mapping[str, Target]
    sent: Mapping[TopicPartition, Tail] = field(default_factory=dict)
    lease: Lease = field(default_factory=Lease)

    def leased(self, lease: Lease) -> Stream:
        return replace(self, lease=lease)

    def ended(self, sent: Mapping[TopicPartition, Tail]) -> Stream:
        """After a round that ended well."""
        return replace(self, sent={**self.sent, **sent}, lease=replace(self.lease, clean=True))

    def floor(self, at: TopicPartition) -> int:
        return self.targets[at.topic].floors[at.partition]

    def to_json(self) -> str:
        return json.dumps(
            {
                "dafka_stream": FORMAT,
                "stream": self.stream,
                "header": self.header,
                "transactions": self.transactions,
                "append": self.append,
                "targets": {
                    topic: {"id": one.topic_id, "floors": list(one.floors)}
                    for topic, one in sorted(self.targets.items())
                },
                "sent": [[*at, tail.offset, list(tail.position)] for at, tail in sorted(self.sent.items())],
                "lease": vars(self.lease),
            }
        )


def parse_stream(text: str) -> Stream:
    """The file's text. Raises Refused for one that is not ours."""
    try:
        found: Any = json.loads(text)
        if found["dafka_stream"] != FORMAT:
            raise ValueError(f"format {found['dafka_stream']}")
        return Stream(
            found["stream"],
            found["header"],
            found["transactions"],
            found["append"],
            {topic: Target(one["id"], tuple(one["floors"])) for topic, one in found["targets"].items()},
            {
                TopicPartition(topic, partition): Tail(tuple(position), offset)
                for topic, partition, offset, position in found["sent"]
            },
            Lease(**found["lease"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"What a replay or an outbox keeps about its targets cannot be read ({error}): it was made by "
            "another version, or damaged. Start over with another id and into empty topics."
        ) from error


def final_after(stream: Stream, timing: Timing, now: float, machine: str, own: str) -> float:
    """How many seconds from now the targets' tails are final.

    machine: this one, and the caller knows that no other driver of this stream lives on it: the producers
    that it had within the machine have ended with it. own: the caller's own name, whose producers may
    still live.
    """
    lease = stream.lease
    if lease.clean or stream.transactions:
        return 0.0
    ends = lease.until
    if lease.machine == machine and lease.owner != own:
        ends = min(ends, now)
    return max(0.0, ends + timing.message + timing.clocks - now)
