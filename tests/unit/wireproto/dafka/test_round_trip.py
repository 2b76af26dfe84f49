"""Every message of every type, with any fields that its docstring allows, comes back as it was."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wireproto.dafka.vectors import OWN, decoder_of
from wireproto.dafka import beacons, ids
from wireproto.dafka.additions import (
    DIGEST_BYTES,
    LOOKUP_KINDS,
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
from wireproto.dafka.fields import MAX_LIST_ENTRIES, MAX_SEQUENCE, is_name
from wireproto.dafka.messages import (
    Ack,
    ConsumerHello,
    DirectHead,
    DirectRecord,
    DirectRecordEncoder,
    Fetch,
    GetHeads,
    Head,
    Record,
    RecordEncoder,
    StoreHello,
    decode,
)


def built(kind: type[Any], *values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Messages of a type, with a strategy for each of its fields: one that is left out would be guessed from
    the field's type, by a strategy that knows no rules and takes very long to shrink.
    """
    assert len(values) == len(kind._fields), f"{kind.__name__} has {kind._fields}"
    return st.builds(kind, *values)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
STRINGS = st.one_of(TEXT, st.integers(250, 255).map(lambda size: "t" * size))
NAMES = st.one_of(
    st.text("0123456789ABCDEF", min_size=32, max_size=32),
    st.integers(1, 255).map(lambda size: "n" * size),
    TEXT.filter(is_name),
)
SHORT_NAMES = st.one_of(
    st.integers(1, 126).map(lambda size: "n" * size), st.sampled_from(["S1", "\u00e9" * 63])
)
"""Two of them and `@/` fit into the 255 bytes of a FETCH's topic."""
SEQUENCES = st.one_of(st.integers(0, 10), st.integers(0, MAX_SEQUENCE))
HEADS = st.one_of(st.just(-1), SEQUENCES)
COUNTS = st.integers(0, 2**32 - 1)
BYTES = st.binary(max_size=40)
NONCE = st.binary(min_size=8, max_size=8)
NONCES = st.one_of(st.just(b""), NONCE)
PONG = (NAMES, NAMES, STRINGS, STRINGS, SEQUENCES, SEQUENCES)
DIGESTS = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)
VERIFIED = built(Verified, st.integers(0, 255), HEADS, STRINGS, st.integers(0, 255), STRINGS, HEADS, HEADS)
STATUSES = built(AddressStatus, NAMES, st.integers(0, 255), HEADS, BYTES)
SEGMENTS = st.lists(NAMES, min_size=1, max_size=5, unique=True).flatmap(
    lambda members: built(
        Announcement,
        NAMES,
        STRINGS,
        STRINGS,
        STRINGS,
        COUNTS,
        SEQUENCES,
        st.just(tuple(members)),
        st.integers(1, len(members)),
        BYTES,
    )
)

KEYS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60)
KEPT_ENTRIES = st.dictionaries(KEYS, BYTES, max_size=4)
PLACES = st.one_of(
    st.just(Remembered()),
    built(Remembered, st.just(""), STRINGS, st.just(-1)),
    built(Remembered, STRINGS.filter(bool), STRINGS, SEQUENCES),
)

ENTRIES: dict[bytes, tuple[type[Any], st.SearchStrategy[Any]]] = {
    ids.OPEN: (OpenEntry, built(OpenEntry, SEGMENTS, PLACES)),
    ids.SEAL: (SealEntry, built(SealEntry, NAMES, COUNTS)),
    ids.CLOSE: (CloseEntry, built(CloseEntry, NAMES, HEADS, PLACES)),
    ids.DELETE: (DeleteEntry, built(DeleteEntry, NAMES, STRINGS, HEADS, PLACES)),
    ids.COPY: (
        Copy,
        built(Copy, SEGMENTS, HEADS, st.lists(NAMES, max_size=4, unique=True).map(tuple), PLACES),
    ),
    ids.BEGINNINGS: (AddressStatus, STATUSES),
    ids.PUBLISH: (
        PublishEntry,
        st.tuples(SEQUENCES, HEADS).flatmap(
            lambda ends: built(
                PublishEntry,
                NAMES,
                NAMES,
                STRINGS,
                NAMES,
                st.just(ends[0]),
                st.just(ends[1] if ends[1] < 0 else max(ends)),
                SEQUENCES,
                st.booleans(),
                st.lists(built(AbortedSpan, SEQUENCES, SEQUENCES, SEQUENCES), max_size=4).map(tuple),
            )
        ),
    ),
}
"""Id of a request with a list -> what the list is of."""

