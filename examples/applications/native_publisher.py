r"""A native Dafka publisher: records onto the mesh without Kafka between, heard at once and kept by stores.

    dafka tower &
    dafka store --data ./store &
    python examples/applications/native_publisher.py temperatures --count 10
    dafka consume temperatures --from-beginning

What Kafka has no place for: consumers hear a record in the moment in which it is published, before any
store has it; a producer needs no broker to be there, it keeps what is not acknowledged and sends it again.
Kafka clients do not see these records; C programs with the reference implementation of Dafka do
(https://rfc.zeromq.org/spec/46/).
"""

import argparse
import json

import trio

from mesh.joining import join_mesh
from mesh.native.producer import NativeProducer
from mesh.protocol.endpoints import MeshListen, TowerAddress
from mesh.zmq_trio import Context

PATIENCE_SECONDS = 30.0
SETTLE_SECONDS = 1.0
"""How long consumers that are there have to hear of a new producer: what comes before, stores tell them."""


async def publish(context: Context, subject: str, count: int, tower: TowerAddress) -> None:
    """Publish readings, and wait until a store has all of them on its disk."""
    producer = NativeProducer(context, subject, stores=1)
    beacon = join_mesh(context, producer.node, MeshListen("127.0.0.1"), (tower,), "")
    async with trio.open_nursery() as nursery:
        await nursery.start(producer.run)
        await nursery.start(beacon.run)
        await trio.sleep(SETTLE_SECONDS)
        for number in range(count):
            sequence = await producer.produce(json.dumps({"sensor": 1, "celsius": 20 + number / 10}).encode())
            print(f"published {subject} {producer.address} {sequence}")
        with trio.fail_after(PATIENCE_SECONDS):
            await producer.drained()
        print("a store has acknowledged everything")
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Publish readings onto a Dafka mesh.")
    parser.add_argument("subject")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--tower", default="127.0.0.1:5556:5557", metavar="HOST:IN:OUT")
    options = parser.parse_args()
    host, port_in, port_out = options.tower.split(":")
    zmq = Context()
    try:
        trio.run(
            publish, zmq, options.subject, options.count, TowerAddress(host, int(port_in), int(port_out))
        )
    finally:
        zmq.close()
