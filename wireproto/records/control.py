"""The control batch that ends a transaction (KIP-98; Kafka's ``EndTransactionMarker``).

A batch of format v2 with the transactional and the control flag, uncompressed, without a sequence, of the
producer whose transaction ends. Its one record takes one offset::

    key    version int16 = 0 | type int16: 0 abort, 1 commit
    value  version int16 = 0 | epoch of the transaction coordinator int32

Readers take later versions, and bytes behind these, as Kafka's do.
"""

from struct import Struct
from typing import Final, NamedTuple

from wireproto.records.builder import build_batch
from wireproto.records.errors import invalid
from wireproto.records.header import CONTROL_FLAG, HEADER_BYTES, TRANSACTIONAL_FLAG, Buffer, read_header
from wireproto.records.iteration import iter_records

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0

MAX_MARKER_BYTES: Final = HEADER_BYTES + 64
"""Bytes of a marker's batch, rounded up."""


class EndMarker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it."""

    is_commit: bool
    coordinator_epoch: int


def marker_batch(producer_id: int, producer_epoch: int, marker: EndMarker, timestamp: int) -> bytes:
    """The control batch, to be given its offset (``assign_offsets``); `timestamp` in ms since 1970."""
    key = _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [(key, value, (), timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
    )


def read_marker(content: Buffer) -> EndMarker:
    """The marker in the control batch ``content``.

    Raises :class:`InvalidBatch`: INVALID_RECORD; it is no control batch, or none that ends a transaction.
    """
    if not read_header(content).is_control:
        raise invalid("the batch is no control batch")
    record = next(iter_records(content, MAX_MARKER_BYTES), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise invalid("a control batch without a control record")
    version, kind = _KEY.unpack_from(record.key)
    if version < _VERSION or kind not in {ABORT, COMMIT}:
        raise invalid(f"a control record of version {version} and type {kind} ends no transaction")
    if record.value is None or len(record.value) < _VALUE.size:
        raise invalid("a transaction's end without the coordinator's epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(kind == COMMIT, coordinator_epoch)