SEALED_HEADS = st.lists(built(SealedHead, NAMES, HEADS), max_size=4)
OPENED_STATUSES = built(
    AddressStatus, NAMES, st.integers(0, 255), HEADS, SEALED_HEADS.map(SealedHead.pack_all)
)
"""Of an answer to OPEN: its rows hold what was sealed."""


def tuples(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, max_size=4).map(tuple)


def packed(entry: Any) -> bytes:
    return bytes(entry.pack())


NATIVE_TOPICS = built(NativeTopic, NAMES, STRINGS, HEADS)
ROW_ANSWERS = [ids.answer_id(letter) for letter in ENTRIES if letter != ids.OPEN]

MESSAGES: dict[type[Any], st.SearchStrategy[Any]] = {
    Record: built(Record, NAMES, STRINGS, SEQUENCES, BYTES),
    Head: built(Head, NAMES, STRINGS, SEQUENCES),
    Ack: built(Ack, NAMES, st.one_of(st.just(""), NAMES), STRINGS, SEQUENCES, NONCES),
    Fetch: st.one_of(
        built(Fetch, NAMES, NAMES, STRINGS, SEQUENCES, COUNTS, st.just(""), st.just(0)),
        built(Fetch, SHORT_NAMES, NAMES, STRINGS, SEQUENCES, COUNTS, SHORT_NAMES, COUNTS),
    ),
    DirectRecord: built(DirectRecord, NAMES, st.one_of(st.just(""), NAMES), NAMES, STRINGS, SEQUENCES, BYTES),
    DirectHead: built(DirectHead, NAMES, NAMES, STRINGS, SEQUENCES, st.one_of(st.just(""), NAMES)),
    GetHeads: built(GetHeads, STRINGS, NAMES),
    ConsumerHello: built(ConsumerHello, NAMES, NAMES, tuples(STRINGS)),
    StoreHello: built(StoreHello, NAMES, NAMES),
    Request: st.one_of(
        [
            built(Request, st.just(letter), NAMES, NAMES, tuples(entries.map(packed)))
            for letter, (_, entries) in ENTRIES.items()
        ]
    ),
    Answer: st.one_of(
        built(Answer, st.just(ids.OPENED), NAMES, NAMES, tuples(OPENED_STATUSES), NONCES),
        built(Answer, st.sampled_from(ROW_ANSWERS), NAMES, NAMES, tuples(STATUSES), NONCES),
    ),
    Ping: built(Ping, NAMES, NAMES, NONCES),
    Pong: st.one_of(
        built(Pong, *PONG, st.just(b""), st.just(0), st.just(b""), st.just(-1)),
        built(Pong, *PONG, NONCE, SEQUENCES, st.just(b""), st.just(-1)),
        built(Pong, *PONG, NONCE, SEQUENCES, NONCE, HEADS),
    ),
    Lookup: built(
        Lookup,
        NAMES,
        NAMES,
        NAMES,
        st.sampled_from(sorted(LOOKUP_KINDS)),
        st.integers(-(2**63), 2**63 - 1),
        HEADS,
    ),
    Found: built(Found, NAMES, NAMES, STATUSES),
    GetRows: built(GetRows, NAMES, NAMES, NAMES, SEQUENCES, COUNTS),
    Rows: built(Rows, NAMES, NAMES, STATUSES, BYTES, NONCES),
    Verify: built(Verify, NAMES, NAMES, tuples(st.tuples(STRINGS, STRINGS))),
    Digest: built(Digest, NAMES, NAMES, NAMES, SEQUENCES, COUNTS),
    Digested: st.one_of(
        built(Digested, NAMES, NAMES, built(AddressStatus, NAMES, st.just(0), HEADS, DIGESTS)),
        built(Digested, NAMES, NAMES, built(AddressStatus, NAMES, st.integers(1, 255), HEADS, st.just(b""))),
    ),
    ListSegments: built(ListSegments, NAMES, NAMES, STRINGS, COUNTS),
    Listed: built(Listed, NAMES, NAMES, tuples(st.tuples(SEGMENTS, STATUSES)), NONCES),
    Keep: built(
        Keep,
        NAMES,
        NAMES,
        STRINGS,
        st.integers(0, 3),
        PLACES,
        STRINGS,
        SEQUENCES,
        KEPT_ENTRIES,
        tuples(KEYS),
    ),
    Kept: built(Kept, NAMES, NAMES, st.integers(0, 255), STRINGS, PLACES, COUNTS, NONCES),
    Recall: built(Recall, NAMES, NAMES, st.one_of(st.just(""), KEYS)),
    Recalled: built(
        Recalled, NAMES, NAMES, st.integers(0, 255), STRINGS, PLACES, KEPT_ENTRIES, st.booleans(), NONCES
    ),
    End: built(End, NAMES, NAMES, STATUSES),
    DirectRecords: built(
        DirectRecords,
        NAMES,
        NAMES,
        STRINGS,
        st.integers(0, MAX_SEQUENCE - 8),
        st.lists(BYTES, min_size=1, max_size=8).map(tuple),
    ),
    TakenUp: st.one_of(
        built(TakenUp, STRINGS, tuples(NATIVE_TOPICS), st.just(())),
        built(
            TakenUp,
            STRINGS,
            st.lists(NATIVE_TOPICS, min_size=2, max_size=3).map(tuple),
            tuples(built(TakenAddress, st.integers(0, 1), NAMES, SEQUENCES)),
        ),
    ),
}

