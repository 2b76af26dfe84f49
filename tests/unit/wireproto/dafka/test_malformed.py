"""What strangers may send: every way to break a message is refused with `MalformedMessage`, nothing else."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.wireproto.dafka.vectors import OWN, PIECE, SEGMENT, c_vectors, own_vectors
from wireproto.dafka import beacons
from wireproto.dafka.additions import (
    NOTHING_REMEMBERED,
    AddressStatus,
    Announcement,
    CloseEntry,
    Copy,
    DeleteEntry,
    OpenEntry,
    Remembered,
    SealedHead,
    SealEntry,
    Verified,
)
from wireproto.dafka.errors import MalformedMessage
from wireproto.dafka.fields import MAX_LIST_ENTRIES, Cursor
from wireproto.dafka.messages import decode

GOOD = {name: frames for name, frames in own_vectors().items() if name in OWN and "BEACON" not in name}
C_GOOD = {v["name"]: v["frames"] for v in c_vectors() if "id" in v["fields"]}

SEQUENCE = b"\0\0\0\0\0\0\0\5"
TOO_HIGH = b"\x80\0\0\0\0\0\0\0"
NO_SEQUENCE = b"\xff" * 8
STATUS = b"\2A9\0" + NO_SEQUENCE + b"\0\0\0\0"
NOWHERE = b"\0\0" + NO_SEQUENCE
PLACE = b"\2H1\2G1" + SEQUENCE
SEAL = b"\2A9\0\0\0\4"
CLOSE = b"\2A9" + SEQUENCE
DELETE = b"\2A9\2L0" + SEQUENCE
PUBLISH = PIECE.pack()
TAKEN_UP = GOOD["TAKEN-UP"][0]
TAKEN = b"\0\2A9" + SEQUENCE
ABORTED = PUBLISH[-28:]


def together(count: int, content: bytes, first: bytes = SEQUENCE) -> list[bytes]:
    """DIRECT-RECORDS of so many."""
    return [b"dR7\0\1\2A9\1t" + first + count.to_bytes(4, "big"), content]


def asking(message_id: bytes, *entries: bytes) -> list[bytes]:
    """A request with a list."""
    packed = b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries)
    return [message_id + b"@S1/\0\1\2R7" + len(entries).to_bytes(4, "big") + packed]


def opened(row: bytes) -> list[bytes]:
    """An answer to OPEN with this row."""
    return [b"oR7/S1\0\1\0\0\0\1\2A9\0" + NO_SEQUENCE + len(row).to_bytes(4, "big") + row]


def announcing(place: bytes) -> bytes:
    """An entry of OPEN."""
    packed = SEGMENT.pack()
    return len(packed).to_bytes(4, "big") + packed + place


BROKEN: dict[str, list[bytes]] = {
    "no frame": [],
    "an empty frame": [b""],
    "two empty frames": [b"", b""],
    "one byte": [b"M"],
    "one byte and content": [b"M", b"content"],
    "the id of a tower's welcome alone": [b"W"],
    "a KEEP of no kind": [b"U@S1/\0\1\2R7\0\4\0\0" + NO_SEQUENCE + b"\0" + bytes(8) + bytes(8)],
    "a sequence of no lineage in a KEEP": [b"U@S1/\0\1\2R7\0\1\0\0" + SEQUENCE + b"\0" + bytes(8) + bytes(8)],
    "an empty key in a KEEP": [
        b"U@S1/\0\1\2R7\0\1\0\0" + NO_SEQUENCE + b"\0" + bytes(8) + b"\0\0\0\1" + bytes(8) + bytes(4)
    ],
    "a key twice in a KEEP": [
        b"U@S1/\0\1\2R7\0\1\0\0"
        + NO_SEQUENCE
        + b"\0"
        + bytes(8)
        + b"\0\0\0\2"
        + (b"\0\0\0\1k\0\0\0\0") * 2
        + bytes(4)
    ],
    "a key of 1,025 bytes in a RECALL": [b"J@S1/\0\1\2R7\0\0\4\1" + b"k" * 1025],
    "a truth of 2 in RECALLED": [b"jR7/S1\0\1\0\0\0\0" + NO_SEQUENCE + b"\2" + bytes(4)],
    "no NUL": [b"Kaddress"],
    "NUL and nothing": [b"Kaddress\0"],
    "version 0": [b"Kaddress\0\0\1t" + SEQUENCE],
    "version 2": [b"Kaddress\0\2\1t" + SEQUENCE],
    "version 2 of a record": [b"Mt\0\2\2A9\1t" + SEQUENCE, b""],
    "version 2 of a head": [b"Ht\0\2\2A9\1t" + SEQUENCE],
    "a signature in front": [b"\xaa\xa5Kaddress\0\1\1t" + SEQUENCE],
    "an unknown id": [b"Zaddress\0\1\1t" + SEQUENCE],
    "an unknown id with content": [b"Zaddress\0\1\1t" + SEQUENCE, b""],
    "an id of no letter": [b"\0address\0\1\1t" + SEQUENCE],
    "a lower-case id of the nine": [b"kaddress\0\1\1t" + SEQUENCE],
    "a third frame": [*GOOD["RECORD"], b""],
    "an ACK with content": [*GOOD["ACK"], b""],
    "a record without content": GOOD["RECORD"][:1],
    "a record with a header over 1,035 bytes": [b"Mt\0\1\2A9\1t" + bytes(1100), b""],
    "a direct record without content": GOOD["DIRECT-RECORD"][:1],
    "direct records without content": GOOD["DIRECT-RECORDS"][:1],
    "direct records of none": together(0, b""),
    "4097 direct records": together(4097, bytes(4 * 4097)),
    "direct records beyond the last sequence": together(2, bytes(8), b"\x7f" + b"\xff" * 7),
    "direct records with too few lengths": together(2, bytes(4)),
    "direct records with too few contents": together(2, b"\0\0\0\1\0\0\0\1x"),
    "direct records with too many contents": together(1, b"\0\0\0\1xy"),
    "direct records with a length over 4 GB": together(2, b"\xff" * 8),
    "direct records from a store": [b"dR7/S1\0\1\2A9\1t" + SEQUENCE + b"\0\0\0\1", bytes(4)],
    "direct records with a byte too many": [GOOD["DIRECT-RECORDS"][0] + b"\0", GOOD["DIRECT-RECORDS"][1]],
    "rows without content": GOOD["ROWS/ANSWER"][:1],
    "an ACK for 5,000 bytes": [b"K" + b"a" * 5000 + b"\0\1\1t" + SEQUENCE],
    "a FETCH for 5,000 bytes": [b"F" + b"a" * 5000 + b"\0\1\2R7\1t" + SEQUENCE + b"\0\0\0\1"],
    "GET-HEADS of 5,000 bytes": [b"G" + b"t" * 5000 + b"\0\1\2R7"],
    "GET-HEADS of 256 bytes": [b"G" + b"t" * 256 + b"\0\1\2R7"],
    "a record under 256 bytes": [b"M" + b"t" * 256 + b"\0\1\2A9\xff" + b"t" * 255 + SEQUENCE, b""],
    "a directed FETCH of 256 bytes": [b"F@S1/" + b"a" * 252 + b"\0\1\2R7\1t" + SEQUENCE + bytes(8)],
    "an address of 256 bytes in an ACK": [b"K" + b"a" * 256 + b"\0\1\1t" + SEQUENCE],
    "an incarnation of 256 bytes in an ACK": [b"KA9/" + b"s" * 256 + b"\0\1\1t" + SEQUENCE],
    "an incarnation of 128 two-byte characters": [b"KA9/" + "\u00e9".encode() * 128 + b"\0\1\1t" + SEQUENCE],
    "an incarnation of 256 bytes in a PING": [b"P@" + b"s" * 256 + b"/\0\1\2R7"],
    "NUL inside a topic": [b"Mt\0x\0\1\2A9\1t" + SEQUENCE, b""],
    "NUL inside an address": [b"Mt\0\1\2A\0\1t" + SEQUENCE, b""],
    "NUL inside a subject": [b"KA9\0\1\2t\0" + SEQUENCE],
    "a topic that is not UTF-8": [b"G\xff\0\1\2R7"],
    "an address that is not UTF-8": [b"Mt\0\1\2A\xff\1t" + SEQUENCE, b""],
    "a subject that is not UTF-8": [b"KA9\0\1\1\x80" + SEQUENCE],
    "an encoded surrogate": [b"G\xed\xa0\x80\0\1\2R7"],
    "a record of another topic": [b"Mt\0\1\2A9\1u" + SEQUENCE, b""],
    "a head of another topic": [b"Ht\0\1\2A9\1u" + SEQUENCE],
    "a head of a longer topic": [b"Ht\0\1\2A9\2tt" + SEQUENCE],
    "sequence 2^63 in a record": [b"Mt\0\1\2A9\1t" + TOO_HIGH, b""],
    "sequence 2^63 in a head": [b"Ht\0\1\2A9\1t" + TOO_HIGH],
    "sequence 2^63 in an ACK": [b"KA9\0\1\1t" + TOO_HIGH],
    "no sequence in an ACK": [b"KA9\0\1\1t" + NO_SEQUENCE],
    "no sequence in a record": [b"Mt\0\1\2A9\1t" + NO_SEQUENCE, b""],
    "sequence 2^64-1 in a FETCH": [b"FA9\0\1\2R7\1t" + NO_SEQUENCE + b"\xff\xff\xff\xff"],
    "sequence 2^63 in a CLOSE": asking(b"C", b"\2A9" + TOO_HIGH + NOWHERE),
    "a CLOSE without a place": asking(b"C", CLOSE),
    "a CLOSE at a place of no lineage": asking(b"C", CLOSE + b"\0\2G1" + SEQUENCE),
    "a CLOSE at a lineage without a sequence": asking(b"C", CLOSE + b"\2H1\2G1" + NO_SEQUENCE),
    "a CLOSE at sequence 2^63": asking(b"C", CLOSE + b"\2H1\2G1" + TOO_HIGH),
    "a CLOSE at a lineage of 255 bytes that are not there": asking(b"C", CLOSE + b"\xff\2G1" + SEQUENCE),
    "a CLOSE at a lineage that is not UTF-8": asking(b"C", CLOSE + b"\2H\xff\2G1" + SEQUENCE),
    "a CLOSE at a life that is not UTF-8": asking(b"C", CLOSE + b"\2H1\2G\xff" + SEQUENCE),
    "a CLOSE at a lineage with NUL": asking(b"C", CLOSE + b"\2H\0\2G1" + SEQUENCE),
    "a CLOSE of no address": asking(b"C", b"\0" + SEQUENCE + NOWHERE),
    "a CLOSE with a byte left over": asking(b"C", CLOSE + PLACE + b"\0"),
    "a second CLOSE that is cut": asking(b"C", CLOSE + PLACE, CLOSE + PLACE[:-1]),
    "a SEAL without an epoch": asking(b"S", b"\2A9"),
    "a SEAL with half an epoch": asking(b"S", SEAL[:-2]),
    "a SEAL with an epoch of eight bytes": asking(b"S", b"\2A9" + SEQUENCE),
    "a SEAL of no address": asking(b"S", b"\0\0\0\0\4"),
    "a SEAL of an address with a slash": asking(b"S", b"\3A/9\0\0\0\4"),
    "a SEAL as older gateways send it": asking(b"S", STATUS),
    "a CLOSE as older gateways send it": asking(b"C", STATUS),
    "a DELETE as older gateways send it": asking(b"X", STATUS),
    "an OPEN without a place": asking(b"O", announcing(b"")),
    "an OPEN as older gateways send it": asking(b"O", SEGMENT.pack()),
    "an OPEN at a place of no lineage": asking(b"O", announcing(b"\0\0" + SEQUENCE)),
    "an OPEN at a lineage without a sequence": asking(b"O", announcing(b"\2H1\0" + NO_SEQUENCE)),
    "an OPEN with an announcement of 2^32-1 bytes": asking(b"O", b"\xff\xff\xff\xff" + SEGMENT.pack()),
    "an OPEN with a byte left over": asking(b"O", announcing(PLACE + b"\0")),
    "a COPY without a place": asking(b"Y", announcing(SEQUENCE + bytes(4))),
    "a COPY at a place of no lineage": asking(b"Y", announcing(SEQUENCE + bytes(4) + b"\0\0" + SEQUENCE)),
    "a COPY from 2^32-1 sources": asking(b"Y", announcing(SEQUENCE + b"\xff\xff\xff\xff" + NOWHERE)),
    "a COPY with a byte left over": asking(b"Y", announcing(SEQUENCE + bytes(4) + PLACE + b"\0")),
    "a DELETE without a place": asking(b"X", DELETE),
    "a DELETE without an epoch": asking(b"X", b"\2A9\2L0" + NOWHERE),
    "a DELETE of epoch 2^63": asking(b"X", b"\2A9\2L0" + TOO_HIGH + NOWHERE),
    "a DELETE of a log that is not UTF-8": asking(b"X", b"\2A9\2L\xff" + SEQUENCE + NOWHERE),
    "a DELETE of a log with NUL": asking(b"X", b"\2A9\2L\0" + SEQUENCE + NOWHERE),
    "a DELETE of a log that is cut": asking(b"X", b"\2A9\xffL0" + SEQUENCE + NOWHERE),
    "a DELETE at a place of no lineage": asking(b"X", DELETE + b"\0\0" + SEQUENCE),
    "a DELETE with a byte left over": asking(b"X", DELETE + PLACE + b"\0"),
    "a TAKEN-UP that is cut": [TAKEN_UP[:-1]],
    "a TAKEN-UP with a byte left over": [TAKEN_UP + b"\0"],
    "a TAKEN-UP of a topic that is not in it": [TAKEN_UP.replace(TAKEN, b"\2" + TAKEN[1:])],
    "a TAKEN-UP with 2^32-1 addresses": [TAKEN_UP.replace(b"\0\0\0\1" + TAKEN, b"\xff\xff\xff\xff" + TAKEN)],
    "a TAKEN-UP that keeps records for less than no time": [
        TAKEN_UP.replace(b"\1u" + NO_SEQUENCE, b"\1u" + b"\xff" * 7 + b"\xfe")
    ],
    "a TAKEN-UP of 256 topics": [b"ZC1\0\1" + b"\0\0\1\0" + 256 * (b"\2d8\1t" + NO_SEQUENCE) + bytes(4)],
    "a PUBLISH that is cut": asking(b"A", PUBLISH[:-1]),
    "a PUBLISH with a byte left over": asking(b"A", PUBLISH + b"\0"),
    "a PUBLISH of a piece that ends before it begins": asking(
        b"A", PUBLISH.replace(bytes(7) + b"d", bytes(7) + b"t", 1)
    ),
    "a PUBLISH that answers twice": asking(b"A", PUBLISH.replace(b"\1" + ABORTED, b"\2" + ABORTED)),
    "a PUBLISH with 2^32-1 transactions": asking(
        b"A", PUBLISH.replace(ABORTED, b"\xff\xff\xff\xff" + ABORTED[4:])
    ),
    "a PUBLISH of a producer below 0": asking(
        b"A", PUBLISH.replace(ABORTED, ABORTED[:4] + NO_SEQUENCE + ABORTED[12:])
    ),
    "a PUBLISH of a piece without a name": asking(b"A", b"\0" + PUBLISH[7:]),
    "OPENED with half a count": opened(b"\0\0"),
    "OPENED with a list of none": opened(b"\0\0\0\0"),
    "OPENED with 2^32-1 addresses": opened(b"\xff\xff\xff\xff\2A8" + SEQUENCE),
    "OPENED with more addresses than bytes": opened(b"\0\0\0\2\2A8" + SEQUENCE),
    "OPENED with 4097 addresses": opened(b"\0\0\x10\1" + (b"\2A8" + SEQUENCE) * 4097),
    "OPENED with an address that is empty": opened(b"\0\0\0\1\0" + SEQUENCE),
    "OPENED with an address that has a slash": opened(b"\0\0\0\1\2A/" + SEQUENCE),
    "OPENED with a head below none": opened(b"\0\0\0\1\2A8" + TOO_HIGH),
    "OPENED with a byte left over in the row": opened(b"\0\0\0\1\2A8" + SEQUENCE + b"\0"),
    "OPENED with half a nonce": [opened(b"")[0] + b"nonc"],
    "KEPT with half a nonce": [b"uR7/S1\0\1\0\0" + NOWHERE + bytes(4) + b"nonc"],
    "KEPT at a place of no lineage": [b"uR7/S1\0\1\0\0\0\0" + SEQUENCE + bytes(4)],
    "RECALLED with half a nonce": [b"jR7/S1\0\1\0\0" + NOWHERE + b"\0" + bytes(4) + b"nonc"],
    "RECALLED with 2^32-1 entries": [b"jR7/S1\0\1\0\0" + NOWHERE + b"\0\xff\xff\xff\xff"],
    "RECALLED with a value of 2^32-1 bytes": [
        b"jR7/S1\0\1\0\0" + NOWHERE + b"\0\0\0\0\1\0\0\0\1k\xff\xff\xff\xff"
    ],
    "RECALLED with a key twice": [b"jR7/S1\0\1\0\0" + NOWHERE + b"\0\0\0\0\2" + (b"\0\0\0\1k\0\0\0\0") * 2],
    "an empty address in an ACK": [b"K\0\1\1t" + SEQUENCE],
    "an empty address before an incarnation": [b"K/S1\0\1\1t" + SEQUENCE],
    "an empty incarnation in an ACK": [b"KA9/\0\1\1t" + SEQUENCE],
    "two incarnations in an ACK": [b"KA9/S1/S2\0\1\1t" + SEQUENCE],
    "an empty address in a record": [b"Mt\0\1\0\1t" + SEQUENCE, b""],
    "an address with a slash": [b"Mt\0\1\3A/9\1t" + SEQUENCE, b""],
    "an address that starts with @": [b"Mt\0\1\3@A9\1t" + SEQUENCE, b""],
    "a requester with a slash": [b"FA9\0\1\3R/7\1t" + SEQUENCE + b"\0\0\0\1"],
    "an empty requester": [b"Gt\0\1\0"],
    "a directed FETCH without a slash": [b"F@S1\0\1\2R7\1t" + SEQUENCE + bytes(8)],
    "a directed FETCH of no store": [b"F@/A9\0\1\2R7\1t" + SEQUENCE + bytes(8)],
    "a directed FETCH of no address": [b"F@S1/\0\1\2R7\1t" + SEQUENCE + bytes(8)],
    "a directed FETCH without a byte cap": [b"F@S1/A9\0\1\2R7\1t" + SEQUENCE + bytes(4)],
    "a FETCH of C with a byte cap": [b"FA9\0\1\2R7\1t" + SEQUENCE + bytes(8)],
    "a PING that is not directed": [b"PS1\0\1\2R7"],
    "a PING with an address": [b"P@S1/A9\0\1\2R7"],
    "a PONG without a store": [b"pR7\0\1\2C1\5store" + SEQUENCE],
    "a PONG without its free bytes": [b"pR7/S1\0\1\2C1\5store"],
    "a PONG with half a disk": [b"pR7/S1\0\1\2C1\5store" + SEQUENCE + SEQUENCE[:4]],
    "a status where a copy should be": [b"Y@S1/\0\1\2R7\0\0\0\1\0\0\0\x10" + STATUS],
    "an END without a store": [b"NR7\0\1" + STATUS],
    "an answer without a store": [b"oR7\0\1\0\0\0\0"],
    "2^32-1 subjects": [b"WS1\0\1\2R7\xff\xff\xff\xff"],
    "more subjects than bytes": [b"WS1\0\1\2R7\0\0\0\2\0\0\0\1t"],
    "a subject of 2^32-1 bytes": [b"WS1\0\1\2R7\0\0\0\1\xff\xff\xff\xfft"],
    "a subject of 256 bytes": [b"WS1\0\1\2R7\0\0\0\1\0\0\1\0" + b"t" * 256],
    "4097 subjects": [b"WS1\0\1\2R7\0\0\x10\1" + bytes(4) * 4097],
    "2^32-1 entries": [b"S@S1/\0\1\2R7\xff\xff\xff\xff"],
    "2^32-1 statuses": [b"sR7/S1\0\1\xff\xff\xff\xff"],
    "more statuses than bytes": [b"sR7/S1\0\1\0\0\0\2" + STATUS],
    "an entry of 2^32-1 bytes": [b"S@S1/\0\1\2R7\0\0\0\1\xff\xff\xff\xff" + SEAL],
    "more entries than bytes": [b"S@S1/\0\1\2R7\0\0\0\2\0\0\0\7" + SEAL],
    "4097 entries": asking(b"S", *[SEAL] * (MAX_LIST_ENTRIES + 1)),
    "an entry with a byte left over": asking(b"S", SEAL + b"\0"),
    "an empty entry": asking(b"S", b""),
    "a status where an announcement should be": [b"O@S1/\0\1\2R7\0\0\0\1\0\0\0\x10" + STATUS],
    "a row of 2^32-1 bytes": [b"NR7/S1\0\1\2A9\0" + SEQUENCE + b"\xff\xff\xff\xff"],
    "more logs than bytes": [b"V@S1/\0\1\2R7\0\0\0\2\2L0\0"],
    "2^32-1 logs": [b"V@S1/\0\1\2R7\xff\xff\xff\xff"],
    "a log without an address": [b"V@S1/\0\1\2R7\0\0\0\1\2L0"],
    "a look-up of kind 3": [b"Q@S1/\0\1\2R7\2A9\3" + SEQUENCE + SEQUENCE],
}


@pytest.mark.parametrize("frames", BROKEN.values(), ids=BROKEN)
def test_a_broken_message_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        decode(frames)


def test_the_table_breaks_one_thing_at_a_time() -> None:
    # The pieces that the table is made of, put together rightly, are messages.
    assert decode([b"KA9\0\1\1t" + SEQUENCE]).sequence == 5
    assert decode([b"Mt\0\1\2A9\1t" + SEQUENCE, b""]).sequence == 5
    assert decode([b"FA9\0\1\2R7\1t" + SEQUENCE + b"\0\0\0\1"]).count == 1
    assert decode([b"F@S1/A9\0\1\2R7\1t" + SEQUENCE + bytes(8)]).store == "S1"
    assert decode([b"S@S1/\0\1\2R7\0\0\0\1\0\0\0\7" + SEAL]).store == "S1"
    assert decode(asking(b"S", SEAL)).store == "S1"
    assert len(decode(asking(b"S", *[SEAL] * MAX_LIST_ENTRIES)).entries) == MAX_LIST_ENTRIES
    assert decode(together(2, b"\0\0\0\0\0\0\0\1x")).contents == (b"", b"x")
    assert len(decode(together(4096, bytes(4 * 4096))).contents) == 4096
    assert SealEntry.unpack(SEAL) == ("A9", 4)
    for place, at in ((NOWHERE, NOTHING_REMEMBERED), (PLACE, Remembered("H1", "G1", 5))):
        entries: dict[bytes, Any] = {
            b"C": CloseEntry("A9", 5, at),
            b"X": DeleteEntry("A9", "L0", 5, at),
            b"O": OpenEntry(SEGMENT, at),
            b"Y": Copy(SEGMENT, 5, (), at),
        }
        packed = {
            b"C": CLOSE + place,
            b"X": DELETE + place,
            b"O": announcing(place),
            b"Y": announcing(SEQUENCE + bytes(4) + place),
        }
        assert {letter: entry.pack() for letter, entry in entries.items()} == packed
        for letter, entry in packed.items():
            assert decode(asking(letter, entry)).entries == (entry,)
    row = b"\0\0\0\1\2A8" + SEQUENCE
    assert decode(opened(row)).statuses[0].row == row
    assert len(SealedHead.unpack_all(b"\0\0\x10\0" + row[4:] * 4096)) == MAX_LIST_ENTRIES
    assert decode([b"uR7/S1\0\1\0\0" + PLACE + bytes(4) + b"nonce678"]).nonce == b"nonce678"
    assert decode([b"jR7/S1\0\1\0\0" + NOWHERE + b"\0" + bytes(4) + b"nonce678"]).nonce == b"nonce678"
    assert decode([b"sR7/S1\0\1\0\0\0\1" + STATUS]).statuses == (AddressStatus("A9", 0, -1),)
    assert decode([b"Q@S1/\0\1\2R7\2A9\2" + SEQUENCE + SEQUENCE]).kind == 2
    assert decode([b"WS1\0\1\2R7\0\0\0\1\0\0\0\xff" + b"t" * 255]).subjects == ("t" * 255,)
    assert len(decode([b"WS1\0\1\2R7\0\0\x10\0" + bytes(4) * 4096]).subjects) == MAX_LIST_ENTRIES


KNOWN = Verified.pack_all([Verified(0, 3, "A9", 3)])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        KNOWN[:-1],
        KNOWN + b"\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\2" + KNOWN[4:],
        b"\0\0\0\1\0" + TOO_HIGH + b"\0\0",
    ],
    ids=["empty", "cut", "a byte more", "2^32-1 entries", "more entries than bytes", "epoch 2^63"],
)
def test_broken_entries_of_what_is_known_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessage):
        Verified.unpack_all(content)


TELL_A_NONCE = (
    "ACK/OURS", "OPENED", "OPENED/SEALING", "SEALED", "SEALED/STALE", "SEALED/NOTICE", "CLOSED", "COPIED",
    "PUBLISHED", "DELETED", "DELETED/REFUSED", "ROWS/ANSWER", "BEGINNINGS/ANSWER", "VERIFY/ANSWER", "LISTED",
    "KEPT", "KEPT/REFUSED", "RECALLED", "PING/REMEMBERED",
)  # fmt: skip
LEFT_OUT = dict.fromkeys(TELL_A_NONCE, (8,)) | {"PONG": (16, 24), "PONG/REMEMBERED": (16, 32, 40)}
"""How many of the last bytes of a vector may be missing."""


def truncations(good: dict[str, list[bytes]]) -> Iterator[tuple[str, list[bytes]]]:
    for name, frames in good.items():
        for end in range(len(frames[0])):
            if len(frames[0]) - end in LEFT_OUT.get(name, ()):
                continue  # as older versions send it
            yield f"{name} cut at {end}", [frames[0][:end], *frames[1:]]


@pytest.mark.parametrize("good", [GOOD, C_GOOD], ids=["own", "captured"])
def test_a_header_cut_anywhere_is_refused(good: dict[str, list[bytes]]) -> None:
    for name, frames in truncations(good):
        with pytest.raises(MalformedMessage):
            pytest.fail(f"{name} was taken for {decode(frames)}")


def test_a_pong_of_an_older_store_has_no_disk_size() -> None:
    pong = GOOD["PONG"]
    older = decode([pong[0][: -3 * len(SEQUENCE)]])
    assert (older.free_bytes, older.disk_bytes, older.nonce) == (2**30, 0, b"")


@pytest.mark.parametrize("good", [GOOD, C_GOOD], ids=["own", "captured"])
def test_a_header_with_a_byte_behind_it_is_refused(good: dict[str, list[bytes]]) -> None:
    for name, frames in good.items():
        for byte in (b"\0", b"\1", b"t"):
            with pytest.raises(MalformedMessage):
                pytest.fail(f"{name} was taken for {decode([frames[0] + byte, *frames[1:]])}")


@pytest.mark.parametrize(
    "segment",
    [
        SEGMENT._replace(w=0),
        SEGMENT._replace(w=3),
        SEGMENT._replace(members=(), w=0),
        SEGMENT._replace(members=("S1", "S1")),
        SEGMENT._replace(members=("S1", "")),
        SEGMENT._replace(members=("S1", "S/2")),
        SEGMENT._replace(members=("S1", "@S2")),
    ],
    ids=["w 0", "w over n", "no members", "one twice", "empty", "slash", "at"],
)
def test_a_segment_whose_members_make_no_quorum_is_refused_both_ways(
    segment: Announcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"w .* of|not a name"):
        segment.pack()
    with monkeypatch.context() as patch:
        patch.setattr(Announcement, "_check", lambda *_: None)
        packed = segment.pack()
    with pytest.raises(MalformedMessage):
        Announcement.unpack(packed)


@pytest.mark.parametrize("sources", [("S1", "S1"), ("",), ("S/1",), ("@S1",)])
def test_sources_that_are_no_names_or_come_twice_are_refused_both_ways(
    sources: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Copy(SEGMENT, 5, sources)
    with pytest.raises(ValueError, match=r"different ones|not a name"):
        copy.pack()
    with monkeypatch.context() as patch:
        patch.setattr(Copy, "_check", lambda *_: None)
        packed = copy.pack()
    with pytest.raises(MalformedMessage):
        Copy.unpack(packed)


def test_what_is_refused_is_refused_before_anything_is_made_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def take(cursor: Cursor) -> AddressStatus:
        nonlocal made
        made += 1
        return original(cursor)

    original = AddressStatus.take
    monkeypatch.setattr(AddressStatus, "take", take)
    assert len(decode([b"sR7/S1\0\1\0\0\0\2" + STATUS * 2]).statuses) == made == 2
    with pytest.raises(MalformedMessage, match="list of 4294967295 entries"):
        decode([b"sR7/S1\0\1\xff\xff\xff\xff" + STATUS * 10])
    assert made == 2


@pytest.mark.parametrize(
    "name",
    [
        "2^32-1 subjects",
        "2^32-1 entries",
        "2^32-1 statuses",
        "2^32-1 logs",
        "a COPY from 2^32-1 sources",
        "OPENED with 2^32-1 addresses",
        "RECALLED with 2^32-1 entries",
        "a PUBLISH with 2^32-1 transactions",
        "a TAKEN-UP with 2^32-1 addresses",
    ],
)
def test_a_forged_count_is_refused_for_itself(name: str) -> None:
    with pytest.raises(MalformedMessage, match="list of 4294967295 entries"):
        decode(BROKEN[name])


@pytest.mark.parametrize(
    "at", [Remembered("", "G1", 5), Remembered("H1", "G1", -1), Remembered("H1", "", -2)]
)
def test_an_entry_at_a_place_that_is_none_is_not_encoded(at: Remembered) -> None:
    for entry in (
        OpenEntry(SEGMENT, at),
        CloseEntry("A9", 5, at),
        DeleteEntry("A9", "L0", 3, at),
        Copy(SEGMENT, 5, (), at),
    ):
        with pytest.raises(ValueError, match=r"lineage|not a sequence"):
            entry.pack()


@pytest.mark.parametrize(
    "entry",
    [
        SealEntry("A9", -1),
        SealEntry("A9", 2**32),
        SealEntry("", 4),
        SealEntry("A/9", 4),
        CloseEntry("A9", -2),
        CloseEntry("A9", 2**63),
        DeleteEntry("@A9"),
        DeleteEntry("A9", "l" * 256),
        DeleteEntry("A9", "l\0"),
        DeleteEntry("A9", "L0", -2),
        DeleteEntry("A9", "L0", 2**63),
    ],
)
def test_an_entry_that_nobody_would_decode_is_not_encoded(entry: Any) -> None:
    with pytest.raises((ValueError, struct.error)):
        entry.pack()


@pytest.mark.parametrize("sealed", [SealedHead("", 5), SealedHead("A/8", 5), SealedHead("A8", -2)])
def test_a_sealed_address_that_is_none_is_not_encoded(sealed: SealedHead) -> None:
    with pytest.raises(ValueError, match=r"not a name|not a sequence"):
        SealedHead.pack_all([sealed])


def test_no_more_sealed_addresses_are_encoded_than_are_decoded() -> None:
    with pytest.raises(ValueError, match="holds at most"):
        SealedHead.pack_all([SealedHead("A8", 5)] * (MAX_LIST_ENTRIES + 1))


def accepted_encodes_to_the_same(frames: Sequence[bytes]) -> None:
    """The invariant of the decoder: a message that encodes to these bytes again, or `MalformedMessage`."""
    try:
        message = decode(frames)
    except MalformedMessage:
        return
    assert message.frames() == list(frames)


@given(st.lists(st.binary(max_size=120), max_size=3))
@example([b"\0\0\1"])
def test_any_frames_are_a_message_or_malformed(frames: list[bytes]) -> None:
    accepted_encodes_to_the_same(frames)


IDS = [bytes((letter,)) for letter in b"MHKFDEGWLOoSsCcXxYyAaBbPpQqRrVTtIiNUuJjZd"]
PARTS = st.one_of(
    st.sampled_from(
        [b"\0\1", b"@S1/", b"R7/S1", b"A9", b"\2A9", b"\2R7", b"\1t", b"\0\0\0\1", b"\0\0\0\x10"]
    ),
    st.sampled_from([SEQUENCE, TOO_HIGH, NO_SEQUENCE, STATUS, b"\xff\xff\xff\xff", SEGMENT.pack()]),
    st.sampled_from([PLACE, NOWHERE, b"\0\0\0\7", SEAL, CLOSE, DELETE, announcing(PLACE)]),
    st.binary(max_size=6),
)


@given(st.sampled_from(IDS), st.lists(PARTS, max_size=8), st.lists(st.binary(max_size=4), max_size=1))
def test_any_headers_put_together_of_likely_parts_are_a_message_or_malformed(
    message_id: bytes, parts: list[bytes], content: list[bytes]
) -> None:
    accepted_encodes_to_the_same([message_id + b"".join(parts), *content])


@given(st.sampled_from(list(GOOD.values())), st.data())
def test_a_good_message_with_bytes_changed_is_a_message_or_malformed(frames: list[bytes], data: Any) -> None:
    header = bytearray(frames[0])
    for _ in range(data.draw(st.integers(1, 3))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    accepted_encodes_to_the_same([bytes(header), *frames[1:]])


BROKEN_BEACONS: dict[str, list[bytes]] = {
    "nothing": [],
    "the topic alone": [b"B"],
    "two frames": [b"B", b"N1"],
    "five frames": [b"B", b"N1", b"host", b"1", b""],
    "another topic": [b"C", b"N1", b"host", b"1"],
    "no id": [b"B", b"", b"host", b"1"],
    "an id of 256 bytes": [b"B", b"n" * 256, b"host", b"1"],
    "an id with a space": [b"B", b"N 1", b"host", b"1"],
    "an id with NUL": [b"B", b"N\0", b"host", b"1"],
    "an id that is not ASCII": [b"B", b"\xc3\xa9", b"host", b"1"],
    "a host with a line feed": [b"B", b"N1", b"ho\nst", b"1"],
    "a host of 256 bytes": [b"B", b"N1", b"h" * 256, b"1"],
    "no port": [b"B", b"N1", b"host", b""],
    "port 0": [b"B", b"N1", b"host", b"0"],
    "port 65536": [b"B", b"N1", b"host", b"65536"],
    "a port of ten digits": [b"B", b"N1", b"host", b"4915200000"],
    "a port with a zero in front": [b"B", b"N1", b"host", b"080"],
    "a port with a sign": [b"B", b"N1", b"host", b"+80"],
    "a binary port": [b"B", b"N1", b"host", b"\xc0\x00"],
    "a port in other digits": [b"B", b"N1", b"host", "\u0661".encode()],
    "an endpoint without transport": [b"B", b"N1", b"10.0.0.7:1"],
    "an endpoint of another transport": [b"B", b"N1", b"ipc:///tmp/x:1"],
    "an endpoint without a port": [b"B", b"N1", b"tcp://10.0.0.7"],
    "an endpoint without a host": [b"B", b"N1", b"tcp://:49152"],
    "an endpoint of port 0": [b"B", b"N1", b"tcp://10.0.0.7:0"],
    "an endpoint with a wildcard port": [b"B", b"N1", b"tcp://10.0.0.7:*"],
    "an endpoint of 300 bytes": [b"B", b"N1", b"tcp://" + b"h" * 300 + b":1"],
    "an endpoint and no id": [b"B", b"", b"tcp://10.0.0.7:1"],
}


@pytest.mark.parametrize("frames", BROKEN_BEACONS.values(), ids=BROKEN_BEACONS)
def test_a_broken_beacon_is_refused(frames: list[bytes]) -> None:
    for decoder in (beacons.decode_node_beacon, beacons.decode_tower_beacon):
        with pytest.raises(MalformedMessage):
            decoder(frames)


@given(st.lists(st.binary(max_size=12), max_size=5))
def test_any_frames_are_a_beacon_or_malformed(frames: list[bytes]) -> None:
    for decoder in (beacons.decode_node_beacon, beacons.decode_tower_beacon):
        try:
            beacon = decoder(frames)
        except MalformedMessage:
            continue
        assert beacon.frames() == frames
