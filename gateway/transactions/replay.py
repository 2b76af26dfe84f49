"""What a partition of `__transaction_state` says of its ids.

Pure. See `gateway.journal.replay`: of each key the last record counts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.journal import replay
from gateway.journal.fields import MalformedRecord, UnknownRecord
from gateway.journal.replay import Slices
from gateway.transactions.internal_topic import TRANSACTION_TOPIC
from gateway.transactions.metadata import TransactionMetadata
from gateway.transactions.records import decode_record

PARTITIONS_BYTES: Final = 512
"""So many bytes of a record take as long as another one: there are partitions in them."""


class LoadedTransaction(NamedTuple):
    """A transactional id as the log has it, at this offset."""

    metadata: TransactionMetadata
    offset: int


class Replay(replay.Replay):
    """The transactional ids of one partition, as far as it was fed."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"{TRANSACTION_TOPIC}-{partition}")
        self.transactions: dict[str, LoadedTransaction] = {}
        """What was found, once it is finished."""

    def finish(self) -> Slices:
        """Those that are not forgotten; `transactions` are there then."""
        for key, (offset, value) in self._latest.items():
            try:
                record = decode_record(key, value)
            except (UnknownRecord, MalformedRecord) as error:
                self._pass_over(offset, error)
            else:
                if record.metadata is not None:
                    loaded = LoadedTransaction(record.metadata, offset)
                    self.transactions[record.transactional_id] = loaded
            if self._is_slice(1 + len(value or b"") // PARTITIONS_BYTES):
                yield
        yield from self._forget_records()
