"""What to do about a server that cannot be talked to, for each reason why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dafka.commands.kafka_client import Trouble

CONNECT_ADVICE: Final[Mapping[Trouble, str]] = {
    Trouble.NO_ADDRESS: "Check the spelling; inside containers use the service's name, outside the machine's",
    Trouble.REFUSED: "Start the gateway ('dafka standalone') or check the port; in a container it must "
    "listen on 0.0.0.0, and the port must be published",
    Trouble.TIMED_OUT: "A firewall or a wrong address swallows the packets: check both",
    Trouble.NETWORK: "Check the address and the route to it",
    Trouble.CLOSED: "If it is Kafka, that listener wants TLS, or a user and his password: give "
    "--security-protocol and what goes with it",
    Trouble.NOT_KAFKA: "Check the port; if it is Kafka, that listener may want TLS: give --security-protocol",
    Trouble.UNSUPPORTED: "Use a newer Kafka server",
    Trouble.NO_TLS: "Give the port of a listener with TLS; or, for one without, --security-protocol "
    "PLAINTEXT (SASL_PLAINTEXT with a user)",
    Trouble.UNTRUSTED: "Give --tls-ca FILE with the certificate that the server's is signed by; that is the "
    "server's own, if it signs itself",
    Trouble.EXPIRED: "Replace the file that the gateway's --tls-certificate names; the gateway reads it "
    "again by itself",
    Trouble.NOT_YET: "Check the clocks of this machine and of the one that made the certificate",
    Trouble.UNVERIFIED: "Have the server's certificate, and those in its chain and in --tls-ca, made anew so "
    "that this does not hold of them; 'openssl verify -show_chain' tells which it is",
    Trouble.OTHER_NAME: "Use a name or an address that the certificate is made for (--bootstrap), or have "
    "one made with a subjectAltName for this one",
    Trouble.TLS: "If the listener wants a certificate of yours (--tls-client-auth), give "
    "--tls-client-certificate and --tls-client-key",
    Trouble.NO_SASL: "For a listener without SASL leave the user away, and give --security-protocol "
    "PLAINTEXT, or SSL; else give the port of one with SASL",
    Trouble.NO_MECHANISM: "Give one of those by --sasl-mechanism",
    Trouble.NOT_KNOWN: "Check --sasl-user and the password; 'dafka users list' shows an administrator who "
    "there is, and by which mechanisms",
}

OF_SECURITY: Final = frozenset((
    Trouble.NO_TLS, Trouble.UNTRUSTED, Trouble.EXPIRED, Trouble.NOT_YET, Trouble.UNVERIFIED,
    Trouble.OTHER_NAME, Trouble.TLS,
    Trouble.NO_SASL, Trouble.NO_MECHANISM, Trouble.NOT_KNOWN,
))  # fmt: skip
"""What commands say at once: the others have more than one reason, which takes a look at them."""
