"""The table of who may do what, as it follows its files."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import trio

from mesh.keys import directory
from mesh.keys.admission import answer
from mesh.keys.certificate import Certificate, to_text
from mesh.keys.directory import MEMBERS, KeysRefused
from mesh.keys.keys import MAX_CLAIMS, Keys
from mesh.keys.roles import LINKS, Role
from mesh.keys.z85 import decode
from mesh.log_bounds import MAX_LINES, MAX_LINES_OF_SOURCE
from mesh.protocol.published_address import published_address
from mesh.zmq_trio import new_key_pair
from wireproto.dafka import ids
from wireproto.dafka.additions import (
    ANY_STORE,
    NOTHING_REMEMBERED,
    AddressStatus,
    Answer,
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
    Ping,
    Pong,
    Recall,
    Recalled,
    Request,
    Rows,
    TakenUp,
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
)

A, S, R = "A" * 32, "5" * 32, "C" * 32
STATUS = AddressStatus(A, 0, 0)
PUBLISHED = published_address(bytes(16), 0)


def certificate(name: str, role: Role, *subjects: str) -> Certificate:
    public, secret = new_key_pair()
    return Certificate(name, role, public, subjects, secret)


ROLES = {
    Role.TOWER: certificate("tower-1", Role.TOWER),
    Role.STORE: certificate("store-1", Role.STORE),
    Role.GATEWAY: certificate("gateway-1", Role.GATEWAY),
    Role.PRODUCER: certificate("sensors", Role.PRODUCER, "heat"),
    Role.READER: certificate("screen", Role.READER),
}


def keys_of(path: Path, own: Certificate, *members: Certificate) -> Keys:
    directory.make(path, own)
    for one in members:
        directory.add(path, one)
    return Keys(path)


G, ST, P, RD = Role.GATEWAY, Role.STORE, Role.PRODUCER, Role.READER

MESSAGES: list[tuple[Any, set[Role]]] = [
    *(
        (Request(request_id, S, R, ()), {G})
        for request_id in (ids.OPEN, ids.SEAL, ids.DELETE, ids.BEGINNINGS, ids.PUBLISH)
    ),
    (Request(ids.COPY, S, R, ()), {G, ST}),
    (Request(ids.CLOSE, S, R, ()), {G, ST}),
    (Ping(ANY_STORE, R), {G}),
    (Pong(R, S, "cluster", "store-1"), {ST}),
    (Pong(R, S, "cluster", "store-2"), set()),
    (Pong(R, "gateway", "cluster", "name"), {G}),
    (Lookup(S, R, A, 0, 0, 0), {G}),
    (GetRows(S, R, A, 0, 1), {G}),
    (ListSegments(S, R, "", 1), {G}),
    (Recall(S, R, ""), {G}),
    (Keep(S, R, "cluster", 0), {G}),
    (Verify(S, R, ()), {G, ST}),
    (TakenUp("cluster"), {G}),
    (Digest(S, R, A, 0, 1), {G, ST}),
    (Ack(A, S, "heat", 0), {ST}),
    (Ack(A, "", "heat", 0), {ST}),
    (Answer(ids.OPENED, R, S, ()), {ST}),
    (Found(R, S, STATUS), {ST}),
    (Rows(R, S, STATUS, b""), {ST}),
    (Listed(R, S, ()), {ST}),
    (Digested(R, S, STATUS), {ST}),
    (Kept(R, S, 0, "cluster", NOTHING_REMEMBERED), {ST}),
    (Recalled(R, S, 0, "cluster", NOTHING_REMEMBERED), {ST}),
    (End(R, S, STATUS), {ST}),
    (DirectHead(R, A, "heat", 0), {ST}),
    (DirectHead(R, A, "heat", 0, S), {ST}),
    (StoreHello(R, S), {ST}),
    (DirectRecord(R, S, A, "heat", 0, b""), {ST}),
    (DirectRecords(R, A, "heat", 0, (b"",)), {ST}),
    (DirectRecord(R, "", A, "heat", 0, b""), {G, ST, P}),
    (DirectRecord(R, "", A, "cold", 0, b""), {G, ST}),
    (Record(A, "heat", 0, b""), {G, P}),
    (Record(A, "cold", 0, b""), {G}),
    (Head(A, "heat", 0), {G, P}),
    (Head(A, "cold", 0), {G}),
    (Head(PUBLISHED, "heat", 0), {G, ST}),
    (Record(PUBLISHED, "heat", 0, b""), {G}),
    (DirectRecord(R, "", PUBLISHED, "heat", 0, b""), {G, ST}),
    (GetHeads("heat", R), {ST, G, P, RD}),
    (GetHeads("cold", R), {ST, G, RD}),
    (ConsumerHello(S, R, ()), {RD}),
    (Fetch(A, R, "heat", 0, 1), {G, ST, RD}),
    (Fetch(A, R, "heat", 0, 1, S, 1), {G, ST}),
]


@pytest.mark.parametrize(("message", "allowed"), MESSAGES, ids=range(len(MESSAGES)))
def test_which_role_may_send_what(tmp_path: Path, message: Any, allowed: set[Role]) -> None:
    keys = keys_of(tmp_path, certificate("own", Role.STORE), *ROLES.values())
    found = {role for role, one in ROLES.items() if keys.allows(one.public, message)}
    assert found == allowed
    assert keys.refused_messages == len(ROLES) - len(allowed)
    assert not keys.allows(new_key_pair()[0], message), "a stranger's"


def test_the_messages_above_are_all_that_there_are() -> None:
    from wireproto.dafka.messages import _CONTENT_DECODERS, _DECODERS

    named = {type(message) for message, _ in MESSAGES}
    assert len(named) == len({*_DECODERS, *_CONTENT_DECODERS}) - 2 * (len(ids.LIST_REQUESTS) - 1)
    assert {message.id for message, _ in MESSAGES if isinstance(message, Request)} == set(ids.LIST_REQUESTS)


@pytest.mark.parametrize("own", list(Role))
def test_links_are_wanted_by_both_ends_or_by_neither(tmp_path: Path, own: Role) -> None:
    subjects = ("heat",) if own is Role.PRODUCER else ()
    keys = keys_of(tmp_path, certificate("own", own, *subjects), *ROLES.values())
    admitted = {role for role, one in ROLES.items() if keys.admits(one.public)}
    assert admitted == LINKS[own]
    assert keys.refused_peers == len(ROLES) - len(admitted)
    assert not keys.admits(new_key_pair()[0])
    if own is not Role.TOWER:
        assert {other for other in Role if own in LINKS[other]} - {Role.TOWER} == admitted


def test_an_incarnation_is_of_the_name_that_said_it_first(tmp_path: Path) -> None:
    store, other = ROLES[Role.STORE], certificate("store-2", Role.STORE)
    successor = certificate("store-1", Role.STORE)
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store, other, successor)
    ack = Ack(A, S, "heat", 0)
    assert keys.allows(store.public, ack)
    assert not keys.allows(other.public, ack)
    assert not keys.allows(other.public, Ack(A, "~" + S, "heat", 0)), "also of what was not announced"
    assert not keys.allows(other.public, Pong(R, S, "cluster", "store-2"))
    assert keys.allows(other.public, Ack(A, R, "heat", 0))
    assert keys.allows(successor.public, ack), "the next key of the same store"


def test_a_store_has_the_name_of_its_key(tmp_path: Path) -> None:
    """'dafka store admit' finds stores by the names in their PONGs."""
    store, other = ROLES[Role.STORE], certificate("store-2", Role.STORE)
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store, other)
    assert not keys.allows(other.public, Pong(R, S, "cluster", "store-1"))
    assert not keys.allows(other.public, Pong(R, S, "cluster", ""))
    assert keys.allows(store.public, Pong(R, S, "cluster", "store-1")), "nothing was claimed by the lie"


def test_a_store_that_says_many_incarnations_shuts_no_other_out(tmp_path: Path) -> None:
    """Its own oldest claims go; those of another name stay, and new ones of others have room."""
    rogue, store = ROLES[Role.STORE], certificate("store-2", Role.STORE)
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), rogue, store)
    assert keys.allows(store.public, Ack(A, S, "heat", 0))
    made_up = [f"{number:032X}" for number in range(5000)]
    assert all(keys.allows(rogue.public, Ack(A, one, "heat", 0)) for one in made_up)
    assert not keys.allows(rogue.public, Ack(A, S, "heat", 0))
    assert keys.allows(store.public, Ack(A, "9" * 32, "heat", 0)), "one that was not heard before"
    assert not keys.allows(store.public, Ack(A, made_up[-MAX_CLAIMS], "heat", 0))
    assert keys.allows(store.public, Ack(A, made_up[-MAX_CLAIMS - 1], "heat", 0)), "forgotten: anybody's"


def test_a_stranger_keeps_nobody_else_out_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = keys_of(tmp_path, certificate("own", Role.TOWER))
    for _ in range(100):
        assert not keys.admits(new_key_pair()[0], "10.0.0.66")
    assert len(caplog.messages) == MAX_LINES_OF_SOURCE
    store = ROLES[Role.STORE].public
    assert not any(keys.admits(store, "10.0.0.1") for _ in range(10))
    (line,) = caplog.messages[MAX_LINES_OF_SOURCE:]
    assert f"the link of key {store} at 10.0.0.1: it is no member here. 'dafka keys add {tmp_path} " in line
    assert keys.refused_peers == 110


def test_strangers_with_many_addresses_keep_no_member_out_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader = ROLES[Role.READER]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), reader)
    for host in range(100):
        assert not keys.admits(new_key_pair()[0], f"10.0.0.{host}")
    assert len(caplog.messages) == MAX_LINES
    assert not keys.admits(reader.public, "10.0.0.1")
    (line,) = caplog.messages[MAX_LINES:]
    assert "refused the link of screen, a reader, at 10.0.0.1: a gateway has no links with that role" in line


def test_one_sender_keeps_no_other_out_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rogue, store = ROLES[Role.STORE], certificate("store-2", Role.STORE)
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), rogue, store)
    assert keys.allows(rogue.public, Ack(A, S, "heat", 0))
    for number in range(100):
        assert not keys.allows(rogue.public, Pong(R, S, "cluster", f"store-{number + 2}"))
    assert len(caplog.messages) == MAX_LINES_OF_SOURCE
    assert not any(keys.allows(store.public, Ack(A, S, "heat", 0)) for _ in range(10))
    name, claim = caplog.messages[MAX_LINES_OF_SOURCE - 1 :]
    last = f"'store-{MAX_LINES_OF_SOURCE + 1}'"
    assert f"Pong, from store-1, a store. It says that its name is {last}, and a store has the" in name
    assert f"Ack, from store-2, a store. It says that it is '{S}', which is store-1's. If its data" in claim


def look(keys: Keys) -> None:
    trio.run(keys.look)


def test_a_key_counts_from_the_moment_its_file_is_there_until_it_is_gone(tmp_path: Path) -> None:
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY))
    told: list[int] = []
    keys.on_change(lambda: told.append(len(list(keys.members()))))
    assert not keys.allows(store.public, Ack(A, S, "", 0))
    directory.add(tmp_path, store)
    look(keys)
    assert keys.allows(store.public, Ack(A, S, "", 0))
    look(keys)
    directory.remove(tmp_path, store.name)
    look(keys)
    assert not keys.allows(store.public, Ack(A, S, "", 0))
    assert not keys.admits(store.public)
    assert told == [1, 0]


def test_another_role_counts_at_once(tmp_path: Path) -> None:
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store)
    file = directory.member_files(tmp_path)[0]
    file.write_text(to_text(Certificate("store-1", Role.READER, store.public)))
    look(keys)
    assert not keys.allows(store.public, Ack(A, S, "", 0))


def test_a_file_that_breaks_counts_as_before_and_others_are_followed(tmp_path: Path) -> None:
    store, other = ROLES[Role.STORE], certificate("store-2", Role.STORE)
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store, other)
    for file in directory.member_files(tmp_path):
        if file.name.startswith("store-1"):
            file.write_text("half a certif")
    (tmp_path / MEMBERS / "new.key").write_text("nothing")
    next(file for file in directory.member_files(tmp_path) if file.name.startswith("store-2")).unlink()
    look(keys)
    assert keys.allows(store.public, Ack(A, S, "", 0))
    assert not keys.allows(other.public, Ack(A, R, "", 0))


def test_a_directory_that_vanishes_takes_nobody_off_the_mesh(tmp_path: Path) -> None:
    """A disk that is not there for a while says nothing of who is a member."""
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path / "keys", certificate("own", Role.GATEWAY), store)
    (tmp_path / "keys").rename(tmp_path / "away")
    look(keys)
    assert keys.allows(store.public, Ack(A, S, "", 0))
    (tmp_path / "away").rename(tmp_path / "keys")
    directory.remove(tmp_path / "keys", store.name)
    look(keys)
    assert not keys.allows(store.public, Ack(A, S, "", 0))


def test_a_file_whose_mode_was_refused_is_read_after_the_chmod(tmp_path: Path) -> None:
    """The log says which one, and nobody should have to touch the file beside it."""
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY))
    file = directory.add(tmp_path, store)
    file.chmod(0o602)
    look(keys)
    assert keys.holder(store.public) is None
    file.chmod(0o600)
    look(keys)
    assert keys.holder(store.public) is not None
    assert not keys.is_stale


def test_a_file_that_is_moved_away_and_back_while_nothing_is_read_is_there_again(tmp_path: Path) -> None:
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store)
    before = directory.signature(tmp_path)
    (file,) = directory.member_files(tmp_path)
    folder = tmp_path / MEMBERS
    folder.chmod(0o702)
    file.rename(tmp_path / "away")
    look(keys)
    assert keys.holder(store.public) is None
    (tmp_path / "away").rename(file)
    folder.chmod(0o700)
    # A file system whose times are coarse, or that keeps none, tells no move.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mesh.keys.keys.signature", lambda _path: before)
        look(keys)
    assert keys.holder(store.public) is not None


def test_who_listens_to_what_is_not_its_own_is_nobody(tmp_path: Path) -> None:
    reader, gateway = ROLES[Role.READER], ROLES[Role.GATEWAY]
    keys = keys_of(tmp_path, certificate("own", Role.STORE), reader, gateway)
    told: list[bool] = []
    keys.on_change(lambda: told.append(keys.peer(reader.public) is None))
    assert keys.may_subscribe(reader.public, b"Mheat")
    assert keys.may_subscribe(gateway.public, b"D0123456789ABCDEF")
    assert not told
    assert not keys.may_subscribe(reader.public, b"")
    assert told == [True]
    assert not keys.admits(reader.public)
    directory.add(tmp_path, reader)
    look(keys)
    assert not keys.admits(reader.public), "not by being added again"
    assert not keys.may_subscribe(new_key_pair()[0], b"Mheat"), "a stranger"


def look_without_descriptors(keys: Keys, looks: int = 1) -> None:
    """All that the process may have are used."""

    async def main() -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                os.open("/dev/null", os.O_RDONLY)
            for _ in range(looks):
                await keys.look()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    trio.run(main)


def test_a_removal_is_followed_without_a_descriptor(tmp_path: Path) -> None:
    """A stranger uses them all up by handshakes that it does not end."""
    store, other, late = (certificate(f"store-{number}", Role.STORE) for number in range(3))
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store, other)
    told: list[bool] = []
    keys.on_change(lambda: told.append(keys.peer(store.public) is None))
    directory.remove(tmp_path, store.name)
    directory.add(tmp_path, late)
    look_without_descriptors(keys)
    assert told == [True]
    assert [one.name for one in keys.members()] == [other.name]
    assert keys.is_stale
    look(keys)
    assert [one.name for one in keys.members()] == [other.name, late.name]
    assert not keys.is_stale


def test_a_directory_that_is_away_takes_nobody_off_the_mesh_without_a_descriptor_either(
    tmp_path: Path,
) -> None:
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path / "keys", certificate("own", Role.GATEWAY), store)
    (tmp_path / "keys").rename(tmp_path / "away")
    look_without_descriptors(keys)
    assert keys.peer(store.public) is not None


def test_trouble_is_said_once_until_it_is_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), ROLES[Role.STORE])
    caplog.set_level("INFO")
    for _ in range(2):
        look_without_descriptors(keys, 3)
        look(keys)
        look(keys)
    said = [(record.levelname, "again" in record.message) for record in caplog.records]
    assert said == [("ERROR", False), ("INFO", True)] * 2


def test_a_file_that_could_not_be_opened_is_read_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Though it has not changed since."""
    store = ROLES[Role.STORE]
    keys = keys_of(tmp_path, certificate("own", Role.GATEWAY), store)
    told: list[int] = []
    keys.on_change(lambda: told.append(len(list(keys.members()))))

    def refuse(_file: Path) -> Certificate:
        raise OSError(errno.EMFILE, "Too many open files")

    directory.add(tmp_path, ROLES[Role.READER])
    with monkeypatch.context() as patched:
        patched.setattr("mesh.keys.keys.read_member", refuse)
        for _ in range(3):
            look(keys)
        assert keys.is_stale
        assert len(caplog.records) == 2, "one for each file"
        assert told == []
    look(keys)
    assert told == [2]
    assert not keys.is_stale


