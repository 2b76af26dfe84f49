"""Keys go where Java's producers put them: the numbers are those of Kafka's own test
(UtilsTest.testMurmur2)."""

from __future__ import annotations

import pytest

from dafka_pipeline.transform.partitioner import hash_of, positive_hash

FROM_KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", FROM_KAFKA)
def test_as_java(key: bytes) -> None:
    assert positive_hash(key) == FROM_KAFKA[key] & 0x7FFFFFFF


def test_a_column_may_give_bytearrays_and_nothing() -> None:
    assert hash_of(bytearray(b"foobar")) == positive_hash(b"foobar")
    assert hash_of(None) == 0
    assert hash_of(b"") == positive_hash(b"")
