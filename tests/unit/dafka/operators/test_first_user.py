"""The first user is put into a catalog that nobody uses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import trio

from dafka import cli
from dafka.operators.first_user import kind_of
from dafka.processes.catalogs import CATALOG_FILE, RESTORING_FILE, counts_on_stores
from gateway.catalog import keys
from gateway.catalog.sqlite import SqliteCatalog
from gateway.cluster import scram_users
from gateway.cluster.identity import cluster_entry
from gateway.cluster.scram_users import ScramUsers
from gateway.security.scram import Hash, ScramCredential, is_password
from mesh.data_directory import DataDirectory, DataDirectoryRefused, Kind


def init(data: Path, *arguments: str, name: str = "admin") -> int:
    return cli.run(["init", "--data", str(data), "--admin", name, *arguments])


@pytest.fixture
def password(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return "--password-file", str(path)


def kept(directory: Path) -> dict[str, dict[Hash, ScramCredential]]:
    """The users in the catalog of a directory."""

    async def main() -> dict[str, dict[Hash, ScramCredential]]:
        catalog = SqliteCatalog(directory / CATALOG_FILE)
        try:
            return {user: dict(known) for user, known in ScramUsers(catalog).all()}
        finally:
            await catalog.aclose()

    return trio.run(main)


PLACES = {(): "gateway", ("--kind", "standalone"): "gateway", ("--kind", "gateways"): "catalog",
          ("--kind", "gateway"): "."}  # fmt: skip


@pytest.mark.parametrize("arguments", PLACES, ids=lambda arguments: arguments[-1] if arguments else "none")
def test_it_is_where_the_first_start_looks(
    arguments: tuple[str, ...], tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data, directory = tmp_path / "data", tmp_path / "data" / PLACES[arguments]
    assert init(data, *password, *arguments) == 0
    assert capsys.readouterr().out == f"created admin in {directory}\n"
    found = kept(directory)
    assert found.keys() == {"admin"}
    assert found["admin"].keys() == set(Hash)
    assert all(is_password(kind, one, "secret") for kind, one in found["admin"].items())
    assert {one.iterations for one in found["admin"].values()} == {4096}
    assert len({one.salt for one in found["admin"].values()}) == 2
    assert kind_of(data) == (arguments[-1] if arguments else "standalone")
    assert not counts_on_stores(directory), "no cluster has it yet"


def test_the_password_may_come_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("other\n"))
    assert init(tmp_path / "data", "--password-file", "-", "--iterations", "5000") == 0
    one = kept(tmp_path / "data" / "gateway")["admin"][Hash.SHA_256]
    assert is_password(Hash.SHA_256, one, "other")
    assert one.iterations == 5000


def test_another_one_may_be_made_and_the_same_one_not(
    tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    assert init(data, *password) == 0
    before = kept(data / "gateway")
    assert init(data, *password) == 2
    assert "there is a user admin already: 'dafka users create admin --replace'" in capsys.readouterr().err
    assert kept(data / "gateway") == before
    assert init(data, *password, "--if-not-exists") == 0
    assert capsys.readouterr().out == "there is a user admin already, who stays as he is\n"
    assert kept(data / "gateway") == before
    assert init(data, *password, name="other") == 0
    assert kept(data / "gateway").keys() == {"admin", "other"}


def test_who_was_deleted_does_not_come_back_before_a_start(
    tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--if-not-exists makes the first user alone: where there are others somebody has deleted this one."""
    data = tmp_path / "data"
    assert init(data, *password, "--if-not-exists", name="other") == 0
    before = kept(data / "gateway")
    capsys.readouterr()
    assert init(data, *password, "--if-not-exists") == 0
    assert capsys.readouterr().out == (
        "there are users already, so admin is not made: 'dafka users create admin' makes him\n"
    )
    assert kept(data / "gateway") == before


def refused(
    capsys: pytest.CaptureFixture[str], data: Path, *arguments: str, code: int = 3, name: str = "admin"
) -> str:
    assert init(data, *arguments, name=name) == code
    return capsys.readouterr().err


def test_a_directory_that_is_used_is_refused(
    tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with DataDirectory(data / "gateway", Kind.GATEWAY):
        assert "is using it" in refused(capsys, data, *password)


def test_other_directories_are_refused(
    tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letters").write_text("mine")
    assert "it has other files (letters), so it is not Dafka's" in refused(capsys, foreign, *password)
    store = tmp_path / "store"
    DataDirectory(store, Kind.STORE).close()
    assert "dafka-store" in refused(capsys, store, *password)
    one = tmp_path / "one"
    assert init(one, *password) == 0
    said = refused(capsys, one, *password, "--kind", "gateways", code=2)
    assert "is the directory of another kind (standalone)" in said
    restored = tmp_path / "restored"
    DataDirectory(restored, Kind.GATEWAY).close()
    (restored / RESTORING_FILE).touch()
    assert "a backup is being restored there" in refused(capsys, restored, *password)
    assert not (restored / CATALOG_FILE).exists()


@pytest.mark.parametrize("name", ["", "\u00e4", "x" * 256])
def test_a_name_that_nobody_can_come_in_by_makes_nothing(
    name: str, tmp_path: Path, password: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "name" in refused(capsys, tmp_path / "data", *password, code=2, name=name)
    assert not (tmp_path / "data").exists()


def test_there_are_no_more_than_there_may_be(
    tmp_path: Path,
    password: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dafka.operators.first_user.MAX_USERS", 1)
    assert init(tmp_path / "data", *password) == 0
    said = refused(capsys, tmp_path / "data", *password, code=2, name="other")
    assert f"There are {scram_users.MAX_USERS} users" in said


def test_a_catalog_of_a_newer_version_is_left_alone(tmp_path: Path, password: tuple[str, str]) -> None:
    directory = tmp_path / "data"
    DataDirectory(directory, Kind.GATEWAY).close()

    async def make() -> None:
        catalog = SqliteCatalog(directory / CATALOG_FILE)
        newer = keys.pack({"id": "C1", "format": keys.FORMAT + 1})
        await catalog.transact([], {**cluster_entry("C1"), keys.CLUSTER: newer})
        await catalog.aclose()

    trio.run(make)
    assert init(directory, *password) == 3
    assert kept(directory) == {}
    with pytest.raises(DataDirectoryRefused):
        counts_on_stores(directory)
