"""Makes the archive of today's data format: `python tests/data/formats/make.py NAME`.

Run it once when a format is merged, and never again for that format: what is kept is what that code wrote.
The directory is left as SIGKILL leaves it, with a write-ahead log to replay and a segment to seal.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from tests.peers.standalone import Standalone

TOPIC = "kept"
RECORDS = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def value(number: int) -> bytes:
    """The value of the record at this offset, so that a reader knows what it must find."""
    return b"record %d " % number * (number % 7 + 1)


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with Standalone(data, "--topics", f"{TOPIC}:1") as server:
            for part, codec in enumerate(CODECS):
                settings = {
                    "bootstrap.servers": server.bootstrap,
                    "compression.type": codec,
                    "enable.idempotence": True,
                }
                producer = Producer(settings)
                each = RECORDS // len(CODECS)
                for number in range(part * each, (part + 1) * each):
                    producer.produce(TOPIC, value(number), key=b"key %d" % number, partition=0)
                assert producer.flush(20) == 0
                server.kill9()
                server.start()
            server.kill9()
        with tarfile.open(Path(__file__).with_name(f"{name}.tar.gz"), "w:gz") as archive:
            archive.add(
                data, "data", filter=lambda entry: None if Path(entry.name).name.startswith("LOG") else entry
            )


if __name__ == "__main__":
    main(sys.argv[1])
