"""A producer's batch stored with another codec than it came with.

It deflates the records: never on the event loop for batches of any size.
"""

from wireproto.records.compression import compress
from wireproto.records.header import CODEC_MASK, BatchHeader, Buffer
from wireproto.records.signing import sign


def recompressed(header: BatchHeader, body: Buffer, codec: int, level: int | None) -> bytes:
    """The batch of `header` whose inflated records are `body`, compressed by `codec` (at `level`, None: the
    codec's own default).
    """
    attributes = header.attributes & ~CODEC_MASK | codec
    return sign(header._replace(attributes=attributes), compress(codec, body, level))
