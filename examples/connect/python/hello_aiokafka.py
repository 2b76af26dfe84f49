"""Sends one record and reads it back: hello_aiokafka.py HOST:PORT TOPIC"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

bootstrap, topic = sys.argv[1:]


async def main() -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, key=b"greeting", value=b"hello from aiokafka")

    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id="hello-aiokafka", auto_offset_reset="earliest"
    )
    async with consumer:
        record = await consumer.getone()
        print(record.value.decode())


asyncio.run(main())
