"""Where the write-ahead log of a SQLite file ends, and whether that end can be believed.

SQLite ends the recovery of its log at the first frame whose checksum does not hold, and says nothing: that
is how it passes over a commit that a power loss cut off. A flipped bit in the middle of the log looks the
same to it, and takes all commits after it. What tells them apart: a commit is forced to disk before the next
one begins. So of a power loss only frames of one transaction can be bad, the last one; a frame of a later one
proves that the bad one was whole once.

Rule: the log is **damaged** if a frame of the present log follows the transaction to which the first bad
frame belongs, or if its header is bad and there are frames after it. Otherwise its end was cut by a power
loss, and what was cut was acknowledged to nobody, unless the last transaction itself was damaged: that cannot
be seen here.

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
    order = {LITTLE_ENDIAN: "<", BIG_ENDIAN: ">"}.get(magic)
    if order is None or _sum(order, (0, 0), log[:CHECKED_HEADER_BYTES]) != (first, second):
        return LogTail(0, 0, "its header is bad")
    frames = [
        (FRAME.unpack_from(log, at), log[at : at + FRAME.size + page_bytes])
        for at in range(HEADER.size, len(log) - FRAME.size + 1, FRAME.size + page_bytes)
    ]
    sums = (first, second)
    for number, (fields, content) in enumerate(frames):
        sums = _sum(order, sums, content[:CHECKED_FRAME_BYTES])
        sums = _sum(order, sums, content[FRAME.size :])
        if list(fields[2:4]) != salt or fields[4:] != sums or len(content) < FRAME.size + page_bytes:
            return _end([fields for fields, _ in frames], number, salt)
    return LogTail(len(frames), 0, "")


def _end(frames: list[tuple[int, ...]], bad: int, salt: list[int]) -> LogTail:
    """What the first bad frame means."""
    present = [number for number in range(bad, len(frames)) if _is_present(frames[number], salt)]
    if not present:
        return LogTail(bad, 0, "")  # what follows was left by an earlier use of the log
    end = next((number for number in present if frames[number][1]), len(frames))
    if present[-1] > end:
        later = sum(number > end for number in present)
        return LogTail(
            bad, 0, f"frame {bad + 1} is bad, and {later} of transactions that were written later are not"
        )
    return LogTail(bad, len(present), "")


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
