"""The vectors that the tests of the Dafka wire share: C's captured frames, and ours with what they mean."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wireproto.dafka import beacons
from wireproto.dafka.additions import (
    KEEP_CHANGES,
    KEEP_LAST_PIECE,
    KEEP_QUESTION,
    KEPT_DONE,
    KEPT_OTHER_HISTORY,
    LOOKUP_TIMESTAMP,
    STATUS_ANSWER_FULL,
    STATUS_BEGINS_LATER,
    STATUS_DONE,
    STATUS_INCOMPLETE,
    STATUS_NOT_HERE,
    STATUS_OTHER_HISTORY,
    STATUS_SEALED,
    STATUS_STALE_EPOCH,
    STATUS_STORAGE_ERROR,
    AbortedSpan,
    AddressStatus,
    Announcement,
    Answer,
    Beginning,
    CloseEntry,
    Copy,
    DeleteEntry,
    Digest,
    Digested,
    DirectRecords,
    End,
    Found,
    GetRows,
    Keep,
    Kept,
    Listed,
    ListSegments,
    Lookup,
    NativeTopic,
    OpenEntry,
    Ping,
    Pong,
    PublishEntry,
    Recall,
    Recalled,
    Remembered,
    Request,
    Rows,
    SealedHead,
    SealEntry,
    TakenAddress,
    TakenUp,
    Verified,
    Verify,
)
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    Fetch,
    GetHeads,
    Head,
    Record,
    StoreHello,
    decode,
)

ROOT = Path(__file__).parents[4]
DATA = ROOT / "tests" / "data" / "dafka"
DOCUMENT = ROOT / "docs" / "mesh-protocol.md"

SEGMENT = Announcement("A9", "t", "C1", "L0", 3, 100, ("S1", "S2"), 2, b"\xff")
NONE = AddressStatus("A9", STATUS_DONE, -1)
PIECE = PublishEntry("A9.100", "d8", "t.values", "A9", 100, 115, 104, True, (AbortedSpan(7, 101, 109),))
BEGUN = AddressStatus("A9", STATUS_DONE, 1, Beginning(SEGMENT, b"\xaa\xbb\xcc\xdd").pack())
DIGEST = hashlib.sha256(b"".join(len(it).to_bytes(8, "big") + it for it in (b"hi", b"ho"))).digest()
AT = Remembered("H1", "G1", 7)
VERIFIED = [Verified(STATUS_DONE, 3, "A9", 3, "A8", 100, 107), Verified(STATUS_DONE, -1, "", 0)]

NONCE = bytes(range(1, 9))
BEFORE = bytes(range(0x11, 0x19))

OWN: dict[str, Any] = {
    "NODE-BEACON": beacons.NodeBeacon("N1", "127.0.0.1", 49152),
    "TOWER-BEACON": beacons.TowerBeacon("N1", "tcp://10.0.0.7:49152"),
    "TOWER-BEACON/KEY": beacons.TowerBeacon(
        "N1", "tcp://10.0.0.7:49152", "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
    ),
    "RECORD": Record("A9", "t", 5, b"hi"),
    "HEAD": Head("A9", "t", 5),
    "ACK": Ack("A9", "", "t", 5),
    "FETCH": Fetch("A9", "R7", "t", 5, 100),
    "DIRECT-RECORD": DirectRecord("R7", "", "A9", "t", 5, b"hi"),
    "DIRECT-HEAD": DirectHead("R7", "A9", "t", 5),
    "GET-HEADS": GetHeads("t", "R7"),
    "CONSUMER-HELLO": ConsumerHello("S1", "R7", ("t", "u")),
    "STORE-HELLO": StoreHello("R7", "S1"),
    "ACK/OURS": Ack("A9", "S1", "t", 8, NONCE),
    "ACK/UNANNOUNCED": Ack("A9", "~S1", "t", 8),
    "FETCH/DIRECTED": Fetch("A9", "R7", "t", 5, 100, "S1", 1024 * 1024),
    "DIRECT-RECORD/OURS": DirectRecord("R7", "S1", "A9", "t", 5, b"hi"),
    "DIRECT-HEAD/OURS": DirectHead("R7", "A9", "t", 5, "S1"),
    "OPEN": Request(b"O", "S1", "R7", (OpenEntry(SEGMENT, AT).pack(),)),
    "OPENED": Answer(b"o", "R7", "S1", (NONE,), NONCE),
    "OPENED/SEALING": Answer(
        b"o", "R7", "S1", (NONE._replace(row=SealedHead.pack_all([SealedHead("A8", 5)])),), NONCE
    ),
    "SEAL": Request(b"S", "S1", "R7", (SealEntry("A9", 4).pack(),)),
    "SEALED": Answer(b"s", "R7", "S1", (AddressStatus("A9", STATUS_DONE, 5, b"\xaa\xbb"),), NONCE),
    "SEALED/STALE": Answer(b"s", "R7", "S1", (AddressStatus("A9", STATUS_STALE_EPOCH, -1),), NONCE),
    "SEALED/NOTICE": Answer(b"s", "A9", "S1", (AddressStatus("A9", STATUS_SEALED, 5),), NONCE),
    "CLOSE": Request(b"C", "S1", "R7", (CloseEntry("A9", 5, AT).pack(),)),
    "CLOSED": Answer(b"c", "R7", "S1", (AddressStatus("A9", STATUS_INCOMPLETE, 3),), NONCE),
    "COPY": Request(b"Y", "S1", "R7", (Copy(SEGMENT, 5, ("S2",), AT).pack(),)),
    "COPIED": Answer(b"y", "R7", "S1", (AddressStatus("A9", STATUS_DONE, 5),), NONCE),
    "DELETE": Request(b"X", "S1", "R7", (DeleteEntry("A9", "L0", 3, AT).pack(),)),
    "DELETE/UNKNOWN": Request(b"X", "S1", "R7", (DeleteEntry("A9", at=AT).pack(),)),
    "DELETED": Answer(b"x", "R7", "S1", (NONE,), NONCE),
    "DELETED/REFUSED": Answer(b"x", "R7", "S1", (AddressStatus("A9", STATUS_OTHER_HISTORY, 5),), NONCE),
    "PUBLISH": Request(b"A", "S1", "R7", (PIECE.pack(),)),
    "PUBLISH/NO-MORE": Request(
        b"A", "S1", "R7", (PIECE._replace(last=-1, answers=False, aborted=()).pack(),)
    ),
    "PUBLISHED": Answer(b"a", "R7", "S1", (AddressStatus("A9.100", STATUS_DONE, -1),), NONCE),
    "TAKEN-UP": TakenUp(
        "C1",
        (NativeTopic("d8", "t", 60_000), NativeTopic("d9", "u")),
        (TakenAddress(0, "A9", 5),),
    ),
    "DIRECT-RECORDS": DirectRecords("R7", "A9", "t", 5, (b"hi", b"", b"you")),
    "PING": Ping("S1", "R7"),
    "PING/ANY": Ping("*", "R7"),
    "PING/REMEMBERED": Ping("S1", "R7", BEFORE),
    "PONG": Pong("R7", "S1", "C1", "store", 2**30, 2**33, NONCE, 7),
    "PONG/REMEMBERED": Pong("R7", "S1", "C1", "store", 2**30, 2**33, NONCE, 7, BEFORE, 4),
    "LOOKUP": Lookup("S1", "R7", "A9", LOOKUP_TIMESTAMP, 1_700_000_000_000, 5),
    "FOUND": Found("R7", "S1", AddressStatus("A9", STATUS_DONE, 3, b"\xaa\xbb")),
    "ROWS": GetRows("S1", "R7", "A9", 2, 4),
    "ROWS/ANSWER": Rows("R7", "S1", AddressStatus("A9", STATUS_DONE, 3), b"\xaa\xbb\xcc\xdd", NONCE),
    "BEGINNINGS": Request(b"B", "S1", "R7", (AddressStatus("A9", STATUS_DONE, 5).pack(),)),
    "BEGINNINGS/ANSWER": Answer(
        b"b", "R7", "S1", (BEGUN, AddressStatus("A8", STATUS_ANSWER_FULL, -1)), NONCE
    ),
    "VERIFY": Verify("S1", "R7", (("L0", "A9"), ("L1", ""))),
    "VERIFY/ANSWER": Rows(
        "R7", "S1", AddressStatus("S1", STATUS_DONE, -1), Verified.pack_all(VERIFIED), NONCE
    ),
    "DIGEST": Digest("S1", "R7", "A9", 2, 2),
    "DIGESTED": Digested("R7", "S1", AddressStatus("A9", STATUS_DONE, 3, DIGEST)),
    "DIGESTED/BAD": Digested("R7", "S1", AddressStatus("A9", STATUS_STORAGE_ERROR, -1)),
    "LIST": ListSegments("S1", "R7", "A8", 128),
    "LISTED": Listed("R7", "S1", ((SEGMENT, AddressStatus("A9", 3, 5)),), NONCE),
    "KEEP": Keep("S1", "R7", "C1", KEEP_CHANGES, AT, "", 5, {"/t/a": b"x"}, ("/t/b",)),
    "KEEP/QUESTION": Keep("S1", "R7", "C1", KEEP_QUESTION),
    "KEEP/WHOLE": Keep("S1", "R7", "C1", KEEP_LAST_PIECE, AT, "H0", 1, {"/t/a": b"x"}),
    "KEPT": Kept("R7", "S1", KEPT_DONE, "C1", AT, 2, NONCE),
    "KEPT/REFUSED": Kept("R7", "S1", KEPT_OTHER_HISTORY, "C1", Remembered("H2", "G9", 8), 0, NONCE),
    "RECALL": Recall("S1", "R7", "/t/a"),
    "RECALLED": Recalled("R7", "S1", KEPT_DONE, "C1", AT, {"/t/b": b"y"}, more=True, nonce=NONCE),
    "END": End("R7", "S1", AddressStatus("A9", STATUS_DONE, 9)),
    "END/NOT-HERE": End("R7", "S1", AddressStatus("A9", STATUS_NOT_HERE, 4)),
    "END/BEGINS-LATER": End("R7", "S1", AddressStatus("A9", STATUS_BEGINS_LATER, 64)),
}
"""What each vector of our own means (WELCOME is no message: a tower's greeting)."""


def decoder_of(name: str) -> Callable[[Sequence[bytes]], Any]:
    """The function that reads the vector of this name."""
    if name == "NODE-BEACON":
        return beacons.decode_node_beacon
    return beacons.decode_tower_beacon if name.startswith("TOWER-BEACON") else decode


def c_vectors() -> list[dict[str, Any]]:
    """Name, frames (bytes) and fields of each captured message."""
    vectors: list[dict[str, Any]] = json.loads((DATA / "c-frames.json").read_text())["vectors"]
    return [vector | {"frames": [bytes.fromhex(frame) for frame in vector["frames"]]} for vector in vectors]


def own_vectors() -> dict[str, list[bytes]]:
    """Name -> frames, as kept beside the tests."""
    vectors = json.loads((DATA / "own-frames.json").read_text())["vectors"]
    return {name: [bytes.fromhex(frame) for frame in frames] for name, frames in vectors.items()}


def documented_vectors() -> dict[str, list[bytes]]:
    """Name -> frames, as the protocol's document has them."""
    blocks = re.findall(r"^```vector (\S+)\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, list[bytes]] = {}
    for name, block in blocks:
        assert name not in found, f"vector {name} is in the document twice"
        frames = re.split(r"^--$", block, flags=re.MULTILINE)
        found[name] = [
            b"".join(bytes.fromhex(line.partition("|")[0]) for line in frame.splitlines()) for frame in frames
        ]
    return found