HOSTS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255)
PORTS = st.integers(1, 65535)


def test_every_type_of_message_goes_round() -> None:
    beacon_types = {beacons.NodeBeacon, beacons.TowerBeacon}
    assert set(MESSAGES) == {type(message) for message in OWN.values()} - beacon_types


@pytest.mark.parametrize("message_type", MESSAGES, ids=lambda message_type: message_type.__name__)
@given(data=st.data())
def test_a_message_comes_back_as_it_was(message_type: type[Any], data: Any) -> None:
    message = data.draw(MESSAGES[message_type])
    decoded = decode(message.frames())
    assert decoded == message
    assert type(decoded) is message_type


@given(st.builds(beacons.NodeBeacon, HOSTS, st.one_of(st.just(""), HOSTS), PORTS))
def test_a_nodes_beacon_comes_back_as_it_was(beacon: beacons.NodeBeacon) -> None:
    assert beacons.decode_node_beacon(beacon.frames()) == beacon


@given(
    st.builds(
        beacons.TowerBeacon,
        HOSTS,
        st.builds("tcp://{}:{}".format, HOSTS, PORTS),
        st.sampled_from(("", "k" * 40)),
    )
)
def test_a_towers_beacon_comes_back_as_it_was(beacon: beacons.TowerBeacon) -> None:
    assert beacons.decode_tower_beacon(beacon.frames()) == beacon


@given(SEGMENTS)
def test_an_announcement_comes_back_as_it_was(segment: Announcement) -> None:
    assert Announcement.unpack(segment.pack()) == segment


@given(STATUSES)
def test_a_status_comes_back_as_it_was(status: AddressStatus) -> None:
    assert AddressStatus.unpack(status.pack()) == status


