"""Every data format that was ever merged opens, with everything that was in it."""

import tarfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.data.formats.make import RECORDS, TOPIC, value
from tests.peers.standalone import Standalone

FORMATS = sorted((Path(__file__).parents[1] / "data" / "formats").glob("*.tar.gz"))


def test_the_formats_are_here() -> None:
    assert FORMATS


@pytest.mark.parametrize("archive", FORMATS, ids=lambda path: path.name)
def test_a_format_opens_and_goes_on(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    with Standalone(tmp_path / "data") as server:
        producer = Producer({"bootstrap.servers": server.bootstrap, "enable.idempotence": True})
        producer.produce(TOPIC, value(RECORDS), partition=0)
        assert producer.flush(20) == 0
        reader = Consumer(
            {"bootstrap.servers": server.bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        reader.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[tuple[int | None, bytes | str | None]] = []
        while len(found) <= RECORDS:
            message = reader.poll(20)
            assert message is not None
            assert message.error() is None
            found.append((message.offset(), message.value()))
        reader.close()
        assert found == [(number, value(number)) for number in range(RECORDS + 1)]