LIFE = b"0123456789ABCDEF"
ID_OF_LIFE = LIFE + b"0" * 16


@pytest.mark.parametrize("how", ["subscribes", "asks", "is inside"])
def test_a_native_that_has_an_id_before_a_gateway_has_its_life_is_cut(tmp_path: Path, how: str) -> None:
    """The life is no secret: towers tell it. Learned from a request it comes before the answer."""
    reader, sensors, gateway = ROLES[Role.READER], ROLES[Role.PRODUCER], ROLES[Role.GATEWAY]
    keys = keys_of(tmp_path, certificate("own", Role.STORE), reader, sensors, gateway)
    keys.on_life(lambda life: [reader.public, gateway.public] if life == LIFE else [sensors.public])
    assert keys.may_subscribe(reader.public, b"D" + ID_OF_LIFE)
    if how == "subscribes":
        assert keys.may_subscribe(gateway.public, b"D" + LIFE)
    elif how == "asks":
        assert keys.allows(gateway.public, Fetch(A, ID_OF_LIFE.decode(), "heat", 0, 1, S, 1))
    else:
        keys.heard_inside(b"D" + LIFE)
    assert keys.peer(reader.public) is None
    assert keys.peer(sensors.public) is not None
    assert keys.peer(gateway.public) is not None
    assert not keys.may_subscribe(sensors.public, b"D" + ID_OF_LIFE), "nor may others have one from then on"


