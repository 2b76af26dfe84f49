"""What `--ephemeral` changes besides; what is shown by real processes is in tests/applications."""

import os
from pathlib import Path

import pytest
import trio

from dafka.commands.configuration import ConfigurationError, load_settings
from dafka.processes.ephemeral import LOCK_NAME, temporary_data
from dafka.processes.parent import Parent


def test_it_has_other_defaults_and_what_was_given_stays() -> None:
    settings = load_settings({"ephemeral": True}, environment={})
    assert (settings.fsync, settings.group_initial_rebalance_delay_ms) == ("never", 0)
    assert settings.group_min_session_timeout_ms == 0
    given = load_settings({"ephemeral": True, "fsync": "always"}, environment={"DAFKA_PARTITIONS": "3"})
    assert (given.fsync, given.partitions, given.group_initial_rebalance_delay_ms) == ("always", 3, 0)
    usual = load_settings({}, environment={})
    assert (usual.fsync, usual.group_initial_rebalance_delay_ms) == ("always", 3000)


@pytest.mark.parametrize("environment", [{}, {"DAFKA_DATA": "/data"}])
def test_nothing_is_removed_that_was_named(environment: dict[str, str]) -> None:
    flags = {"ephemeral": True} | ({} if environment else {"data": "/data"})
    with pytest.raises(ConfigurationError, match="keeps no data"):
        load_settings(flags, environment=environment)


def test_the_directory_goes_also_when_serving_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail() -> None:
        with temporary_data() as data:
            data.mkdir()
            (data / "file").write_text("x")
            raise OSError("no more disk")

    with pytest.raises(OSError, match="no more disk"):
        fail()
    assert [*tmp_path.iterdir()] == []


def test_only_what_runs_have_left_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run takes a lock before it makes anything: what has none, and is not empty, is somebody else's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notes, killed, early, link, target = (
        tmp_path / name
        for name in (
            "dafka-ephemeral-notes",
            "dafka-ephemeral-killed",
            "dafka-ephemeral-early",
            "dafka-ephemeral-link",
            "target",
        )
    )
    for directory in (notes, killed, early, target):
        directory.mkdir()
    (notes / "notes.txt").write_text("mine")
    (killed / LOCK_NAME).touch()
    (killed / "data").mkdir()
    link.symlink_to(target)
    for path in (notes, killed, early, link):
        os.utime(path, (0, 0), follow_symlinks=False)
    with temporary_data():
        pass
    assert sorted(tmp_path.iterdir()) == sorted([notes, link, target])
    assert [path.name for path in notes.iterdir()] == ["notes.txt"]
    assert [*target.iterdir()] == []


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_a_parent_is_watched_with_and_without_the_systems_help(
    monkeypatch: pytest.MonkeyPatch, has_descriptors: bool
) -> None:
    """A process that is nobody's parent any more counts as gone at once."""
    monkeypatch.setattr("dafka.processes.parent.LOOK_SECONDS", 0.01)
    if not has_descriptors:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    parent = Parent()
    gone: list[str] = []

    async def watch() -> None:
        with trio.move_on_after(0.05):
            await parent.watch(lambda: gone.append("too early"))
        assert gone == []
        monkeypatch.setattr(os, "getppid", lambda: 1)
        with trio.fail_after(5):
            await parent.watch(lambda: gone.append("gone"))

    trio.run(watch)
    assert gone == ["gone"]
