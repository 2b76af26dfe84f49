"""A batch's header over records that were made anew: length and CRC are computed."""

from wireproto.records.crc import crc32c
from wireproto.records.header import CRC_START, HEADER, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, BatchHeader


def sign(header: BatchHeader, records: bytes) -> bytes:
    """The batch of this header and these (compressed) records. Its length and CRC fields are ignored."""
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(records)
    unsigned = HEADER.pack(*header._replace(batch_length=length, crc=0))
    crc = crc32c(unsigned[CRC_START:] + records)
    return HEADER.pack(*header._replace(batch_length=length, crc=crc)) + records
