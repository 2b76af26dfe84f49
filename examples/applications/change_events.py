r"""Change events into a database, each exactly once: the consumer's half of "change data capture".

    python examples/applications/change_events.py --bootstrap 127.0.0.1:9092

Debezium writes a record for each change of a row: `before`, `after`, what was done (`op`: c, u, d, or r
for a snapshot) and where in the source's log that was; and after a delete a tombstone, a record without a
value, so that a compacted topic forgets the row. This program makes such records, applies them to a table
in SQLite, dies in the middle, goes on, and shows that nothing was lost or done twice.

The trick is where the offsets are. They are not committed to Kafka but written to the same database, in
the transaction of the rows that they stand for: both are there or neither is. After a crash the consumer
looks there and reads on from exactly the next record.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

Change = tuple[str, int, str | None]
"""What was done, to which customer, and the city from then on."""

CHANGES: Sequence[Change] = [
    ("r", 1, "Bern"), ("r", 2, "Chur"),  # the snapshot: what was there before
    ("c", 3, "Genf"), ("u", 1, "Basel"), ("d", 2, None), ("u", 3, "Sion"), ("c", 2, "Thun"), ("d", 3, None),
]  # fmt: skip
EXPECTED = {1: "Basel", 2: "Thun"}
PARTITIONS = 2
SECONDS = 30.0


class Copy:
    """The table that follows the topic, and how far it has."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path)
        self.database.execute("CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, city TEXT)")
        self.database.execute("CREATE TABLE IF NOT EXISTS progress (part INTEGER PRIMARY KEY, next INTEGER)")

    def next_offsets(self) -> dict[int, int]:
        """By partition, where to read on."""
        return dict.fromkeys(range(PARTITIONS), 0) | dict(
            self.database.execute("SELECT part, next FROM progress")
        )

    def apply(self, messages: Sequence[Message]) -> None:
        """Changes, and that they are done: in one transaction."""
        with self.database:
            for message in messages:
                if message.value() is not None:  # a tombstone repeats what the delete has said
                    self._apply(json.loads(message.value()))
                progress = (message.partition(), message.offset() + 1)
                self.database.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", progress)

    def rows(self) -> dict[int, str]:
        """What the table has."""
        return dict(self.database.execute("SELECT id, city FROM customers"))

    def _apply(self, event: dict[str, Any]) -> None:
        if event["op"] == "d":
            self.database.execute("DELETE FROM customers WHERE id = ?", (event["before"]["id"],))
        else:
            row = event["after"]
            self.database.execute("INSERT OR REPLACE INTO customers VALUES (?, ?)", (row["id"], row["city"]))


def follow(bootstrap: str, topic: str, copy: Copy, count: int) -> int:
    """Apply at least so many records, from where the copy is; how many that were."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, at) for index, at in copy.next_offsets().items()])
    done = 0
    while done < count:
        messages = consumer.consume(min(3, count - done), SECONDS)
        if not messages:
            raise TimeoutError(f"only {done} of {count} records came")
        copy.apply(messages)
        done += len(messages)
    consumer.close()
    return done


def send(bootstrap: str, topic: str) -> int:
    """Write the changes as Debezium does; how many records that are."""
    producer = Producer({"bootstrap.servers": bootstrap})
    now: dict[int, str] = {}
    sent = 0
    for position, (operation, customer, city) in enumerate(CHANGES):
        key = json.dumps({"id": customer})  # all changes of a row are in one partition, in order
        before = {"id": customer, "city": now[customer]} if customer in now else None
        after = {"id": customer, "city": city} if city else None
        source = {"connector": "postgresql", "table": "customers", "lsn": 1000 + position}
        event = {"op": operation, "before": before, "after": after, "source": source}
        producer.produce(topic, json.dumps(event), key)
        sent += 1
        if city is None:
            del now[customer]
            producer.produce(topic, None, key)
            sent += 1
        else:
            now[customer] = city
    producer.flush()
    return sent


def main(bootstrap: str) -> bool:
    """Make changes, follow them with a crash between, show what came; whether it is what was expected."""
    topic = f"server.public.customers-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, config={"cleanup.policy": "compact"})])[topic].result()
    sent = send(bootstrap, topic)
    with tempfile.TemporaryDirectory(prefix="change-events-") as directory:
        path = Path(directory) / "copy.sqlite"
        first = Copy(path)
        done = follow(bootstrap, topic, first, 4)
        # It dies with changes that it has made and not committed: nobody will ever see them.
        first.database.execute("DELETE FROM customers")
        first.database.close()
        second = Copy(path)
        done += follow(bootstrap, topic, second, sent - done)
        found = second.rows()
        second.database.close()
    print("records: ", sent, "applied:", done)
    print("expected:", EXPECTED)
    print("found:   ", found)
    return found == EXPECTED and done == sent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Change events into a table, exactly once.")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    sys.exit(0 if main(parser.parse_args().bootstrap) else 1)
