"""How a framework comes in where it is asked who it is, as docs/security.md says it."""

from __future__ import annotations

import os

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


def come_in() -> dict[str, str]:
    """The settings of a Java client at the listener with TLS and passwords, its address included."""
    user, password = os.environ["COMPAT_USER"], os.environ["COMPAT_PASSWORD"]
    return {
        "bootstrap.servers": os.environ["COMPAT_SASL_SSL"],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{LOGIN} required username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.environ["COMPAT_CA"],
    }
