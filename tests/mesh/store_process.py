"""A store as a process of its own, over TCP: `store_process.py DIRECTORY INCARNATION PEER_ENDPOINT...`.

Prints its publisher's endpoint when it serves.
"""

import sys
from pathlib import Path

import trio

from mesh.links import Context
from mesh.store.store import Store, StoreSettings


async def main(path: Path, incarnation: str, peers: list[str]) -> None:
    store = Store(Context(), StoreSettings(path, incarnation))
    endpoint = store.node.publisher.bind("tcp://127.0.0.1:*")
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        for peer in peers:
            store.node.connect(peer)
        print(endpoint, flush=True)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