def test_nobody_but_a_gateway_has_natives_cut(tmp_path: Path) -> None:
    """Not a store that takes their ids for its own, nor a gateway that answers them."""
    reader, store, gateway = ROLES[Role.READER], ROLES[Role.STORE], ROLES[Role.GATEWAY]
    keys = keys_of(tmp_path, certificate("own", Role.STORE), reader, store, gateway)
    keys.on_life(lambda _life: [reader.public])
    for prefix in (b"", b"D", b"D" + R.encode()[:16], b"D" + R.encode()):
        assert keys.may_subscribe(store.public, prefix)
    assert keys.allows(store.public, Fetch(A, R, "heat", 0, 1, S, 1))
    assert keys.allows(gateway.public, DirectRecord(R, "", A, "heat", 0, b""))
    assert keys.may_subscribe(reader.public, b"D" + R.encode())


def test_the_lives_of_a_gateway_go_with_its_key(tmp_path: Path) -> None:
    reader, gateway = ROLES[Role.READER], ROLES[Role.GATEWAY]
    keys = keys_of(tmp_path, certificate("own", Role.STORE), reader, gateway)
    keys.heard_inside(b"D" + S.encode()[:16])
    assert keys.may_subscribe(gateway.public, b"D" + LIFE)
    directory.remove(tmp_path, gateway.name)
    look(keys)
    assert keys.may_subscribe(reader.public, b"D" + ID_OF_LIFE)
    assert not keys.may_subscribe(reader.public, b"D" + S.encode()), "of the gateway in this process"


