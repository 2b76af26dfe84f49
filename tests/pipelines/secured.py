"""An Apache Kafka behind passwords and TLS, and what a client gives to get in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.peers.apache_kafka import ApacheKafka
from tests.peers.requirements import require

USER: Final = "alice"
PASSWORD: Final = 'Sup3r"s3cr3t;word'
"""With what JAAS must quote."""
STORE_PASSWORD: Final = "keystorepassword"
SASL: Final = "org.apache.kafka.common.security"
LISTENERS: Final = {"PASSWORD": "SASL_PLAINTEXT", "PASSWORDTLS": "SASL_SSL", "CERTIFICATE": "SSL"}


def jaas(module: str, password: str = PASSWORD) -> str:
    """The line of a JAAS configuration for `plain.Plain` or `scram.Scram`."""
    escaped = password.replace('"', '\\"')
    return f'{SASL}.{module}LoginModule required username="{USER}" password="{escaped}";'


class Secured:
    """A broker with a listener for each way in; `options(way)` are the `--kafka` options of a client."""

    WAYS: Final = ("plain", "scram", "scram over TLS", "certificate")

    def __init__(self, kafka: ApacheKafka, certificates: Path) -> None:
        self.kafka = kafka
        self._certificates = certificates

    def bootstrap(self, way: str) -> str:
        listeners = dict(zip(self.WAYS, ("PASSWORD", "PASSWORD", "PASSWORDTLS", "CERTIFICATE"), strict=True))
        return self.kafka.address(listeners[way])

    def options(self, way: str, password: str = PASSWORD) -> dict[str, str]:
        trust = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._certificates / "ca.pem"),
        }
        scram = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas("scram.Scram", password)}
        plain = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain", password)}
        mine = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificates / "client.pem"),
            "ssl.key.password": STORE_PASSWORD,
        }
        return {
            "plain": {"security.protocol": "SASL_PLAINTEXT", **plain},
            "scram": {"security.protocol": "SASL_PLAINTEXT", **scram},
            "scram over TLS": {"security.protocol": "SASL_SSL", **scram, **trust},
            "certificate": {"security.protocol": "SSL", **trust, **mine},
        }[way]


@contextmanager
def secured_kafka(folder: Path) -> Iterator[Secured]:
    """It runs while the block does."""
    certificates = folder / "certificates"
    make_certificates(certificates)
    escaped = PASSWORD.replace('"', '\\"')
    users = f'{SASL}.plain.PlainLoginModule required user_{USER}="{escaped}";'
    properties = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
    for name in ("password", "passwordtls"):
        prefix = f"listener.name.{name}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = users.replace("\\", "\\\\")
        properties[f"{prefix}.scram-sha-512.sasl.jaas.config"] = f"{SASL}.scram.ScramLoginModule required;"
    for name in ("passwordtls", "certificate"):
        prefix = f"listener.name.{name}.ssl"
        properties[f"{prefix}.keystore.type"] = "PEM"
        properties[f"{prefix}.keystore.location"] = str(certificates / "server.pem")
        properties[f"{prefix}.truststore.type"] = "PEM"
        properties[f"{prefix}.truststore.location"] = str(certificates / "ca.pem")
    properties["listener.name.certificate.ssl.client.auth"] = "required"
    with ApacheKafka(folder / "kafka", properties=properties, listeners=LISTENERS) as kafka:
        _give_scram_password(kafka.bootstrap)
        yield Secured(kafka, certificates)


def _give_scram_password(bootstrap: str) -> None:
    one = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    client = AdminClient({"bootstrap.servers": bootstrap})
    for done in client.alter_user_scram_credentials([one]).values():
        done.result()


def make_certificates(folder: Path) -> None:
    """ca.pem; server.pem and client.pem with key and certificate, the client's key under STORE_PASSWORD."""
    folder.mkdir()
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem")
    for name in ("server", "client"):
        _openssl(folder, f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr")
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl(
            folder,
            f"x509 -req -days 2 -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names "
            f"-out {name}.crt",
        )
    # Java reads PKCS #8 alone, and encrypted only by the older ciphers.
    _openssl(
        folder,
        f"pkcs8 -topk8 -v1 PBE-SHA1-3DES -in client.key -out client.p8 -passout pass:{STORE_PASSWORD}",
    )
    for name, key in (("server", "server.key"), ("client", "client.p8")):
        text = (folder / key).read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(text)


def _openssl(folder: Path, arguments: str) -> None:
    done = subprocess.run(
        [require("openssl"), *arguments.split()], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
