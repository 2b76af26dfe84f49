"""What Spark's Kafka connector asks of a server: API versions, and what errors mean to whoever uses Spark.

Spark 3.5 to 4.x carry kafka-clients 3.4 to 3.9; the ranges are those of 3.9, the newest.
"""

from typing import Final, NamedTuple

from dafka.commands.kafka_client import Trouble
from wireproto.kafka.api_keys import ApiKey


class Need(NamedTuple):
    """An API that the connector calls, the versions that its client speaks, and what it is for."""

    api_key: ApiKey
    lowest: int
    highest: int
    purpose: str
    is_for_sink: bool = False


NEEDS: Final = (
    Need(ApiKey.METADATA, 1, 12, "to find topics and leaders"),
    Need(ApiKey.LIST_OFFSETS, 1, 9, "to plan each batch"),
    Need(ApiKey.FETCH, 4, 17, "to read"),
    Need(ApiKey.PRODUCE, 3, 11, "to write", is_for_sink=True),
    Need(ApiKey.INIT_PRODUCER_ID, 0, 5, "to write without doubling records", is_for_sink=True),
)

CONNECT_ADVICE: Final = {
    Trouble.NO_ADDRESS: "Check the spelling; inside containers use the service's name, outside the machine's",
    Trouble.REFUSED: "Start the gateway ('dafka standalone') or check the port; in a container it must "
    "listen on 0.0.0.0, and the port must be published",
    Trouble.TIMED_OUT: "A firewall or a wrong address swallows the packets: check both",
    Trouble.NETWORK: "Check the address and the route to it",
    Trouble.CLOSED: "If it is Kafka, that listener wants TLS, or a user and his password: give "
    "--security-protocol and what goes with it",
    Trouble.NOT_KAFKA: "Check the port; if it is Kafka, that listener may want TLS: give --security-protocol",
    Trouble.UNSUPPORTED: "Use a newer Kafka server, or another --sasl-mechanism",
    Trouble.TLS: "Give the certificates that the server's is signed by (--tls-ca), and the name or address "
    "that it is made for",
    Trouble.NOT_KNOWN: "Check --sasl-user and the password; 'dafka users list' shows an administrator who "
    "there is, and by which mechanisms",
}

LEADER_ADVICE: Final = (
    "The partition is being recovered, or waits for a store: try again in a moment; the gateway's log says "
    "what it waits for"
)
ERROR_ADVICE: Final = {
    "LEADER_NOT_AVAILABLE": LEADER_ADVICE,
    "NOT_LEADER_OR_FOLLOWER": LEADER_ADVICE,
    "OFFSET_NOT_AVAILABLE": LEADER_ADVICE,
    "no broker is the leader": LEADER_ADVICE,
    "UNKNOWN_TOPIC_OR_PARTITION": "Another broker answers than the one that has the topic: check the "
    "advertised addresses",
    "OFFSET_OUT_OF_RANGE": "Retention removed these records while they were read: run this again",
    "KAFKA_STORAGE_ERROR": "A disk of the server has failed: its log says which",
    "AUTHORIZATION_FAILED": "No ACL allows it to who asks: come as another user (--sasl-user), or have an "
    "administrator allow it",
}
