import json
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from dafka.backup.bucket import LOCK, LOCK_SECONDS, BucketTarget
from dafka.backup.target import NotThere, TargetFailed, open_target


@pytest.fixture
def target() -> BucketTarget:
    return BucketTarget("s3://bucket/path", MemoryStore())


def test_files_are_there_once(target: BucketTarget) -> None:
    assert target.put_new("objects/ab/abc", b"first")
    assert not target.put_new("objects/ab/abc", b"second")
    assert target.get("objects/ab/abc") == b"first"
    target.put("objects/ab/abc", b"third")
    assert target.get("objects/ab/abc") == b"third"
    assert target.sizes("objects/") == {"objects/ab/abc": 5}
    assert target.sizes("manifests/") == {}
    target.delete("objects/ab/abc")
    target.delete("objects/ab/abc")
    with pytest.raises(NotThere, match="s3://bucket/path/objects/ab/abc"):
        target.get("objects/ab/abc")


def test_one_at_a_time_and_an_old_lock_counts_no_more(
    target: BucketTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("dafka.backup.bucket.time.time", lambda: now)
    other = BucketTarget("s3://bucket/path", target._store)
    with target.alone():
        with pytest.raises(TargetFailed, match="takes or prunes backups there"), other.alone():
            raise AssertionError("both are alone")
        now += LOCK_SECONDS / 2
        target.put_new("objects/ab/abc", b"")  # so it runs
        now += LOCK_SECONDS / 2 + 1
        with pytest.raises(TargetFailed, match="takes or prunes backups there"), other.alone():
            raise AssertionError("both are alone")
    with other.alone():
        assert json.loads(target.get(LOCK))["taken"] == now
    target.put(LOCK, json.dumps({"who": "killed", "taken": now}).encode())
    now += LOCK_SECONDS
    with other.alone():
        pass
    assert target.sizes("") == {"objects/ab/abc": 0}


def test_a_prune_that_takes_long_keeps_its_lock(
    target: BucketTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("dafka.backup.bucket.time.time", lambda: now)
    other = BucketTarget("s3://bucket/path", target._store)
    with target.alone():
        now += LOCK_SECONDS / 2
        target.delete("objects/ab/abc")  # so it runs
        now += LOCK_SECONDS / 2 + 1
        with pytest.raises(TargetFailed, match="takes or prunes backups there"), other.alone():
            raise AssertionError("both are alone")


def test_who_was_taken_for_killed_ends_and_leaves_the_lock_of_the_other(
    target: BucketTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("dafka.backup.bucket.time.time", lambda: now)
    other = BucketTarget("s3://bucket/path", target._store)

    slept = target.alone()
    slept.__enter__()
    now += LOCK_SECONDS
    with other.alone():
        with pytest.raises(TargetFailed, match="another process has taken over"):
            target.put_new("objects/ab/abc", b"")
        slept.__exit__(None, None, None)
        with pytest.raises(TargetFailed, match="takes or prunes backups there"), target.alone():
            raise AssertionError("both are alone")
    assert target.sizes("") == {}


def test_a_bucket_that_is_not_there_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setattr("dafka.backup.bucket.RETRY", {"max_retries": 0})
    with pytest.raises(TargetFailed, match="Check the bucket, AWS_ENDPOINT_URL"):
        open_target("s3://bucket/path").sizes("objects/")
