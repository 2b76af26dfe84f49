"""A native producer with pyzmq and nothing else: what any language with ZeroMQ needs to publish onto a mesh.

    python examples/mesh/native_publisher.py sensors 20.5 21.0

Each argument behind the subject becomes a record. It ends when a store has acknowledged all of them, or with
exit code 1 after 30 s. Byte by byte it is in docs/mesh-protocol.md; on a mesh with keys it needs CURVE, too
(examples/mesh/native_producer.c).
"""

import argparse
import struct
import sys
import time
from uuid import uuid4

import zmq

PATIENCE_SECONDS = 30.0
BEACON_SECONDS = 1.0
HOST = "127.0.0.1"


def text(value: str) -> bytes:
    """A string of the protocol: its length in a byte, and UTF-8."""
    data = value.encode()
    return bytes([len(data)]) + data


def header(message: bytes, topic: str, *fields: bytes) -> bytes:
    """The first frame of a message: id, topic, its end, the version, fields."""
    return message + topic.encode() + b"\0\1" + b"".join(fields)


def number(sequence: int) -> bytes:
    return struct.pack(">Q", sequence)


class Publisher:
    """One address. What it has published it keeps, and sends again to a store that asks for it."""

    def __init__(self, subject: str, tower: str, port_in: int, port_out: int) -> None:
        self.subject = subject
        # A name of 32 characters that begins with d: stores know by it that what is sent again is the same.
        self.address = "d" + uuid4().hex[1:]
        self.records: list[bytes] = []
        self.acknowledged = 0
        context = zmq.Context()
        self.publisher = context.socket(zmq.PUB)
        port = self.publisher.bind_to_random_port(f"tcp://{HOST}")
        self.own = f"tcp://{HOST}:{port}"
        # A tower is told of this node, and tells of the others.
        self.beacons = context.socket(zmq.PUB)
        self.beacons.connect(f"tcp://{tower}:{port_in}")
        self.beacon = [b"B", uuid4().hex.upper().encode(), HOST.encode(), str(port).encode()]
        self.tower = context.socket(zmq.SUB)
        self.tower.subscribe(b"B")
        self.tower.connect(f"tcp://{tower}:{port_out}")
        # Stores acknowledge, and ask for what they have missed.
        self.subscriber = context.socket(zmq.SUB)
        self.subscriber.subscribe(b"K" + self.address.encode())
        self.subscriber.subscribe(b"F" + self.address.encode())
        self.peers: set[str] = set()

    def publish(self, content: bytes) -> None:
        self.send(header(b"M", self.subject, *self.place(len(self.records))), content)
        self.records.append(content)

    def place(self, sequence: int) -> tuple[bytes, bytes, bytes]:
        return text(self.address), text(self.subject), number(sequence)

    def send(self, *frames: bytes) -> None:
        self.publisher.send_multipart(frames)

    def run(self, seconds: float) -> bool:
        """Meet the others, and serve them until everything is acknowledged; whether it is."""
        end, due = time.monotonic() + seconds, 0.0
        while time.monotonic() < end and self.acknowledged < len(self.records):
            if time.monotonic() >= due:
                due = time.monotonic() + BEACON_SECONDS
                self.beacons.send_multipart(self.beacon)
                # HEAD: who has less than this asks for the rest.
                self.send(header(b"H", self.subject, *self.place(len(self.records) - 1)))
            readable, _, _ = zmq.select([self.tower, self.subscriber], [], [], BEACON_SECONDS / 10)
            if self.tower in readable:
                _, _, endpoint, *_ = self.tower.recv_multipart()
                self.meet(endpoint.decode())
            if self.subscriber in readable:
                self.hear(self.subscriber.recv_multipart()[0])
        return self.acknowledged == len(self.records)

    def meet(self, endpoint: str) -> None:
        if endpoint != self.own and endpoint not in self.peers:
            self.peers.add(endpoint)
            self.subscriber.connect(endpoint)

    def hear(self, frame: bytes) -> None:
        topic, _, rest = frame.partition(b"\0")
        fields = rest[1:]  # behind the version
        if topic[:1] == b"K":  # ACK: subject, sequence
            (sequence,) = struct.unpack(">Q", fields[1 + fields[0] :][:8])
            self.acknowledged = max(self.acknowledged, sequence + 1)
        else:  # FETCH: requester, subject, first sequence, count
            requester, fields = fields[1 : 1 + fields[0]], fields[1 + fields[0] :]
            first, count = struct.unpack(">QI", fields[1 + fields[0] :][:12])
            for sequence in range(first, min(first + count, len(self.records))):
                head = header(b"D", requester.decode(), *self.place(sequence))
                self.send(head, self.records[sequence])


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish records onto a Dafka mesh.")
    parser.add_argument("subject")
    parser.add_argument("record", nargs="+")
    parser.add_argument("--tower", default=f"{HOST}:5556:5557", metavar="HOST:IN:OUT")
    options = parser.parse_args()
    host, port_in, port_out = options.tower.split(":")
    publisher = Publisher(options.subject, host, int(port_in), int(port_out))
    for record in options.record:
        publisher.publish(record.encode())
    if not publisher.run(PATIENCE_SECONDS):
        print("no store has acknowledged everything: is 'dafka store' running?", file=sys.stderr)
        return 1
    print(f"a store has {publisher.acknowledged} records of {publisher.address}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
