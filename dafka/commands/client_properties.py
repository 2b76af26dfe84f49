"""Kafka's `client.properties`: the keys that say how a client comes in. Others are passed over, as by Kafka's
own tools.

Read are the keys of Java's clients (`sasl.jaas.config`, PEM files as trust and key stores) and those of
librdkafka (`sasl.username`, `ssl.ca.location` ...), since a file is often written for one of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dafka.commands.exits import CommandFailed

MAX_BYTES: Final = 256 * 1024
"""A larger file is not one: those that there are have a few hundred bytes."""

_LINE: Final = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=: ]\s*(.*)")
_IN_JAAS: Final = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")

_SAME: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_user",
    "sasl.password": "sasl_password",
    "ssl.ca.location": "tls_ca",
    "ssl.truststore.location": "tls_ca",
    "ssl.certificate.location": "tls_client_certificate",
    "ssl.keystore.location": "tls_client_certificate",
    "ssl.key.location": "tls_client_key",
}
"""Kafka's key -> the option that says the same."""

_OF_STORES: Final = {
    "ssl.truststore.location": "ssl.truststore.type",
    "ssl.keystore.location": "ssl.keystore.type",
}


def properties_in(path: Path) -> dict[str, str]:
    """What a file says, by options' names. Raises CommandFailed."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
    except UnicodeDecodeError:
        raise CommandFailed(f"{path}: it is no text. Give a file of lines KEY=VALUE") from None
    if len(text) > MAX_BYTES:
        raise CommandFailed(f"{path} is larger than {MAX_BYTES} bytes: it is no client.properties")
    properties = _properties(text)
    for store, kind in _OF_STORES.items():
        if store in properties and properties.get(kind, "JKS").upper() != "PEM":
            raise CommandFailed(
                f"{path}: {store} is {properties.get(kind, 'JKS')}, and only PEM is read here ({kind}=PEM): "
                "leave it out, and give the certificates by --tls-ca or --tls-client-certificate"
            )
    found = {_SAME[key]: value for key, value in properties.items() if key in _SAME}
    if "security_protocol" in found:
        found["security_protocol"] = found["security_protocol"].upper()  # librdkafka takes both
    for name, double, single in _IN_JAAS.findall(properties.get("sasl.jaas.config", "")):
        found["sasl_user" if name == "username" else "sasl_password"] = re.sub(
            r"\\(.)", r"\1", double or single
        )
    return found


def _properties(text: str) -> dict[str, str]:
    """Lines of KEY=VALUE; one that ends with a backslash goes on in the next."""
    joined = re.sub(r"\\\r?\n\s*", "", text)
    lines = (_LINE.match(line) for line in joined.splitlines())
    return {line[1]: line[2].strip() for line in lines if line is not None}
