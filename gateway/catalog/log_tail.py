"""Where the write-ahead log of a SQLite file ends, and whether that end can be believed.

SQLite ends the recovery of its log at the first frame whose checksum does not hold, and says nothing: that
is how it passes over a commit that a power loss cut off. A flipped bit in the middle of the log looks the
same to it, and takes all commits after it. What tells them apart: a commit is forced to disk before the next
one begins. So of a power loss only frames of one transaction can be bad, the last one; a frame of a later one
proves that the bad one was whole once.

Rule: the log is **damaged** if a frame of its present use follows the transaction to which the first bad
frame belongs; if that frame would hold with one bit changed; or if the log's header is bad and there are
frames after it. Otherwise its end was cut by a power loss, and what was cut was acknowledged to nobody. (What
takes more than a bit of the very last transaction cannot be told from that.)

Where a transaction ends is said by its last frame, and a bad frame is believed only where a power loss cannot
have left a part of its header from an earlier use of the log: disks write sectors whole.

The format is that of https://sqlite.org/fileformat2.html#walformat. A log is used again from its beginning,
with another salt, once all of it is in the database; frames of before are left after the present end.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

HEADER: Final = struct.Struct(">8I")
"""Magic, format, page size, checkpoint number, two salts, checksum in two halves."""
FRAME: Final = struct.Struct(">6I")
"""Page number, pages of the database after a commit (0: none here), two salts, checksum in two halves."""
LITTLE_ENDIAN: Final = 0x377F0682
BIG_ENDIAN: Final = 0x377F0683
"""The magic says in which order a checksum takes the bytes of a word."""
WORD: Final = 0xFFFFFFFF
CHECKED_HEADER_BYTES: Final = 24
CHECKED_FRAME_BYTES: Final = 8
"""What of the headers their checksums are of; a frame's is also of its page, and of all frames before it."""


