"""The records of one native FETCH on their way to who asked: at a bounded pace, many in one message to
whoever takes that, one by one to others.
"""

from collections.abc import Iterator, Sequence

import trio

from mesh.links import Publisher
from mesh.protocol.address_state import life_of
from wireproto.dafka import ids
from wireproto.dafka.additions import DirectRecordsEncoder
from wireproto.dafka.messages import DirectRecordEncoder, Fetch, named_heads_prefix

NATIVE_SEND_RECORDS = 256
NATIVE_SEND_BYTES = 1024 * 1024
NATIVE_TOGETHER_BYTES = 64 * 1024
"""Records and bytes sent at a time, and bytes that go in one message; a larger record goes alone. The sender
rests between, so that the reader's queue does not overflow and others get their turn."""

REST_SECONDS = 0.002
"""The shortest rest: one takes as long as the turns of others last."""

NATIVE_READ_RECORDS = 2048
"""Records read at a time for readers that take many: each time is some turns of the loop."""

NATIVE_ANSWER_BYTES = 8 * 1024 * 1024
"""After so many these readers are to ask again: they have no room for more."""

NATIVE_TOGETHER_PER_SECOND = 1_000_000
NATIVE_RECORDS_PER_SECOND = 100_000
NATIVE_BYTES_PER_SECOND = 128 * 1024 * 1024
"""The fastest that one native reader is sent records: those that go together, and others."""


def hears_names(publisher: Publisher, requester: str) -> bool:
    """Whether this reader is to be told which store answers it."""
    return any(publisher.subscribed(named_heads_prefix(name)) for name in _names(requester))


def _names(requester: str) -> tuple[str, str]:
    """A reader subscribes to its name, a gateway to what all names of its life begin with."""
    return requester, life_of(requester)


class NativeSending:
    """Of one FETCH. `send` what is here of what it asks for, unless it is `full`."""

    def __init__(self, publisher: Publisher, said: str, asked: Fetch) -> None:
        """`said`: what the store calls itself, "" to who takes no name."""
        self._publisher = publisher
        requester, address, subject = asked.requester, asked.address, asked.subject
        self._each = DirectRecordEncoder(requester, said, address, subject)
        self._together: DirectRecordsEncoder | None = None
        self.at_once = NATIVE_SEND_RECORDS
        """Records that are to be read at a time."""
        self._bytes, self._pace = NATIVE_SEND_BYTES, NATIVE_RECORDS_PER_SECOND
        if any(publisher.subscribed(ids.DIRECT_RECORDS + name.encode()) for name in _names(requester)):
            self._together = DirectRecordsEncoder(requester, address, subject)
            self.at_once = NATIVE_READ_RECORDS
            self._bytes, self._pace = NATIVE_TOGETHER_BYTES, NATIVE_TOGETHER_PER_SECOND
        self._sent = 0
        self._owed = 0.0
        """Seconds of rest."""

    @property
    def full(self) -> bool:
        """Whether that was enough for this answer."""
        return self._together is not None and self._sent >= NATIVE_ANSWER_BYTES

    async def send(self, following: int, contents: Sequence[bytes]) -> int:
        """Send these, `following` first, and rest between, until it is `full`; the sequence behind them."""
        for some in self._parts(contents):
            # A read that was under way when the store was stopped ends here: the sockets may be closed.
            await trio.lowlevel.checkpoint_if_cancelled()
            if self.full:
                break
            if self._together is not None and len(some) > 1:
                self._publisher.send(self._together.frames(following, some))
            else:
                for sequence, content in enumerate(some, following):
                    self._publisher.send(self._each.frames(sequence, content))
            following += len(some)
            size = sum(map(len, some))
            self._sent += size
            self._owed += max(len(some) / self._pace, size / NATIVE_BYTES_PER_SECOND)
            if self._owed >= REST_SECONDS:
                await self._rest()
        return following

    async def _rest(self) -> None:
        owed, self._owed = self._owed, 0.0
        await trio.sleep(owed)

    def _parts(self, contents: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """What is sent at a time: never empty."""
        start = size = 0
        for end, content in enumerate(contents):
            size += len(content)
            if end > start and (size > self._bytes or end - start == NATIVE_SEND_RECORDS):
                yield contents[start:end]
                start, size = end, len(content)
        if contents:
            yield contents[start:]