def test_every_request_with_a_list_has_its_entries() -> None:
    assert set(ENTRIES) == set(ids.LIST_REQUESTS)


@pytest.mark.parametrize(
    ("kind", "entries"), ENTRIES.values(), ids=[kind.__name__ for kind, _ in ENTRIES.values()]
)
@given(data=st.data())
def test_an_entry_of_a_request_comes_back_as_it_was(
    kind: type[Any], entries: st.SearchStrategy[Any], data: Any
) -> None:
    entry = data.draw(entries)
    unpacked = kind.unpack(entry.pack())
    assert unpacked == entry
    assert type(unpacked) is kind


@given(SEALED_HEADS)
def test_what_an_open_sealed_comes_back_as_it_was(sealed: Sequence[SealedHead]) -> None:
    assert SealedHead.unpack_all(SealedHead.pack_all(sealed)) == tuple(sealed)


@given(built(Beginning, SEGMENTS, BYTES))
def test_a_beginning_comes_back_as_it_was(beginning: Beginning) -> None:
    assert Beginning.unpack(beginning.pack()) == beginning


@given(st.lists(VERIFIED, max_size=4))
def test_what_is_known_of_logs_comes_back_as_it_was(entries: list[Verified]) -> None:
    assert Verified.unpack_all(Verified.pack_all(entries)) == entries


@given(MESSAGES[Record])
def test_a_record_encoder_gives_the_frames_of_the_record(record: Record) -> None:
    encoder = RecordEncoder(record.address, record.subject)
    assert encoder.frames(record.sequence, record.content) == record.frames()
    assert decode(encoder.frames(7, b"another")) == record._replace(sequence=7, content=b"another")


@given(MESSAGES[DirectRecord])
def test_a_direct_record_encoder_gives_the_frames_of_the_record(record: DirectRecord) -> None:
    encoder = DirectRecordEncoder(record.requester, record.store, record.address, record.subject)
    assert encoder.frames(record.sequence, record.content) == record.frames()
    assert decode(encoder.frames(7, b"another")) == record._replace(sequence=7, content=b"another")


@pytest.mark.parametrize(
    "with_content",
    [
        lambda content: Record("A9", "t", 5, content),
        lambda content: DirectRecord("R7", "S1", "A9", "t", 5, content),
        lambda content: Rows("R7", "S1", AddressStatus("A9", 0, 5), content),
    ],
    ids=["RECORD", "DIRECT-RECORD", "ROWS"],
)
@pytest.mark.parametrize(
    "content",
    [b"", b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b""), memoryview(bytearray(b"abc"))],
)
def test_content_is_passed_on_as_the_object_that_was_given(
    with_content: Callable[[Any], Any], content: bytes | bytearray | memoryview
) -> None:
    frames = with_content(content).frames()
    assert frames[1] is content
    assert decode(frames).content is content


@pytest.mark.parametrize("wrap", [bytearray, memoryview])
def test_a_header_may_be_any_buffer(wrap: Callable[[bytes], Any]) -> None:
    for name, message in OWN.items():
        if "BEACON" not in name:
            header, *content = message.frames()
            assert decode([wrap(header), *content]) == message


LONG = "n" * 255
WIDE = "\u00e9" * 127


@pytest.mark.parametrize("requester", [LONG, WIDE])
@pytest.mark.parametrize("store", [LONG, WIDE])
def test_names_of_255_bytes_fit_into_the_topics_of_answers(requester: str, store: str) -> None:
    for message in (
        Ack(requester, store, "t", 5),
        DirectRecord(requester, store, LONG, "t", 5, b""),
        Answer(b"s", requester, store, ()),
        Ping(store, requester),
        End(requester, store, AddressStatus(LONG, 0, 5)),
    ):
        assert decode(message.frames()) == message


