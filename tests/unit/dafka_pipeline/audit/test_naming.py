from __future__ import annotations

import pytest

from dafka_pipeline.audit.naming import Named, named
from dafka_pipeline.failures import UsageFailure

DIRECTORIES = {"archive@3", "host:9092"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("127.0.0.1:9092", Named(bootstrap="127.0.0.1:9092")),
        ("one:9092,two.example:9093", Named(bootstrap="one:9092,two.example:9093")),
        ("[::1]:9092", Named(bootstrap="[::1]:9092")),
        ("kafka:host:9092", Named(bootstrap="host:9092")),
        ("./archive", Named(archive="./archive")),
        ("archive@12", Named(archive="archive", version=12)),
        ("archive@3", Named(archive="archive@3")),
        ("archive:archive@4", Named(archive="archive", version=4)),
        ("archive:host:9092", Named(archive="host:9092")),
        ("s3a://bucket/a@7", Named(archive="s3a://bucket/a", version=7)),
        ("s3a://bucket/a", Named(archive="s3a://bucket/a")),
        ("me@home/archive", Named(archive="me@home/archive")),
        ("C:archive", Named(archive="C:archive")),
    ],
)
def test_what_a_side_is_called(given: str, expected: Named) -> None:
    assert named(given, DIRECTORIES.__contains__) == expected


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("host:9092", "write kafka:host:9092 or archive:host:9092"),
        ("kafka:there", "no HOST:PORT"),
        ("", "empty"),
    ],
)
def test_what_is_both_or_neither(given: str, says: str) -> None:
    with pytest.raises(UsageFailure, match=says):
        named(given, DIRECTORIES.__contains__)
