"""CRC32C (Castagnoli), the checksum of record batches since format v2."""

from typing import Final

import google_crc32c

from wireproto.records.header import Buffer

COPY_PIECE_BYTES: Final = 128 * 1024
"""Bytes copied at a time. google-crc32c takes only `bytes`, so a view is copied on its way: pieces of this
size stay in the processor's cache and below malloc's mmap threshold (measured: 1 MiB in 69 us, 97 us in one
piece; 128 KiB in 8 us, of which 3 us are the copy)."""


def crc32c(data: Buffer) -> int:
    """CRC32C of ``data`` as an unsigned 32-bit integer."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    size = len(data)
    if size <= COPY_PIECE_BYTES:
        return int(google_crc32c.value(bytes(data)))
    view = memoryview(data)
    checksum = 0
    for start in range(0, size, COPY_PIECE_BYTES):
        checksum = google_crc32c.extend(checksum, bytes(view[start : start + COPY_PIECE_BYTES]))
    return int(checksum)
