"""The header of a record batch of format v2 (KIP-98; Kafka's ``DefaultRecordBatch``).

::

     0  base offset        int64    the first four fields and the CRC are not covered by the CRC:
     8  batch length       int32    a server may write them. The length counts what follows it
    12  leader epoch       int32
    16  magic              int8     2
    17  CRC32C             uint32   of everything that follows
    21  attributes         int16    0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
    23  last offset delta  int32
    27  base timestamp     int64    ms; with the delete horizon bit, that horizon
    35  max timestamp      int64    ms
    43  producer id        int64
    51  producer epoch     int16
    53  base sequence      int32
    57  record count       int32
    61  the records, compressed as a whole with the codec
"""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from wireproto.records.errors import corrupt

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What holds bytes here. Views have one byte an item."""

HEADER_BYTES: Final = 61
"""Bytes before the records (Kafka: `RECORD_BATCH_OVERHEAD`)."""

LENGTH_OVERHEAD_BYTES: Final = 12
"""Bytes up to the end of the batch length field, which the batch length does not count (Kafka:
`LOG_OVERHEAD`)."""

CRC_OFFSET: Final = 17
"""Where the CRC stands."""
CRC_START: Final = 21
"""Where the bytes begin that the CRC covers."""

MAGIC: Final = 2
"""The only format that Kafka 4 takes from producers and that we store."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_TIMESTAMP: Final = -1
"""Kafka's `NO_TIMESTAMP`: a record or batch without one, in milliseconds."""
NO_PRODUCER_ID: Final = -1
"""Kafka's `NO_PRODUCER_ID`: a producer that is not idempotent."""

HEADER: Final = Struct(">qiibIhiqqqhii")


class BatchHeader(NamedTuple):
    """The fields of a batch's header, as they stand in it. Timestamps are milliseconds since 1970."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # the field hides tuple.count, which nobody needs here

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing."""
        return self.attributes & CODEC_MASK

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def is_log_append_time(self) -> bool:
        """Every record has the timestamp ``max_timestamp``, whatever its own delta says."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may drop the batch's tombstones (KIP-534), in ms; kept in the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def read_header(view: Buffer) -> BatchHeader:
    """The header at the start of ``view``, which may hold more than one batch or only a header.

    Checked is only that the fields can be used: the header is all there, its magic is 2, its length is not
    below a header's.

    Raises :class:`InvalidBatch`: CORRUPT_MESSAGE.
    """
    if len(view) < HEADER_BYTES:
        raise corrupt(f"{len(view)} bytes are no batch header")
    header = BatchHeader._make(HEADER.unpack_from(view))
    if header.magic != MAGIC:
        raise corrupt(f"magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise corrupt(f"batch length {header.batch_length} is less than a header")
    return header
