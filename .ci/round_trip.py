"""Write records with confluent-kafka to a server and read the same ones back by assignment."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TOPIC = "round-trip"
RECORDS = [(f"key-{n}".encode(), f"value-{n}".encode() * n) for n in range(1000)]
SILENCE_SECONDS = 30.0


def main(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    failures = []
    for key, value in RECORDS:
        producer.produce(TOPIC, value, key, 0, on_delivery=lambda error, _: failures.append(error))
    if producer.flush(SILENCE_SECONDS) or any(failures) or len(failures) != len(RECORDS):
        raise SystemExit(f"not everything was acknowledged: {[str(one) for one in failures if one][:3]}")

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while len(found) < len(RECORDS):
        message = consumer.poll(SILENCE_SECONDS)
        if message is None or message.error():
            raise SystemExit(f"after {len(found)} records: {message and message.error()}")
        found.append((message.key(), message.value()))
    consumer.close()
    if found != RECORDS:
        raise SystemExit("what came back is not what was written")
    print(f"confluent-kafka: {len(found)} records written and read back")


if __name__ == "__main__":
    main(sys.argv[1])
