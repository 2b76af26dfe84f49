"""What an operator may ask of a gateway only while it leads everything."""

from dafka.operators.socket import OperatorRefused
from gateway.broker import Broker


def check_alone(broker: Broker, what: str) -> None:
    """Raises OperatorRefused while other gateways lead a part of the partitions."""
    if others := broker.gateways.others:
        raise OperatorRefused(
            f"{what} is done while one gateway leads all partitions, and others are alive (gateway "
            f"{', '.join(map(str, others))}): stop those, repeat it, and start them again. Clients go on "
            "with this one meanwhile"
        )
