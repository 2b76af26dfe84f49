import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest

from dafka.backup.manifest import (
    BadManifest,
    Gap,
    KnownSegments,
    Manifest,
    Part,
    SavedPartition,
    SavedSegment,
    SavedTopic,
    id_at,
    id_of,
    manifest_name,
    pack,
    unpack,
)
from gateway.catalog import keys
from gateway.cluster.quotas import Kept, key_of
from gateway.cluster.quotas import pack as pack_quotas
from gateway.cluster.scram_users import pack as pack_user
from gateway.security.scram import Hash, credential_of

PART = Part("ab" * 32, 1000, 0, 10, 10, 99, 3)


USER_VALUE = pack_user({Hash.SHA_256: credential_of(Hash.SHA_256, "secret", b"salt", 4096)})
QUOTAS = Kept(frozenset({("user", "alice")}), {"producer_byte_rate": 1000.0}, "")
SECURITY = {
    keys.scram_key("alice"): base64.b64encode(USER_VALUE).decode(),
    keys.SCRAM_SECRET: base64.b64encode(bytes(32)).decode(),
    key_of(QUOTAS.entity): base64.b64encode(pack_quotas(QUOTAS)).decode(),
}


def segment(address: str = "A1", start: int = 0, *parts: Part) -> SavedSegment:
    parts = parts or (replace(PART, end=start + 10),)
    return SavedSegment(
        address, 3, start, parts[-1].end, parts[-1].last, 1, 2, -1, "cd" * 32, parts, is_cut=True
    )


def manifest(*segments: SavedSegment) -> Manifest:
    partition = SavedPartition(
        "orders", 1, 20, 5, ((3, 0),), {"next_epoch": 4}, "", segments, (Gap(10, 20, "why"),)
    )
    topic = SavedTopic("orders", "ef" * 16, 2, 3, {"retention.ms": "1"})
    return Manifest(
        "id", 12, "C1", 7, 1000, {"/broker-configs/1": {"a": "b"}}, (topic,), (partition,), SECURITY
    )


def test_what_is_packed_comes_back() -> None:
    packed = manifest(segment(), segment("A2", 10))
    assert unpack(pack(packed), "name") == packed
    assert packed.size == 2000
    assert [gap.why for _, gap in packed.gaps] == ["why"]
    assert {sha256 for sha256, _ in packed.objects()} == {"ab" * 32, "cd" * 32}


@pytest.mark.parametrize("at", range(0, 900, 7))
def test_what_was_changed_or_cut_off_is_no_manifest(at: int) -> None:
    content = bytearray(pack(manifest(segment())))
    with pytest.raises(BadManifest, match="name: the manifest"):
        unpack(bytes(content[:at]), "name")
    content[at] ^= 1
    with pytest.raises(BadManifest, match="name: the manifest"):
        unpack(bytes(content), "name")


def test_a_newer_version_is_told_apart() -> None:
    with pytest.raises(BadManifest, match="version 3"):
        unpack(pack(manifest()).replace(b'"version":2', b'"version":3'), "name")


def test_one_without_users_is_read() -> None:
    older = replace(manifest(), security={})
    head, *lines = pack(older).splitlines(keepends=True)
    told = json.loads(head) | {"version": 1}
    del told["security"]
    lines = [json.dumps(told).encode() + b"\n", *lines[:-1]]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    content = b"".join([*lines, json.dumps({"lines": len(lines), "sha256": digest}).encode() + b"\n"])
    assert unpack(content, "name") == older


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.scram_key("alice"), b"{}"),
        (keys.SCRAM_SECRET, b"short"),
        (f"{keys.ACLS}no-digest", b"\x00\xff"),
        (f"{keys.QUOTAS}no-digest", b""),
    ],
)
def test_a_user_or_an_acl_that_cannot_be_read_is_kept_as_it_is(key: str, value: bytes) -> None:
    damaged = replace(manifest(), security=SECURITY | {key: base64.b64encode(value).decode()})
    read = unpack(pack(damaged), "name")
    assert read == damaged
    assert read.security_entries == manifest().security_entries | {key: value}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (keys.CLUSTER, "e30=", "the entry '/cluster' is no user, no ACL and no quota"),
        (keys.SCRAM_SECRET, "no base64", "the entry '/scram-secret' is no base64"),
    ],
)
def test_what_no_backup_has_is_named(key: str, value: str, why: str) -> None:
    damaged = replace(manifest(), security=SECURITY | {key: value})
    with pytest.raises(BadManifest, match=re.escape(why)):
        unpack(pack(damaged), "name")


def test_names_are_in_the_order_of_time() -> None:
    assert id_at(0, "x") == "19700101T000000.000Z-x"
    moments = (0, 1, 999, 1000, 60_000, 10**12, 10**12 + 1)
    assert sorted(id_at(moment, "x") for moment in moments) == [id_at(moment, "x") for moment in moments]
    assert id_of(manifest_name("19700101T000000.000Z-x")) == "19700101T000000.000Z-x"


def test_what_is_known_is_used_where_it_is_whole() -> None:
    full = replace(PART, bytes=5000)
    rest = Part("ef" * 32, 10, 10, 5, 15, 99, 3)
    known = KnownSegments()
    known.take(manifest(segment("A1", 0, full, rest)))
    assert known.part("A1", 0, 14, 5000) == full
    assert known.part("A1", 0, 20, 5000) == full  # the segment has grown
    assert known.part("A1", 0, 5, 5000) is None  # it has not all of it
    assert known.part("A1", 10, 14, 5000) == rest
    assert known.part("A1", 10, 20, 5000) is None  # there is more, which would belong to it
    assert known.part("A2", 0, 14, 5000) is None
    assert known.producers("A1") == "cd" * 32
    assert known.producers("A2") is None


def test_an_unfinished_one_is_read_as_far_as_it_goes() -> None:
    known, other = KnownSegments(), KnownSegments()
    known.add("A1", PART)
    known.by_address["A1"].producers = ""
    known.add("A2", PART)
    content = known.pack(["A1", "A2", "A3"])
    other.unpack(content)
    assert other.by_address == known.by_address
    other = KnownSegments()
    other.unpack(content[:-20])
    assert list(other.by_address) == ["A1"]
