"""Listeners that ask who comes: what lets kcat in, what does not."""

from __future__ import annotations

import os
import re

from kcat.program import Kcat, NotInKcat
from python_client.checks import equal

RIGHT_SCRAM = (2, 6, 1)
"""The first librdkafka whose SCRAM is as RFC 5802 says: Kafka 4 refuses what was before, too."""
METADATA_SECONDS = 10
RECORDS = [f"key {n}:value {n}" for n in range(100)]


class Door(Kcat):
    """A listener, and what kcat is given to come in there."""

    def __init__(self, protocol: str, **properties: str) -> None:
        super().__init__(os.environ[f"COMPAT_{protocol}"])
        self._protocol = protocol
        self._properties = properties

    def command(self, *arguments: str) -> list[str]:
        ca = os.environ["COMPAT_CA"]
        properties = {"security_protocol": self._protocol, "ssl_ca_location": ca} | self._properties
        given = [f"-X{name.replace('_', '.')}={value}" for name, value in properties.items()]
        return super().command(*given, *arguments)

    def refused(self, why: str) -> None:
        """It does not come in, and says why."""
        done = self.run("-L", "-m", str(METADATA_SECONDS), check=False)
        assert done.returncode != 0, "it came in"
        assert why in done.stderr, done.stderr


def tls(kcat: Kcat, topic: str) -> None:
    Door("SSL", ssl_ca_location=os.environ["COMPAT_OTHER_CA"]).refused("certificate verify failed")
    _both_ways(kcat, Door("SSL"), topic)


def sasl(kcat: Kcat, topic: str, mechanism: str) -> None:
    """With and without TLS: what is wrong is refused, and what is right lets in after it."""
    if mechanism == "OAUTHBEARER":
        raise NotInKcat("kcat takes no token")
    if mechanism.startswith("SCRAM") and _librdkafka(kcat) < RIGHT_SCRAM:
        raise NotInKcat("its librdkafka is from before 2.6.1, and its SCRAM is not RFC 5802's")
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        login = {"sasl_mechanism": mechanism, "sasl_username": os.environ["COMPAT_USER"]}
        right, wrong = (
            Door(protocol, **login, sasl_password=os.environ[f"COMPAT_{what}"])
            for what in ("PASSWORD", "WRONG_PASSWORD")
        )
        wrong.refused("Authentication failed")
        _both_ways(kcat, right, f"{topic}-{protocol}")
        wrong.refused("Authentication failed")


def _both_ways(kcat: Kcat, door: Door, topic: str) -> None:
    kcat.make_topic(topic, 1)
    door.produce(topic, RECORDS)
    equal(door.read(topic), RECORDS, "records")


def _librdkafka(kcat: Kcat) -> tuple[int, ...]:
    said = kcat.run("-V").stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    assert found is not None, said
    return tuple(int(part) for part in found.groups())
