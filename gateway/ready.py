"""The first lines a user sees: that it serves, and how to connect."""

from collections.abc import Sequence

from gateway.listener_sockets import ListenerSocket
from gateway.listeners import join_host_port


def say_ready(sockets: Sequence[ListenerSocket]) -> None:
    """Print one line per address that is served, and below it how to connect. To standard output."""
    addresses = [join_host_port(*entry.socket.getsockname()[:2]) for entry in sockets]
    for address in addresses:
        print(f"Kafka is ready on {address}")
    host, port = sockets[0].listener.advertised(sockets[0].socket.getsockname()[0])
    client = join_host_port(host, port)
    print(f"  kcat:    kcat -b {client} -L")
    print(f'  Python:  kafka.KafkaProducer(bootstrap_servers="{client}")')
    print(f'  Spark:   spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{client}")')
    print(f"  check:   dafka doctor {client}", flush=True)


def say_tower_ready(host: str, port_in: int, port_out: int) -> None:
    """Print where a tower serves, as nodes write it with `--tower`. To standard output."""
    print(f"Tower is ready on {join_host_port(host, port_in)}:{port_out}", flush=True)
