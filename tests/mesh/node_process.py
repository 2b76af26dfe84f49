"""A mesh node as a process of its own: `node_process.py HOST:IN:OUT...`.

It publishes a HEAD of its own every few milliseconds, and for each other node's HEAD that it hears one more:
its subject names the other node, its sequence is the other's. So whoever hears it sees both directions of the
link. Prints its node id and its endpoint when it serves.
"""

import sys

import trio

from mesh.beacon import Beacon
from mesh.links import Context
from mesh.node import Node
from mesh.protocol.endpoints import TowerAddress, parse_endpoint
from wireproto.dafka.messages import Head

BEAT_SECONDS = 0.02


async def main(towers: list[TowerAddress]) -> None:
    context = Context()
    node = Node(context)
    endpoint = parse_endpoint(node.publisher.bind("tcp://127.0.0.1:*"))
    beacon = Beacon(context, node, towers, host="127.0.0.1", port=endpoint.port)

    def on_head(head: Head) -> None:
        if head.subject == "beat":
            node.send(Head(beacon.node_id, head.address, head.sequence))

    node.route({Head: on_head})
    node.subscribe(b"Hbeat")
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        await nursery.start(beacon.run)
        print(beacon.node_id, endpoint, flush=True)
        number = 0
        while True:
            node.send(Head(beacon.node_id, "beat", number))
            number += 1
            await trio.sleep(BEAT_SECONDS)


def parse(text: str) -> TowerAddress:
    host, port_in, port_out = text.rsplit(":", 2)
    return TowerAddress(host, int(port_in), int(port_out))


if __name__ == "__main__":
    trio.run(main, [parse(text) for text in sys.argv[1:]])
