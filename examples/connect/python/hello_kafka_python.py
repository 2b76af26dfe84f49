"""Sends one record and reads it back: hello_kafka_python.py HOST:PORT TOPIC"""

import sys

from kafka import KafkaConsumer, KafkaProducer

bootstrap, topic = sys.argv[1:]

producer = KafkaProducer(bootstrap_servers=bootstrap)
producer.send(topic, key=b"greeting", value=b"hello from kafka-python").get(timeout=10)

consumer = KafkaConsumer(
    topic, bootstrap_servers=bootstrap, group_id="hello-kafka-python", auto_offset_reset="earliest"
)
print(next(consumer).value.decode())

consumer.close()
producer.close()
