r"""A native Dafka publisher: records onto the mesh without Kafka between, heard at once and kept by stores.

    dafka tower &
    dafka store --data ./store &
    python examples/applications/native_publisher.py temperatures --count 10
    dafka consume temperatures --from-beginning

What Kafka has no place for: consumers hear a record in the moment in which it is published, before any
store has it; a producer needs no broker to be there, it keeps what is not acknowledged and sends it again.
Kafka clients read these records from topics that have the subject (docs/native.md); C programs with the
reference implementation of Dafka hear them, too (https://rfc.zeromq.org/spec/46/).
"""

import argparse
import json

import trio

import dafka


async def publish(subject: str, count: int, tower: str) -> None:
    """Publish readings, and wait until a store has all of them on its disk."""
    async with dafka.Producer(subject, tower=tower) as producer:
        for number in range(count):
            sequence = await producer.produce(json.dumps({"sensor": 1, "celsius": 20 + number / 10}).encode())
            print(f"published {subject} {producer.address} {sequence}")
    print("a store has acknowledged everything")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Publish readings onto a Dafka mesh.")
    parser.add_argument("subject")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--tower", default="127.0.0.1", metavar="HOST[:IN:OUT]")
    options = parser.parse_args()
    trio.run(publish, options.subject, options.count, options.tower)
