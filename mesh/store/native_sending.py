"""The records of one native FETCH on their way to who asked: at a bounded pace, many in one message to
whoever takes that, one by one to others.
"""

from collections.abc import Iterator, Sequence

import trio

from mesh.protocol.address_state import life_of
from mesh.zmq_trio import Publisher
from wireproto.dafka import ids
from wireproto.dafka.additions import DirectRecordsEncoder
from wireproto.dafka.messages import DirectRecordEncoder, Fetch

NATIVE_SEND_RECORDS = 256
NATIVE_SEND_BYTES = 1024 * 1024
"""Records and bytes sent at a time; then the sender rests, so that the reader's queue does not overflow and
others get their turn."""

NATIVE_TOGETHER_RECORDS = 2048
"""Records in one message, for readers that take many; `NATIVE_SEND_BYTES` bounds them, too."""

NATIVE_RECORDS_PER_SECOND = 100_000
NATIVE_BYTES_PER_SECOND = 128 * 1024 * 1024
"""The fastest that one native reader is sent records."""


class NativeSending:
    """Of one FETCH. `send` what is here of what it asks for."""

    def __init__(self, publisher: Publisher, asked: Fetch) -> None:
        self._publisher = publisher
        requester, address, subject = asked.requester, asked.address, asked.subject
        # A reader subscribes to its name, a gateway to what all names of its life begin with.
        whose = (requester, life_of(requester))
        self._together = (
            DirectRecordsEncoder(requester, address, subject)
            if any(publisher.subscribed(ids.DIRECT_RECORDS + name.encode()) for name in whose)
            else None
        )
        self._each = DirectRecordEncoder(requester, "", address, subject)
        self.at_once = NATIVE_SEND_RECORDS if self._together is None else NATIVE_TOGETHER_RECORDS
        """Records that are sent at a time."""

    async def send(self, following: int, contents: Sequence[bytes]) -> int:
        """Send these, `following` first, and rest after each part; the sequence behind them."""
        for some in self._parts(contents):
            # A read that was under way when the store was stopped ends here: the sockets may be closed.
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._together is not None:
                self._publisher.send(self._together.frames(following, some))
            else:
                for sequence, content in enumerate(some, following):
                    self._publisher.send(self._each.frames(sequence, content))
            following += len(some)
            size = sum(map(len, some))
            await trio.sleep(max(len(some) / NATIVE_RECORDS_PER_SECOND, size / NATIVE_BYTES_PER_SECOND))
        return following

    def _parts(self, contents: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """What is sent at a time."""
        start = size = 0
        for end, content in enumerate(contents, 1):
            size += len(content)
            if size >= NATIVE_SEND_BYTES or end - start == self.at_once or end == len(contents):
                yield contents[start:end]
                start, size = end, 0
