"""A producer's batch stored with another codec than it came with, and what opening it tells.

Both decode or inflate the batch: never on the event loop for batches of any size.
"""

from collections.abc import Callable

from wireproto.records.compression import MAX_DECOMPRESSED_BYTES, compress, no_look
from wireproto.records.errors import invalid
from wireproto.records.header import CODEC_MASK, BatchHeader, Buffer
from wireproto.records.iteration import inflated_records, record_bounds
from wireproto.records.signing import sign
from wireproto.records.varint import read_varint, read_varlong

_NULL = -1


def recompress(
    view: Buffer,
    header: BatchHeader,
    codec: int,
    level: int | None,
    limit: int = MAX_DECOMPRESSED_BYTES,
    look: Callable[[], object] = no_look,
) -> bytes:
    """The batch with its records compressed by `codec` (at `level`, None: the codec's own default).

    Calls `look` between pieces: what it raises ends the work.

    Raises :class:`InvalidBatch`: it cannot be inflated; see ``iter_records``.
    """
    records = inflated_records(view, header, limit, look)
    attributes = header.attributes & ~CODEC_MASK | codec
    return sign(header._replace(attributes=attributes), compress(codec, records, level, look))


def keyless_records(view: Buffer, header: BatchHeader, limit: int = MAX_DECOMPRESSED_BYTES) -> list[int]:
    """The places in the batch of the records that have no key.

    Raises :class:`InvalidBatch`: it cannot be read; see ``iter_records``.
    """
    body = inflated_records(view, header, limit)
    position = 0
    found = []
    for index in range(header.count):
        start, end = record_bounds(body, position)
        _, place = read_varlong(body, start + 1, end)
        _, place = read_varint(body, place, end)
        key_bytes, place = read_varint(body, place, end)
        if key_bytes < _NULL or key_bytes > end - place:
            raise invalid(f"a key of {key_bytes} bytes where {end - place} are left")
        if key_bytes == _NULL:
            found.append(index)
        position = end
    return found
