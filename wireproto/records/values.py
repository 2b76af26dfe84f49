"""The values of a batch, for who wants nothing else of its records. The compiled parser reads them."""

from wireproto.records.compression import MAX_DECOMPRESSED_BYTES
from wireproto.records.errors import invalid
from wireproto.records.header import BatchHeader, Buffer, read_header
from wireproto.records.iteration import inflated_records, iter_records


def values_of(view: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> list[tuple[int, bytes]]:
    """Offset and value of each record of the batch that ``view`` begins with; no value is an empty one. The
    offsets ascend, and are the batch's.

    Raises :class:`InvalidBatch`: as ``iter_records``; INVALID_RECORD when the offsets do not ascend.
    """
    header = read_header(view)
    found = _compiled(view, header, limit)
    if found is None:
        found = [(record.offset, record.value or b"") for record in iter_records(view, limit)]
    offsets = [offset for offset, _ in found]
    if offsets != sorted(set(offsets)) or (offsets and offsets[0] < header.base_offset):
        raise invalid("the offsets of the records do not ascend")
    if offsets and offsets[-1] > header.last_offset:
        raise invalid(f"a record at offset {offsets[-1]}, behind the batch's last, {header.last_offset}")
    return found


def _compiled(view: Buffer, header: BatchHeader, limit: int) -> list[tuple[int, bytes]] | None:
    """As `values_of`, whatever the offsets are; None: our own parser is to say what is wrong."""
    from wireproto.records import compiled  # as in `walk`

    if not compiled.AVAILABLE:
        return None
    body = inflated_records(view, header, limit)
    base = header.base_offset
    try:
        parsed = compiled.Window(body).records(header.count, len(body))
        return [(base + record.offset, record.value or b"") for record in parsed]
    except compiled.REFUSALS:
        return None
