"""The end of one transaction, as its coordinator has it written to each partition (KIP-98)."""

from typing import NamedTuple


class Marker(NamedTuple):
    """How a transaction ended.

    `number` is larger for each later transaction of one producer id; 0: who sends it does not know.
    `transaction_version` is that of the protocol its client speaks: from 2 on (KIP-890) `producer_epoch` is
    one more than that of the transaction's batches.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    number: int = 0
    transaction_version: int = 0
