"""One set of options for Java's clients and for librdkafka; every translation is one that librdkafka
takes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka.admin import AdminClient

from dafka_pipeline.failures import UsageFailure
from dafka_pipeline.kafka import options as subject
from dafka_pipeline.kafka.options import KafkaOptions, check_bootstrap

PEM_TRUST = {"ssl.truststore.type": "PEM"}
PEM_KEY = {"ssl.keystore.type": "PEM"}
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "

# Values that a client takes without a broker; the files are not read before a connection is made.
VALUES = {
    "client.dns.lookup": "use_all_dns_ips",
    "security.protocol": "SSL",
    "reconnect.backoff.ms": "100",
    "sasl.mechanism": "PLAIN",
    "ssl.endpoint.identification.algorithm": "https",
    "acks": "all",
    "compression.type": "zstd",
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "client.id": "x",
    "client.rack": "x",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.kinit.cmd": "kinit",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/",
    "sasl.oauthbearer.scope": "x",
    "ssl.key.password": "x",
}
NUMBER = "20000"


def librdkafkas(properties: Mapping[str, str], librdkafka: Mapping[str, str] | None = None) -> dict[str, str]:
    """The translation without the bootstrap, checked by librdkafka itself."""
    made = KafkaOptions("127.0.0.1:1", properties, librdkafka or {}).for_librdkafka()
    assert made.pop("bootstrap.servers") == "127.0.0.1:1"
    return made


def accepted(settings: Mapping[str, str]) -> bool:
    AdminClient({"bootstrap.servers": "127.0.0.1:1", **settings})
    return True


@pytest.mark.parametrize("name", sorted(subject._SAME))
def test_those_of_the_same_name(name: str) -> None:
    value = VALUES.get(name, NUMBER)
    made = librdkafkas({name: value})
    assert made == {name: value}
    assert accepted(made)


@pytest.mark.parametrize(("java", "other"), sorted(subject._RENAMED.items()))
def test_those_of_another_name(java: str, other: str) -> None:
    made = librdkafkas({java: NUMBER})
    assert made == {other: NUMBER}
    assert accepted(made)


@pytest.mark.parametrize("name", sorted(subject._OF_JAVA))
def test_those_that_are_javas_alone(name: str) -> None:
    assert librdkafkas({name: "x"}) == {}
    assert KafkaOptions("b:1", {name: "x"}).for_spark() == {
        "kafka.bootstrap.servers": "b:1",
        f"kafka.{name}": "x",
    }


def test_each_name_is_in_one_table() -> None:
    tables = [subject._SAME, subject._RENAMED.keys(), subject._OF_JAVA, subject._STORES]
    assert sum(map(len, tables)) == len(set().union(*tables))


def test_no_check_of_the_hosts_name() -> None:
    assert librdkafkas({"ssl.endpoint.identification.algorithm": ""}) == {
        "ssl.endpoint.identification.algorithm": "none"
    }


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        ('username="alice" password="secret";', "alice", "secret"),
        ("password = 'a b' username='alice';", "alice", "a b"),
        ("username=alice password=secret;", "alice", "secret"),
        (r'username="al\"ice" password="back\\slash;=";', 'al"ice', "back\\slash;="),
        ('username="" password="";', "", ""),
    ],
)
def test_user_and_password(jaas: str, user: str, password: str) -> None:
    made = librdkafkas({"sasl.jaas.config": LOGIN + jaas, "sasl.mechanism": "PLAIN"})
    assert made == {"sasl.username": user, "sasl.password": password, "sasl.mechanism": "PLAIN"}
    assert accepted(made)


def test_oauth() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    made = librdkafkas({
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{module} clientId="me" clientSecret="mine";',
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
    })  # fmt: skip
    assert made["sasl.oauthbearer.method"] == "oidc"
    assert (made["sasl.oauthbearer.client.id"], made["sasl.oauthbearer.client.secret"]) == ("me", "mine")


def test_kerberos_needs_librdkafkas_own() -> None:
    properties = {"sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k";'}
    with pytest.raises(UsageFailure, match=r"--librdkafka sasl\.kerberos.keytab=FILE"):
        librdkafkas(properties)
    given = {"sasl.kerberos.keytab": "/k"}
    assert librdkafkas(properties, given) == given


@pytest.mark.parametrize(
    ("properties", "made"),
    [
        (PEM_TRUST | {"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        (PEM_TRUST | {"ssl.truststore.certificates": "-----BEGIN"}, {"ssl.ca.pem": "-----BEGIN"}),
        (
            PEM_KEY | {"ssl.keystore.location": "/me.pem", "ssl.key.password": "p"},
            {
                "ssl.certificate.location": "/me.pem",
                "ssl.key.location": "/me.pem",
                "ssl.key.password": "p",
            },
        ),
        (
            PEM_KEY | {"ssl.keystore.certificate.chain": "-----C", "ssl.keystore.key": "-----K"},
            {"ssl.certificate.pem": "-----C", "ssl.key.pem": "-----K"},
        ),
        (
            {"ssl.keystore.type": "pkcs12", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
        ),
    ],
)
def test_certificates(properties: dict[str, str], made: dict[str, str]) -> None:
    assert librdkafkas(properties) == made


@pytest.mark.parametrize(
    ("properties", "given"),
    [
        ({"ssl.truststore.location": "/t.jks", "ssl.truststore.password": "p"}, "ssl.ca.location"),
        ({"ssl.truststore.type": "PKCS12", "ssl.truststore.location": "/t.p12"}, "ssl.ca.location"),
        ({"ssl.keystore.location": "/k.jks", "ssl.keystore.password": "p"}, "ssl.keystore.location"),
    ],
)
def test_stores_that_librdkafka_does_not_read(properties: dict[str, str], given: str) -> None:
    """Left out in silence, it would trust what the system trusts, or come without a certificate."""
    with pytest.raises(
        UsageFailure, match=rf"does not read a \w+store of type \w+\..*--librdkafka {given}=FILE"
    ):
        librdkafkas(properties)
    assert librdkafkas(properties, {given: "/x"}) == {given: "/x"}


def test_librdkafkas_own_win() -> None:
    made = librdkafkas({"request.timeout.ms": "1000"}, {"socket.timeout.ms": "2000", "debug": "broker"})
    assert made == {"socket.timeout.ms": "2000", "debug": "broker"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("securty.protocol", "--kafka securty.protocol: no property .* Is security.protocol meant?"),
        ("kafka.security.protocol", "Is security.protocol meant?"),
        ("sasl.username", "--librdkafka NAME=VALUE"),
        ("zzz", "--kafka zzz: no property of Kafka's clients that is known here. Both"),
        ("bootstrap.servers", "give it with --bootstrap"),
        ("ssl.truststore.locations", "Is ssl.truststore.location meant?"),
    ],
)
def test_names_that_nobody_knows(name: str, says: str) -> None:
    with pytest.raises(UsageFailure, match=says):
        librdkafkas({name: "topsecret"})
    with pytest.raises(UsageFailure) as refused:
        librdkafkas({name: "topsecret"})
    assert "topsecret" not in str(refused.value)


SECRETS = {
    "sasl.jaas.config": LOGIN + r'username="alice" password="pass\"word";',
    "ssl.key.password": "keypassword",
    "ssl.truststore.password": "trustpassword",
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    "ssl.keystore.type": "PEM",
}


def test_secrets_are_shown_nowhere() -> None:
    one = KafkaOptions(
        "b:1", SECRETS, {"sasl.oauthbearer.client.secret": "clientsecret", "ssl.key.pem": "pemkey"}
    )
    shown = [one.shown(), repr(one), str(one), f"{one}", str([one]), str({"kafka": one})]
    for text in shown:
        for secret in ("pass", "keypassword", "trustpassword", "MIIE", "clientsecret", "pemkey"):
            assert secret not in text.replace("password=(hidden)", "")
        assert "ssl.keystore.type=PEM" in text


def test_secrets_are_taken_out_of_any_text() -> None:
    one = KafkaOptions("b:1", SECRETS, {"sasl.oauthbearer.client.secret": "clientsecret"})
    jaas, key = SECRETS["sasl.jaas.config"], SECRETS["ssl.keystore.key"]
    text = f'a {jaas} b pass"word c keypassword {key} clientsecret'
    assert one.hide(text) == "a (hidden) b (hidden) c (hidden) (hidden) (hidden)"
    # One that is a word of any message hides nothing and would spoil it.
    assert KafkaOptions("b:1", {"ssl.key.password": "a"}).hide("a banana") == "a banana"


@pytest.mark.parametrize("text", ["h:9092", "h:9092,i:9093", "[::1]:9092", "h:9092, i:9093"])
def test_bootstraps(text: str) -> None:
    check_bootstrap(text)


@pytest.mark.parametrize(
    "text", ["", "h", ":9092", "h:", "h:0", "h:65536", "h:9092,", "PLAINTEXT://h:9092", "h:9092 i:9092x"]
)
def test_bootstraps_that_are_none(text: str) -> None:
    with pytest.raises(UsageFailure, match="is no HOST:PORT"):
        check_bootstrap(text)