PAGE_BYTES: Final = frozenset(1 << n for n in range(9, 17))
"""The sizes that a page may have."""
SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all, at least."""


class LogTail(NamedTuple):
    """How a log ends.

    frames: those that hold, from the beginning on.
    cut: frames of one transaction after them that was never written whole.
    damage: what is wrong with it; empty where nothing is.
    """

    frames: int
    cut: int
    damage: str


def log_tail(path: Path) -> LogTail:
    """How the log in this file ends; one that is absent or empty has no frames.

    Reads and sums up the whole log: 0.1 s for the 4 MB at which SQLite begins it anew.
    """
    try:
        log = path.read_bytes()
    except FileNotFoundError:
        return LogTail(0, 0, "")
    if len(log) <= HEADER.size:
        return LogTail(0, 0, "")
    magic, _, page_bytes, _, *salt, first, second = HEADER.unpack_from(log)
    if page_bytes not in PAGE_BYTES:
        return LogTail(0, 0, "its header is bad")
    order = {LITTLE_ENDIAN: "<", BIG_ENDIAN: ">"}.get(magic)
    if order is None or _sum(order, (0, 0), log[:CHECKED_HEADER_BYTES]) != (first, second):
        return LogTail(0, 0, "its header is bad")
    frames = _Frames(log, page_bytes, order)
    sums = (first, second)
    for number in range(len(frames)):
        sums = frames.sum_after(number, sums)
        fields = frames.fields(number)
        if list(fields[2:4]) != salt or fields[4:] != sums or not frames.is_whole(number):
            return _end(frames, number, salt, sums)
    return LogTail(len(frames), 0, "")


class _Frames:
    """The places for frames in a log."""

    def __init__(self, log: bytes, page_bytes: int, order: str) -> None:
        self._log = log
        self._size = FRAME.size + page_bytes
        self._order = order

    def __len__(self) -> int:
        return max(0, (len(self._log) - HEADER.size - FRAME.size) // self._size + 1)

    def _at(self, number: int) -> int:
        return HEADER.size + number * self._size

    def fields(self, number: int) -> tuple[int, ...]:
        """As in `FRAME`."""
        return FRAME.unpack_from(self._log, self._at(number))

    def is_whole(self, number: int) -> bool:
        """Whether the file does not end in it."""
        return self._at(number) + self._size <= len(self._log)

    def has_whole_header(self, number: int) -> bool:
        """Whether its header lies in one sector, which is written or not."""
        return self._at(number) % SECTOR_BYTES <= SECTOR_BYTES - FRAME.size

    def checked(self, number: int) -> bytes:
        """What its checksum is of, beside the frames before it."""
        at = self._at(number)
        page = self._log[at + FRAME.size : at + self._size]
        return self._log[at : at + CHECKED_FRAME_BYTES] + page

    def sum_after(self, number: int, before: tuple[int, int]) -> tuple[int, int]:
        """The checksum that it has to have, after this one."""
        return _sum(self._order, before, self.checked(number))


def _end(frames: _Frames, bad: int, salt: list[int], sums: tuple[int, int]) -> LogTail:
    """What the first bad frame means, which has to have these sums."""
    present = [n for n in range(bad, len(frames)) if _is_present(frames.fields(n), salt)]
    if not present:
        return LogTail(bad, 0, "")  # what follows was left by an earlier use of the log
    if present[0] == bad and frames.is_whole(bad) and _is_one_bit_off(frames, bad, salt, sums):
        return LogTail(bad, 0, f"a bit of frame {bad + 1} is not as it was written")
    end = next((n for n in present if _ends_there(frames, n)), len(frames))
    if present[-1] > end:
        later = sum(number > end for number in present)
        return LogTail(
            bad, 0, f"frame {bad + 1} is bad, and {later} of transactions that were written later are not"
        )
    return LogTail(bad, len(present), "")


def _ends_there(frames: _Frames, number: int) -> bool:
    """Whether a frame after a bad one, or that one, says credibly that a transaction ends with it."""
    if not frames.fields(number)[1]:
        return False
    if frames.has_whole_header(number):
        return True
    stored = frames.fields(number - 1)[4:] if number else ()
    return len(stored) == 2 and frames.sum_after(number, (stored[0], stored[1])) == frames.fields(number)[4:]


def _is_one_bit_off(frames: _Frames, number: int, salt: list[int], sums: tuple[int, int]) -> bool:
    """Whether one bit of a frame, changed, would let it hold."""
    fields = frames.fields(number)
    wrong = [found ^ right for found, right in zip(fields[2:], (*salt, *sums), strict=True)]
    if sum(word.bit_count() for word in wrong) == 1:
        return frames.has_whole_header(number)
    if wrong[0] or wrong[1]:
        return False
    # A bit of a word adds or takes a power of two. What that makes of the sums depends on the words after it.
    needed = ((fields[4] - sums[0]) & WORD, (fields[5] - sums[1]) & WORD)
    first, second = (1, 1), (0, 1)
    for _ in range(len(frames.checked(number)) // 8):
        for weight in (first, second):
            for bit in range(32):
                for change in (1 << bit, -(1 << bit)):
                    if (weight[0] * change & WORD, weight[1] * change & WORD) == needed:
                        return True
        first = (first[0] + first[1]) & WORD, (first[0] + 2 * first[1]) & WORD
        second = (second[0] + second[1]) & WORD, (second[0] + 2 * second[1]) & WORD
    return False


def _is_present(frame: tuple[int, ...], salt: list[int]) -> bool:
    """Whether a frame is of the present use of the log. A flipped bit may be in one of its salts."""
    return frame[2] == salt[0] or frame[3] == salt[1]


def _sum(order: str, before: tuple[int, int], content: bytes) -> tuple[int, int]:
    """SQLite's checksum over pairs of words, going on from `before`."""
    one, two = before
    words = struct.unpack_from(f"{order}{len(content) // 8 * 2}I", content)
    pairs = iter(words)
    for first, second in zip(pairs, pairs, strict=True):
        one = (one + first + two) & WORD
        two = (two + second + one) & WORD
    return one, two
