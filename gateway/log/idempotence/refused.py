"""Idempotent producers of which a batch for a partition was refused, until that batch comes again.

Kafka lets a producer that it knows nothing of begin with any sequence. A client has several batches in
flight: when the first is refused for want of room and the second is not, the second would be that beginning,
and the first, sent again, would be out of order for good. So while the first is missing, later ones are
refused as well.

They are refused with an error that every client repeats, and not as out of order, also where the producer is
known: librdkafka takes that for a reason to begin a new epoch, for all partitions, and what it has in flight
to others, maybe appended there already, it then sends again under that epoch: nobody could tell that it is a
duplicate. franz-go gives its records up.
"""

from collections import OrderedDict
from typing import Final

from gateway.log.idempotence.producer import MAX_SEQUENCE
from wireproto.kafka.errors import ErrorCode, KafkaError

MAX_REFUSED_PRODUCERS: Final = 1_000
"""Such producers per partition, about 200 bytes each; beyond it the oldest is forgotten, and may begin
anywhere as in Kafka."""

_HALF: Final = 1 << 30
"""Sequences wrap at 2^31: one is after another if it is less than half of that ahead."""


class RefusedProducers:
    """The refused producers of one partition. All methods return at once."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        # producer id -> (epoch, lowest sequence that was refused)
        self._first: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._first)

    def add(self, producer_id: int, epoch: int, sequence: int) -> None:
        """A batch was refused, and will be sent again."""
        known = self._first.get(producer_id)
        if known is not None and known[0] == epoch and _after(sequence, known[1]):
            return
        if known is None and len(self._first) >= MAX_REFUSED_PRODUCERS:
            self._first.popitem(last=False)
        self._first[producer_id] = epoch, sequence

    def check(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Raises KafkaError (NOT_ENOUGH_REPLICAS) when an earlier batch is still to come.

        Another epoch begins anew: its producer has given up what was refused.
        """
        known = self._first.get(producer_id)
        if known is not None and known[0] == epoch and known[1] != sequence and _after(sequence, known[1]):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"producer {producer_id} sent sequence {sequence}, and {known[1]} was refused before it",
            )

    def is_awaited(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Whether the batch with this sequence is to come: it was refused, or others before it were that are
        here all the same, since an earlier leader had taken them.
        """
        known = self._first.get(producer_id)
        return known is not None and known[0] == epoch and _after(sequence, known[1])

    def accepted(self, producer_id: int) -> None:
        """A batch of the producer was appended: from here on its state says what is next."""
        self._first.pop(producer_id, None)


def _after(sequence: int, other: int) -> bool:
    """Whether `sequence` is `other` or comes after it."""
    return (sequence - other) & MAX_SEQUENCE < _HALF
