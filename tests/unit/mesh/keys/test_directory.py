"""Keys in files: who may read them, and what is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq.auth

from mesh.keys import directory
from mesh.keys.certificate import Certificate, to_text
from mesh.keys.directory import MEMBERS, OWN, OWN_SECRET, KeysRefused
from mesh.keys.roles import Role
from mesh.zmq_trio import new_key_pair, public_key_of


def certificate(name: str = "store-1", role: Role = Role.STORE) -> Certificate:
    public, secret = new_key_pair()
    return Certificate(name, role, public, (), secret)


OWN_ONE = certificate()


def test_a_secret_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        directory.make(tmp_path / "keys", OWN_ONE)
    finally:
        os.umask(before)
    assert (tmp_path / "keys" / OWN_SECRET).stat().st_mode & 0o777 == 0o600
    assert directory.read_own(tmp_path / "keys") == OWN_ONE
    assert OWN_ONE.secret not in (tmp_path / "keys" / OWN).read_text()


def test_the_two_keys_of_a_pair_belong_together() -> None:
    assert public_key_of(OWN_ONE.secret) == OWN_ONE.public


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610, 0o601])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    directory.make(tmp_path, OWN_ONE)
    (tmp_path / OWN_SECRET).chmod(mode)
    with pytest.raises(KeysRefused, match=f"mode {mode:04o}.*chmod 600"):
        directory.read_own(tmp_path)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_secret_that_its_owner_may_read_is_taken(tmp_path: Path, mode: int) -> None:
    directory.make(tmp_path, OWN_ONE)
    (tmp_path / OWN_SECRET).chmod(mode)
    assert directory.read_own(tmp_path) == OWN_ONE


def test_a_secret_behind_a_link_is_taken_as_kubernetes_mounts_it(tmp_path: Path) -> None:
    directory.make(tmp_path / "real", OWN_ONE)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / OWN_SECRET).symlink_to(tmp_path / "real" / OWN_SECRET)
    assert directory.read_own(tmp_path / "keys") == OWN_ONE


def _nothing(path: Path) -> None: ...


def _public_only(path: Path) -> None:
    directory.make(path, OWN_ONE)
    (path / OWN_SECRET).write_text(to_text(OWN_ONE))


def _too_large(path: Path) -> None:
    directory.make(path, OWN_ONE)
    (path / OWN_SECRET).write_text("#" * 20_000)


def _no_text(path: Path) -> None:
    directory.make(path, OWN_ONE)
    (path / OWN_SECRET).write_bytes(b"\xff")


def _pipe(path: Path) -> None:
    os.mkfifo(path / OWN_SECRET, 0o600)


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (_nothing, "dafka keys init"),
        (_public_only, "no secret key"),
        (_too_large, "larger than"),
        (_no_text, "no text"),
        (_pipe, "no file"),
    ],
)
def test_what_is_no_own_key(tmp_path: Path, prepare: Callable[[Path], None], why: str) -> None:
    prepare(tmp_path)
    with pytest.raises(KeysRefused, match=why):
        directory.read_own(tmp_path)


def test_a_key_is_not_replaced(tmp_path: Path) -> None:
    directory.make(tmp_path, OWN_ONE)
    with pytest.raises(KeysRefused, match="has a key already"):
        directory.make(tmp_path, certificate())
    assert directory.read_own(tmp_path) == OWN_ONE


def test_members_are_added_and_removed_by_name_and_by_key(tmp_path: Path) -> None:
    old, new, other = certificate(), certificate(), certificate("gateway-1", Role.GATEWAY)
    for one in (old, new, other, old):
        directory.add(tmp_path, one)
    found = {one.public for one in directory.read_members(tmp_path).values()}
    assert found == {old.public, new.public, other.public}
    assert all(not one.secret for one in directory.read_members(tmp_path).values())
    assert len(directory.remove(tmp_path, "store-1", old.short_key)) == 1
    assert {one.public for one in directory.read_members(tmp_path).values()} == {new.public, other.public}
    directory.remove(tmp_path, "store-1")
    assert [one.name for one in directory.read_members(tmp_path).values()] == ["gateway-1"]
    with pytest.raises(KeysRefused, match="dafka keys list"):
        directory.remove(tmp_path, "store-1")


def test_a_key_is_one_nodes(tmp_path: Path) -> None:
    directory.add(tmp_path, OWN_ONE)
    with pytest.raises(KeysRefused, match="a key is one node's"):
        directory.add(tmp_path, Certificate("gateway-1", Role.GATEWAY, OWN_ONE.public))


def test_a_member_that_cannot_be_read_is_refused_at_a_start(tmp_path: Path) -> None:
    directory.add(tmp_path, OWN_ONE)
    (tmp_path / MEMBERS / "bad.key").write_text("metadata\n")
    with pytest.raises(KeysRefused, match=r"bad\.key: .*Remove the file, then add it again with 'dafka"):
        directory.read_members(tmp_path)


def test_a_broken_certificate_stops_nobody_from_adding_and_removing(tmp_path: Path) -> None:
    """The text named as its cure the command that failed."""
    other = certificate("store-2")
    broken = directory.add(tmp_path, OWN_ONE)
    broken.write_text("half a certif")
    added = directory.add(tmp_path, other)
    assert directory.remove(tmp_path, "store-2") == [added]
    assert directory.add(tmp_path, OWN_ONE) == broken
    assert [one.public for one in directory.read_members(tmp_path).values()] == [OWN_ONE.public]


def test_a_broken_certificate_is_removed_by_the_name_in_its_files_name(tmp_path: Path) -> None:
    old, new = certificate("store-1"), certificate("store-1")
    files = [directory.add(tmp_path, one) for one in (old, new, certificate("store"))]
    for file in files:
        file.write_text("half a certif")
    by_hand = tmp_path / MEMBERS / "store-1.key"
    by_hand.touch()
    assert directory.remove(tmp_path, "store") == [files[2]]
    assert directory.remove(tmp_path, "store-1", new.short_key) == [files[1]]
    other = tmp_path / MEMBERS / "gateway-1.key"
    other.touch()
    assert set(directory.remove(tmp_path, "store-1")) == {files[0], by_hand}
    assert directory.member_files(tmp_path) == [other]


def test_a_broken_certificate_counts_among_those_that_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "MAX_MEMBERS", 1)
    directory.add(tmp_path, OWN_ONE).write_text("half a certif")
    with pytest.raises(KeysRefused, match="has 1 certificates, and no more may be"):
        directory.add(tmp_path, certificate())


def test_a_change_of_any_file_is_seen(tmp_path: Path) -> None:
    seen = [directory.signature(tmp_path)]
    file = directory.add(tmp_path, OWN_ONE)
    seen.append(directory.signature(tmp_path))
    directory.add(tmp_path, OWN_ONE)  # written anew
    seen.append(directory.signature(tmp_path))
    file.unlink()
    seen.append(directory.signature(tmp_path))
    assert len(set(seen)) == 3
    assert seen[0] == seen[3] == ()


def test_a_change_of_a_mode_is_seen(tmp_path: Path) -> None:
    file = directory.add(tmp_path, OWN_ONE)
    before = directory.signature(tmp_path)
    file.chmod(0o602)
    assert directory.signature(tmp_path) != before


def test_more_members_than_there_may_be(tmp_path: Path) -> None:
    (tmp_path / MEMBERS).mkdir()
    for number in range(1025):
        (tmp_path / MEMBERS / f"{number}.key").touch()
    with pytest.raises(KeysRefused, match="more than 1024"):
        directory.read_members(tmp_path)


def test_no_member_is_added_that_would_be_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would stop all starts, and freeze the table of the processes that run."""
    monkeypatch.setattr(directory, "MAX_MEMBERS", 2)
    here = [certificate(), certificate()]
    for one in here:
        directory.add(tmp_path, one)
    with pytest.raises(KeysRefused, match="has 2 certificates, and no more may be"):
        directory.add(tmp_path, certificate())
    directory.add(tmp_path, here[0])
    assert {one.public for one in directory.read_members(tmp_path).values()} == {one.public for one in here}


