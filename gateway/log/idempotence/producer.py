"""One producer with an id as one partition knows it, and the arithmetic of its sequences."""

from typing import Final, NamedTuple

from gateway.common.clients import NOBODY

NO_PRODUCER_EPOCH: Final = -1

NO_COORDINATOR_EPOCH: Final = -1
"""No transaction of the producer has ended here."""

NOTHING_OPEN: Final = -1
"""In the place of a first offset: the producer has no open transaction."""

NO_SEQUENCE: Final = -1
"""In the place of the last one: the producer begins with 0."""

MAX_SEQUENCE: Final = 2**31 - 1
"""Sequences are 32-bit and not negative: 0 follows this one."""

BATCHES_KEPT: Final = 5
"""Batches per producer that a repetition is recognised among: `max.in.flight.requests.per.connection` of
an idempotent producer is at most 5, and Kafka keeps as many
(``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``)."""

MAX_PRODUCERS: Final = 2_000
"""Producers kept per partition; beyond it one is forgotten, as if it had expired (`state` says which). Kafka
has no such bound and can be filled up by short-lived producers. 2,000 take about 2 MB, and 280 KB in a
snapshot."""

MAX_PRODUCERS_IN_ALL: Final = 250_000
"""Producers kept of all partitions together: about 200 MB; half of them for one client, or of what others
leave. Beyond it a partition that takes a new one of that client forgets one of that client's own, if it has
FEW_PRODUCERS."""

FEW_PRODUCERS: Final = 10
"""Producers that a partition may keep whatever others do: as many write to one at a time, and 20,000
partitions would have 160 MB of them. They do not count as a client's: who has ten everywhere takes nothing
from what others may have."""

FEW: Final = "few"
"""What is charged for those, in place of a client."""

SPARED_MS: Final = 180_000
"""Milliseconds after its last batch in which a producer is not forgotten for another one of a client that has
some here itself: it may still send that batch again. Clients do so for `delivery.timeout.ms`, which is two
minutes unless they say otherwise."""


class Batch(NamedTuple):
    """One batch that a producer appended: sequences, offsets (inclusive), its maximum timestamp in ms."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer's standing: its epoch, its last batches (oldest first; none after a marker of a later
    epoch), when last heard, and of which client (`gateway.common.clients`) its first batch was; nobody's, if
    it was read from the log. It is charged to that client, or is one of the few that a partition may keep.

    Of its transactions: the epoch of the coordinator that ended the last one, and where the open one begins
    (`ProducerStateEntry`).
    """

    __slots__ = (
        "batches",
        "charged_to",
        "client",
        "coordinator_epoch",
        "epoch",
        "first_offset",
        "last_offset",
        "opened_by",
        "timestamp",
        "used_ms",
    )

    def __init__(self, epoch: int, used_ms: int, batches: list[Batch], client: str = NOBODY) -> None:
        self.client = client
        self.charged_to = client
        self.epoch = epoch
        self.used_ms = used_ms
        self.batches = batches
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.first_offset = NOTHING_OPEN
        """Of its open transaction."""
        self.opened_by = NOBODY
        """The client whose batch has opened that; nobody's, if it was read from the log."""
        self.last_offset = batches[-1].last_offset if batches else -1
        """Of its last batch or marker."""
        self.timestamp = batches[-1].timestamp if batches else -1
        """The maximum timestamp of that one, ms."""

    @property
    def has_open(self) -> bool:
        """Whether it has an open transaction."""
        return self.first_offset != NOTHING_OPEN

    @property
    def last_sequence(self) -> int:
        """Of its last batch in this epoch; NO_SEQUENCE without one."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def append(self, epoch: int, batch: Batch, now_ms: int) -> None:
        """This batch of this epoch, which is not before the known one, is in the log."""
        batches = self.batches
        if self.epoch != epoch:
            self.epoch = epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.used_ms, self.last_offset, self.timestamp = now_ms, batch.last_offset, batch.timestamp

    def end(self, epoch: int, coordinator_epoch: int, offset: int, timestamp: int, now_ms: int) -> None:
        """A marker of this epoch is in the log (`ProducerStateEntry.update`)."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches.clear()
        self.coordinator_epoch, self.first_offset = coordinator_epoch, NOTHING_OPEN
        self.used_ms, self.last_offset, self.timestamp = now_ms, offset, timestamp

    def find(self, first_sequence: int, last_sequence: int) -> Batch | None:
        """The kept batch of exactly this range of sequences; overlapping it in part is not the same batch."""
        for batch in reversed(self.batches):
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return batch
        return None


def sequence_after(sequence: int) -> int:
    """The sequence that follows: 0 after the largest."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


def advance_sequence(sequence: int, steps: int) -> int:
    """The sequence `steps` (0 to 2^31-1) further on, wrapping (``DefaultRecordBatch.incrementSequence``)."""
    return (sequence + steps) & MAX_SEQUENCE
