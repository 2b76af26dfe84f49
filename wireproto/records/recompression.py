"""A producer's batch stored with another codec than it came with.

It deflates the records: never on the event loop for batches of any size.
"""

from collections.abc import Callable

from wireproto.records.compression import compress, no_look
from wireproto.records.header import CODEC_MASK, BatchHeader, Buffer
from wireproto.records.signing import sign


def recompressed(
    header: BatchHeader, body: Buffer, codec: int, level: int | None, look: Callable[[], object] = no_look
) -> bytes:
    """The batch of `header` whose inflated records are `body`, compressed by `codec` (at `level`, None: the
    codec's own default). Calls `look` between pieces: what it raises ends the work.
    """
    attributes = header.attributes & ~CODEC_MASK | codec
    return sign(header._replace(attributes=attributes), compress(codec, body, level, look))