@pytest.mark.parametrize("name", [".", MEMBERS, f"{MEMBERS}/{{}}"])
def test_members_that_others_may_write_are_refused(tmp_path: Path, name: str) -> None:
    file = directory.add(tmp_path, OWN_ONE)
    wide = tmp_path / name.format(file.name)
    mode = wide.stat().st_mode
    wide.chmod(mode | 0o002)
    with pytest.raises(KeysRefused, match=rf"chmod o-w {wide}"):
        directory.read_members(tmp_path)
    wide.chmod(mode | 0o020)
    assert [one.public for one in directory.read_members(tmp_path).values()] == [OWN_ONE.public]


def test_a_directory_that_everybody_may_write_has_no_own_key(tmp_path: Path) -> None:
    """Who may rename what is in it puts another key there. What is sticky is renamed by its owner alone."""
    directory.make(tmp_path, OWN_ONE)
    tmp_path.chmod(0o777)
    with pytest.raises(KeysRefused, match=f"{tmp_path}: everybody may write it .*chmod o-w {tmp_path}'"):
        directory.read_own(tmp_path)
    tmp_path.chmod(0o1777)
    assert directory.read_own(tmp_path) == OWN_ONE
    assert directory.read_members(tmp_path) == {}


def test_what_cannot_be_written_leaves_no_half_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            directory.make(tmp_path, OWN_ONE)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    directory.make(tmp_path, OWN_ONE)
    assert directory.read_own(tmp_path) == OWN_ONE


def test_pyzmq_reads_our_files_and_we_read_its(tmp_path: Path) -> None:
    """It writes them as czmq does."""
    directory.make(tmp_path / "ours", OWN_ONE)
    for name in (OWN, OWN_SECRET):
        public, secret = zmq.auth.load_certificate(tmp_path / "ours" / name)
        assert public == OWN_ONE.public.encode()
        assert secret == (OWN_ONE.secret.encode() if name == OWN_SECRET else None)
    _, written = zmq.auth.create_certificates(tmp_path, "own", {"name": "store-1", "role": "store"})
    Path(written).chmod(0o600)
    found = directory.read_own(tmp_path)
    public, secret = zmq.auth.load_certificate(written)
    assert secret is not None
    assert (found.name, found.role) == ("store-1", Role.STORE)
    assert (found.public, found.secret) == (public.decode(), secret.decode())
