"""Size-prefixed frames out of a byte stream: four bytes, big endian, then that many bytes.

Theory of operation. The caller receives into :meth:`FrameReader.buffer`, says how much came with
:meth:`FrameReader.received`, and takes frames with :meth:`FrameReader.next_frame` until it gives ``None``;
then it receives again. Bytes land in a small receive buffer, which holds many small requests of one
``recv``. Once the size of a big frame is known, the frame gets a buffer of exactly its size and the rest of
it is received straight into that: nothing is copied twice, and a records field is a slice of it.
``wants_allocation`` says so beforehand, so that the caller can take the bytes from its budget (or wait)
before they are allocated.

A frame is never shared: its memoryview is writable and is the only one on its memory, so a record batch in it
may be changed in place and may outlive the connection.
"""

from mmap import mmap
from struct import Struct
from typing import Final

from wireproto.kafka.errors import MalformedRequest

BIG_FRAME_BYTES: Final = 16 * 1024
"""Frames of at least so many bytes get a buffer of their own as soon as their size is known. Below it one
copy is cheaper than one more system call for the rest of the frame."""

MAPPED_FRAME_BYTES: Final = 1024 * 1024
"""From this size on a frame's buffer is anonymous memory whose pages appear as they are received: 100 MiB of
zeroes would block the event loop for 70 ms and be resident before the first byte of the frame."""

INITIAL_RECEIVE_BYTES: Final = 8 * 1024
"""Receive buffer of a new connection: 2,000 idle connections cost 16 MB."""

MAX_RECEIVE_BYTES: Final = 64 * 1024
"""Receive buffer of a busy connection; it doubles up to here when a receive filled it. More does not help:
the kernel rarely hands out more than this at once, and it bounds how many small requests wait in one
connection."""

_TLS_HANDSHAKE: Final = 0x1603
"""How a connection begins over which TLS is spoken: a record of a handshake, of version 3.x."""

_SIZE: Final = Struct(">i")


class FrameReader:
    """The receiving side of one connection. Not safe for use by two tasks at once.

    ``max_frame_bytes`` (bytes, without the size field) may be changed between frames, as when a client has
    authenticated. After a :class:`MalformedRequest` the reader is of no more use: it raises the same again.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_error",
        "_filled",
        "_start",
        "_was_filled",
        "max_frame_bytes",
        "pending_bytes",
    )

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.pending_bytes = 0
        """Size of the frame whose header is known but whose bytes are not all here; 0 if there is none."""
        self._buffer = bytearray(INITIAL_RECEIVE_BYTES)
        self._start = 0  # first byte in _buffer that belongs to no frame handed out
        self._filled = 0  # end of the bytes received, in _body if there is one, else in _buffer
        self._was_filled = False  # the last receive filled _buffer: the next one gets a bigger buffer
        self._body: bytearray | mmap | None = None  # of the big frame under way
        self._error: MalformedRequest | None = None

    def wants_allocation(self) -> int:
        """How many bytes the next :meth:`buffer` allocates for a big frame: 0, or the size of that frame."""
        return self.pending_bytes if self.pending_bytes >= BIG_FRAME_BYTES and self._body is None else 0

    def buffer(self) -> memoryview:
        """Where to receive next:

        Never empty. Valid until the next call of any method but :meth:`received`.
        """
        if self.wants_allocation():
            self._start_body()
        if self._body is not None:
            return memoryview(self._body)[self._filled :]
        self._make_room()
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> None:
        """``count`` bytes were put at the start of what :meth:`buffer` gave."""
        self._filled += count
        if self._body is None and self._filled == len(self._buffer):
            self._was_filled = len(self._buffer) < MAX_RECEIVE_BYTES

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size field, or ``None`` when more bytes are needed.

        Raises :class:`MalformedRequest` when the size is negative or above ``max_frame_bytes``; nothing was
        allocated for it then.
        """
        if self._body is not None:
            return self._take_body()
        available = self._filled - self._start
        if self.pending_bytes == 0:
            if available < _SIZE.size:
                return None
            self._read_size()
        end = self._start + _SIZE.size + self.pending_bytes
        if end > self._filled:
            return None
        frame = memoryview(self._buffer[self._start + _SIZE.size : end])
        self.pending_bytes = 0
        self._start = end
        if end == self._filled:
            self._start = self._filled = 0
        return frame

    def _read_size(self) -> None:
        if self._error is not None:
            raise self._error
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self.max_frame_bytes:
            self._error = MalformedRequest(
                "it speaks TLS, and this listener does not: the client's security.protocol is another one"
                if size >> 16 == _TLS_HANDSHAKE
                else f"frame size {size} is not within 0 to {self.max_frame_bytes}"
            )
            raise self._error
        self.pending_bytes = size

    def _start_body(self) -> None:
        """Give the pending frame its own buffer and move what is here of it there."""
        here = memoryview(self._buffer)[self._start + _SIZE.size : self._filled]
        # A bytearray is zeroed at once: a stated size alone would cost its time and its memory.
        size = self.pending_bytes
        self._body = mmap(-1, size) if size >= MAPPED_FRAME_BYTES else bytearray(size)
        self._body[: len(here)] = here
        self._filled = len(here)
        self._start = 0

    def _take_body(self) -> memoryview | None:
        if self._body is None or self._filled < len(self._body):
            return None
        frame = memoryview(self._body)
        self._body = None
        self._start = self._filled = self.pending_bytes = 0
        return frame

    def _make_room(self) -> None:
        """Room at the end of the receive buffer, for the whole of the pending frame if there is one."""
        capacity = len(self._buffer)
        needed = _SIZE.size + self.pending_bytes
        if not self._was_filled and self._filled < capacity and self._start + needed <= capacity:
            return
        rest = self._buffer[self._start : self._filled]
        if self._was_filled or needed > capacity:
            self._buffer = bytearray(min(MAX_RECEIVE_BYTES, max(2 * capacity, needed)))
        if len(rest) >= len(self._buffer):
            raise RuntimeError("take the frames that are here before receiving more")
        self._buffer[: len(rest)] = rest
        self._start, self._filled, self._was_filled = 0, len(rest), False
