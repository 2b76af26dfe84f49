"""Sends one record and reads it back: hello_confluent.py HOST:PORT TOPIC"""

import sys

from confluent_kafka import Consumer, Producer

bootstrap, topic = sys.argv[1:]

producer = Producer({"bootstrap.servers": bootstrap})
producer.produce(topic, key="greeting", value="hello from confluent-kafka")
producer.flush(10)

consumer = Consumer(
    {"bootstrap.servers": bootstrap, "group.id": "hello-confluent", "auto.offset.reset": "earliest"}
)
consumer.subscribe([topic])
while (record := consumer.poll(1.0)) is None:
    pass
if record.error():
    raise SystemExit(str(record.error()))
print(record.value().decode())
consumer.close()
