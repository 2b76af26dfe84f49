"""A real server with something to look at: topics, records of all kinds, groups with and without lag."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.disks import roomy
from tests.peers.mesh import GatewayProcess
from tests.peers.standalone import Standalone

PAGE = re.compile(r"the status page is at (http://\S+?)/?$", re.MULTILINE)
TOPICS = {"orders": 4, "payments": 2, "clicks": 6, "inventory-changes": 1, "odd": 1, "empty": 1}
ORDERS = 400
READ = 240
GROUP = "billing"
STRANGE_GROUP = "<img src=x onerror=alert(1)>/?#%,é"
STRANGE_CLIENT = "<script>alert(1)</script>"
CUSTOMERS = ("Ada", "Grace", "Edsger", "Barbara", "Alan", "Radia")

RIGHT_TO_LEFT = "\u202e"
ODD: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"<img src=x onerror=alert(1)>", b"<script>alert('value')</script>"),
    (b"bidi", f"invoice{RIGHT_TO_LEFT}fdp.exe".encode()),
    (b"\xff\xfe\x00", bytes(range(256))),
    (b"nul", b"a\x00b\x1b[31mred\x07"),
    (b"{", b'{"__proto__": {"polluted": true}, "big": 18446744073709551615, "nested": [[], {}, [1, "<b>"]]}'),
    (b"k" * 60_000, b"long key"),
    (b"long value", "\N{GREEK SMALL LETTER LAMDA}".encode() * 200_000),
    (None, b"no key"),
    (b"no value", None),
    (b"", b""),
    (b"lines", "one\u2028two\u2029three\r\nfour\tfive".encode()),
)
"""Keys and values that must do nothing but be seen."""


class Scene:
    """What runs: `server`, and `origin`, where its page is."""

    def __init__(self, server: Standalone | GatewayProcess) -> None:
        self.server = server
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "client.id": STRANGE_CLIENT})

    @property
    def origin(self) -> str:
        found = PAGE.search(self.server.log)
        assert found, self.server.tail()
        return found[1]

    def write(self, topic: str, value: str, key: str | None = None, partition: int = 0) -> None:
        """One record, durable when this returns."""
        self._producer.produce(topic, value, key, partition=partition)
        assert self._producer.flush(30) == 0

    def fill(self, copies: int = 1) -> None:
        """Make the topics, each with so many copies, and write what they have."""
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap})
        wanted = [NewTopic(name, count, copies) for name, count in TOPICS.items() if name != "payments"]
        wanted.append(NewTopic("payments", TOPICS["payments"], copies, config={"retention.ms": "3600000"}))
        for made in admin.create_topics(wanted).values():
            made.result(30)
        dice = random.Random(15)
        for number in range(ORDERS):
            headers = [("trace", number.to_bytes(8, "big")), ("source", b"web")]
            self._producer.produce(
                "orders",
                order(dice, number),
                f"customer-{number % 13}",
                partition=number % 4,
                headers=headers,
            )
            self._producer.produce("clicks", f"/item/{dice.randrange(900)}", partition=number % 6)
        for number in range(60):
            self._producer.produce("payments", str(number), f"order-{number}", partition=number % 2)
            self._producer.produce("inventory-changes", f'{{"sku": "A-{number}"}}', f"A-{number}")
        for key, value in ODD:
            self._producer.produce("odd", value, key, headers=[("<b>", b"<i>\xff")])
        assert self._producer.flush(60) == 0


def order(dice: random.Random, number: int) -> bytes:
    """An order as JSON."""
    lines = [{"sku": f"A-{dice.randrange(90)}", "n": dice.randint(1, 4)} for _ in range(dice.randint(1, 3))]
    return json.dumps(
        {"order": number, "customer": dice.choice(CUSTOMERS), "lines": lines, "total": dice.randrange(5, 900)}
    ).encode()


@contextmanager
def group(bootstrap: str, name: str, topic: str, read: int) -> Iterator[Consumer]:
    """A member of a group that has committed `read` offsets, as many in each partition, and stays."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "client.id": f"{name}-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        assert consumer.poll(30) is not None, "nothing came in 30 s"
        count = TOPICS[topic]
        committed = [TopicPartition(topic, number, read // count) for number in range(count)]
        consumer.commit(offsets=committed, asynchronous=False)
        yield consumer
    finally:
        consumer.close()


@contextmanager
def scene(directory: Path, *arguments: str) -> Iterator[Scene]:
    """A filled server, one group that is behind, and one that nobody is in any more."""
    options = ("--http", "127.0.0.1:0", "--group-initial-rebalance-delay-ms", "0", *arguments)
    with (
        roomy(directory / "disk") as disk,
        Standalone(disk / "data", *options, directory=directory) as server,
    ):
        made = Scene(server)
        made.fill()
        with group(server.bootstrap, STRANGE_GROUP, "payments", 60):
            pass
        with group(server.bootstrap, GROUP, "orders", READ):
            yield made
