"""Batches that are wrong on purpose."""

import struct

from wireproto.records.crc import crc32c
from wireproto.records.header import HEADER, BatchHeader


def altered(batch: bytes, **fields: int) -> bytes:
    """``batch`` with header fields replaced; the CRC is made right again unless it is itself among them."""
    header = BatchHeader._make(HEADER.unpack_from(batch))._replace(**fields)
    changed = HEADER.pack(*header) + batch[HEADER.size :]
    return changed if "crc" in fields else resealed(changed)


def resealed(batch: bytes) -> bytes:
    """``batch`` with the CRC of what its length field covers."""
    (length,) = struct.unpack_from(">i", batch, 8)
    covered = batch[21 : 12 + length] if length >= 49 else batch[21:]
    return batch[:17] + struct.pack(">I", crc32c(covered)) + batch[21:]
