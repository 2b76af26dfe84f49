"""`dafka keys`, as it is typed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from dafka.cli import run
from mesh.keys.directory import OWN, OWN_SECRET, KeysRefused, read_members, read_own
from mesh.keys.roles import Role


def init(path: Path, role: str, *more: str) -> int:
    return run(["keys", "init", str(path), "--name", path.name, "--role", role, *more])


def names(path: Path) -> list[str]:
    return sorted(one.name for one in read_members(path).values())


def test_a_mesh_is_made_and_somebody_taken_off_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tower, store, sensors = (tmp_path / name for name in ("tower-1", "store-1", "sensors"))
    assert init(tower, "tower") == 0
    assert init(store, "store") == 0
    assert init(sensors, "producer", "--subject", "heat", "--subject", "rooms/*") == 0
    files = [str(tower / OWN), str(sensors), str(store / OWN_SECRET)]
    assert run(["keys", "add", str(store), *files]) == 0
    assert names(store) == ["sensors", "store-1", "tower-1"]
    secret = read_own(store).secret
    assert all(secret not in file.read_text() for file in (store / "members").iterdir())
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in (store / "members").iterdir())

    capsys.readouterr()
    assert run(["keys", "list", str(store), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["role"], one["subjects"]) for one in shown["members"]] == [
        ("sensors", "producer", ["heat", "rooms/*"]),
        ("store-1", "store", []),
        ("tower-1", "tower", []),
    ]
    assert run(["keys", "list", str(store)]) == 0
    table = capsys.readouterr().out
    assert f"{store} has the key of store-1, a store" in table
    assert secret not in table

    assert run(["keys", "remove", str(store), "sensors"]) == 0
    assert names(store) == ["store-1", "tower-1"]


def test_of_two_keys_of_one_name_one_is_removed(tmp_path: Path) -> None:
    old, new, other = tmp_path / "old" / "store-1", tmp_path / "new" / "store-1", tmp_path / "gateway-1"
    for path, role in ((old, "store"), (new, "store"), (other, "gateway")):
        assert init(path, role) == 0
    assert run(["keys", "add", str(other), str(old), str(new)]) == 0
    assert run(["keys", "remove", str(other), "store-1", "--key", read_own(old).short_key]) == 0
    assert [one.public for one in read_members(other).values()] == [read_own(new).public]


def test_a_subject_in_any_script(tmp_path: Path) -> None:
    assert init(tmp_path / "sensors", "producer", "--subject", "wärme", "--subject", "温度/*") == 0
    assert read_own(tmp_path / "sensors").subjects == ("wärme", "温度/*")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["init", "{}", "--name", "../x", "--role", "store"], "is no name"),
        (["init", "{}", "--name", "x", "--role", "king"], "'king' is not one of 'tower'"),
        (["init", "{}", "--name", "x", "--role", "producer"], "a producer, and nobody else, has subjects"),
        (["init", "{}", "--name", "x", "--role", "store", "--subject", "a"], "and nobody else"),
        (["init", "{}", "--name", "x", "--role", "producer", "--subject", "a b"], "with spaces"),
        (["init", "{}", "--name", "x", "--role", "producer", "--subject", "a\udcff"], "cannot be printed"),
        (["init", "{}/there", "--name", "x", "--role", "store"], "has a key already"),
        (["add", "{}/there", "{}/nothing"], "No such file"),
        (["add", "{}/there", "{}/junk"], "has no public-key under curve"),
        (["remove", "{}/there", "x"], "has no such member"),
        (["list", "{}/nothing"], "dafka keys init"),
    ],
)
def test_what_is_refused_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert init(tmp_path / "there", "store") == 0
    (tmp_path / "junk").write_text("metadata\n")
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert run(["keys", *(each.replace("{}", str(tmp_path)) for each in arguments)]) == 2
    assert why in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_every_role_can_be_given(tmp_path: Path) -> None:
    for role in Role:
        more = ("--subject", "heat") if role is Role.PRODUCER else ()
        assert init(tmp_path / role, role.value, *more) == 0
        assert read_own(tmp_path / role).role is role


def test_a_directory_without_a_key_is_nobodys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that was written wrong makes no directory that no process looks at."""
    store = tmp_path / "store-1"
    assert init(store, "store") == 0
    for command in (["add", "{}", str(store)], ["remove", "{}", "store-1"], ["list", "{}"]):
        for where, text in (
            (tmp_path / "none", f"{tmp_path / 'none'} is not there: make this node's key"),
            (tmp_path, f"has no own.key_secret, and {store} have: is one of them meant?"),
        ):
            capsys.readouterr()
            assert run(["keys", *(word.format(where) for word in command)]) == 2
            assert text in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    with pytest.raises(KeysRefused, match=f"is a file: give the directory that it is in, {store}"):
        read_own(store / OWN)


def test_what_is_added_twice_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store-1"
    assert init(store, "store") == 0
    for what in ("added", "known already"):
        capsys.readouterr()
        assert run(["keys", "add", str(store), str(store)]) == 0
        assert f": {what} in {store}" in capsys.readouterr().out


def test_a_broken_certificate_is_removed_and_added_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, tower = tmp_path / "store-1", tmp_path / "tower-1"
    assert init(store, "store") == init(tower, "tower") == 0
    assert run(["keys", "add", str(store), str(tower)]) == 0
    (file,) = (store / "members").iterdir()
    file.write_text("half a certif")
    assert run(["keys", "list", str(store)]) == 2
    assert "Remove the file, then add it again with 'dafka keys add'" in capsys.readouterr().err
    assert run(["keys", "remove", str(store), "tower-1"]) == 0
    assert f"{file} is removed" in capsys.readouterr().out
    file.write_text("half a certif")
    assert run(["keys", "add", str(store), str(tower), str(store)]) == 0
    assert "tower-1, a tower" in capsys.readouterr().out
    assert names(store) == ["store-1", "tower-1"]


def test_a_producer_is_told_its_subjects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sensors = tmp_path / "sensors"
    assert init(sensors, "producer", "--subject", "heat", "--subject", "rooms/*") == 0
    assert run(["produce", "cold", "--mesh-keys", str(sensors)]) == 2
    said = capsys.readouterr().err
    assert f"{sensors} may not publish 'cold': its key has the subjects heat, rooms/*" in said