def test_a_directory_without_an_own_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysRefused, match="dafka keys init"):
        Keys(tmp_path)


PEER = certificate("store-1", Role.STORE)


def zap(*, version: bytes = b"1.0", mechanism: bytes = b"CURVE", key: bytes | None = None) -> list[bytes]:
    credential = decode(PEER.public) if key is None else key
    return [b"route", b"", version, b"7", b"dafka", b"127.0.0.1", b"", mechanism, credential]


@pytest.mark.parametrize(
    ("request_frames", "status", "user"),
    [
        (zap(), b"200", b"PEER"),
        (zap(key=bytes(32)), b"300", b""),
        (zap(key=bytes(31)), b"400", b""),
        (zap(mechanism=b"NULL"), b"400", b""),
        (zap(mechanism=b"PLAIN"), b"400", b""),
        (zap(version=b"2.0"), b"400", b""),
        (zap()[:8], b"400", b""),
        ([*zap(), b"more"], b"400", b""),
    ],
    ids=("known", "unknown", "short", "NULL", "PLAIN", "version", "no key", "two keys"),
)
def test_what_is_answered_to_zeromq(request_frames: list[bytes], status: bytes, user: bytes) -> None:
    reply = answer(request_frames, lambda public, address: (public, address) == (PEER.public, "127.0.0.1"))
    user = user.replace(b"PEER", PEER.public.encode())
    assert reply == [b"route", b"", b"1.0", b"7", status, b"", user, b""]


def test_what_is_no_question_is_not_answered() -> None:
    assert answer([b"route", b""], lambda _public, _address: True) is None