TOO_LONG: dict[str, Any] = {
    "a directed FETCH whose topic C stores could not take": Fetch("a" * 130, "R7", "t", 5, 1, "s" * 124),
    "an address of 256 bytes": Record("a" * 256, "t", 5, b""),
    "an address of 128 two-byte characters": Head("\u00e9" * 128, "t", 5),
    "a subject of 256 bytes": Head("A9", "t" * 256, 5),
    "an incarnation of 256 bytes": Ack("A9", "s" * 256, "t", 5),
    "a requester of 256 bytes": End("r" * 256, "S1", AddressStatus("A9", 0, 5)),
    "a store of 256 bytes": Ping("s" * 256, "R7"),
    "a subject of 256 bytes in a list": ConsumerHello("S1", "R7", ("t" * 256,)),
    "4097 subjects": ConsumerHello("S1", "R7", ("t",) * (MAX_LIST_ENTRIES + 1)),
    "4097 entries": Request(b"S", "S1", "R7", (b"",) * (MAX_LIST_ENTRIES + 1)),
    "4097 statuses": Answer(b"s", "R7", "S1", (AddressStatus("A9", 0, 5),) * (MAX_LIST_ENTRIES + 1)),
    "NUL in an address": Ack("A\0", "", "t", 5),
    "NUL in a subject": Ack("A9", "", "t\0", 5),
    "NUL in a topic": GetHeads("t\0", "R7"),
    "a slash in an address": Ack("A/9", "S1", "t", 5),
    "a slash in an incarnation": Ack("A9", "S/1", "t", 5),
    "a slash in a requester": GetHeads("t", "R/7"),
    "@ in front of an address": Record("@A9", "t", 5, b""),
    "an empty address": Head("", "t", 5),
    "an empty requester": GetHeads("t", ""),
    "an answer of no store": Answer(b"s", "R7", "", ()),
    "a PING to no store": Ping("", "R7"),
    "no sequence in an ACK": Ack("A9", "S1", "t", -1),
    "no sequence in a HEAD": Head("A9", "t", -1),
    "no sequence in a record": Record("A9", "t", -1, b""),
    "direct records of none": DirectRecords("R7", "A9", "t", 5, ()),
    "4097 direct records": DirectRecords("R7", "A9", "t", 5, (b"",) * 4097),
    "direct records beyond the last sequence": DirectRecords("R7", "A9", "t", MAX_SEQUENCE, (b"",) * 2),
    "direct records before 0": DirectRecords("R7", "A9", "t", -1, (b"",)),
    "no sequence in a direct record": DirectRecord("R7", "", "A9", "t", -1, b""),
    "a head below none": End("R7", "S1", AddressStatus("A9", 0, -2)),
    "a byte cap for a FETCH of nobody": Fetch("A9", "R7", "t", 5, 1, "", 1024),
    "a sequence of no lineage": Kept("R7", "S1", 0, "C1", Remembered("", "G1", 5)),
    "a lineage without a sequence": Kept("R7", "S1", 0, "C1", Remembered("H1", "G1", -1)),
    "an entry's key of 1,025 bytes": Recall("S1", "R7", "k" * 1025),
    "an empty key of an entry": Recalled("R7", "S1", 0, "C1", Remembered(), {"": b""}),
    "4097 entries to be kept": Keep("S1", "R7", "C1", 1, puts={f"{n}": b"" for n in range(4097)}),
    "a KEEP of no kind": Keep("S1", "R7", "C1", 4),
    "a status of two bytes": End("R7", "S1", AddressStatus("A9", 256, 5)),
}


@pytest.mark.parametrize("message", TOO_LONG.values(), ids=TOO_LONG)
def test_what_nobody_would_decode_is_not_encoded(message: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"holds at most|not (a name|names|a sequence)|names its store|needs a store|range|together",
    ):
        message.frames()


def test_a_vector_is_read_by_the_decoder_of_its_kind() -> None:
    assert decoder_of("NODE-BEACON") is beacons.decode_node_beacon
    assert decoder_of("RECORD") is decode
