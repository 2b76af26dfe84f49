"""What is said where a server wants to be talked to in another way, and until when certificates are good."""

from __future__ import annotations

import re
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from dafka.commands.asking import connect
from dafka.commands.client_security import IN_THE_CLEAR, Bootstrap, ClientSecurity
from dafka.commands.connect_advice import CONNECT_ADVICE, OF_SECURITY
from dafka.commands.doctor_checks import Doctor, Finding, Verdict
from dafka.commands.exits import CommandFailed
from dafka.commands.kafka_client import KafkaClient, KafkaTrouble, Trouble
from gateway.security.certificate import ENDS_SOON, NotACertificate
from tests.monitoring.rules import RULES
from tests.peers.certificates import self_signed, signed
from tests.peers.stores import exported, key_store
from tests.unit.dafka.commands.fake_kafka import FakeKafka
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.schemas import RESPONSE_CLASSES

Pair = tuple[Path, Path]

USER: Final[dict[str, Any]] = {"user": "alice", "password": "x"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """Certificates with their keys, by what is peculiar to them."""
    directory = tmp_path_factory.mktemp("pem")
    made = {name: self_signed(directory, name) for name in ("good", "stranger")}
    made["soon"] = self_signed(directory, "soon", days=9)
    made["authority"] = self_signed(directory, "authority", "/CN=authority")
    made["ended"] = signed(directory, made["authority"], "ended", "/CN=localhost", -1, is_servers=True)
    made["nameless"] = signed(directory, made["authority"], "nameless", "/CN=kafka.example")
    return made


def said(port: int, security: ClientSecurity) -> str:
    with pytest.raises(CommandFailed) as raised:
        connect(Bootstrap(f"127.0.0.1:{port}", security))
    return str(raised.value)


def test_there_is_advice_for_every_reason() -> None:
    assert CONNECT_ADVICE.keys() == set(Trouble)
    assert CONNECT_ADVICE.keys() > OF_SECURITY


@pytest.mark.parametrize(
    ("shown", "trusted", "trouble"),
    [
        ("good", "stranger", Trouble.UNTRUSTED),
        ("good", None, Trouble.UNTRUSTED),
        ("ended", "authority", Trouble.EXPIRED),
        ("nameless", "authority", Trouble.OTHER_NAME),
    ],
)
def test_a_certificate_that_does_not_do(
    pairs: dict[str, Pair], shown: str, trusted: str | None, trouble: Trouble
) -> None:
    ca = None if trusted is None else pairs[trusted][0]
    with FakeKafka(tls=pairs[shown]) as server:
        text = said(server.port, ClientSecurity("SSL", ca=ca))
    assert trouble.value in text
    assert CONNECT_ADVICE[trouble] in text


@pytest.mark.parametrize(
    ("number", "trouble"),
    [
        *((number, Trouble.UNTRUSTED) for number in (2, 18, 19, 20, 21)),
        (9, Trouble.NOT_YET),
        (10, Trouble.EXPIRED),
        *((number, Trouble.OTHER_NAME) for number in (62, 64)),
        *((number, Trouble.UNVERIFIED) for number in (26, 79, 66, 7)),
    ],
)
def test_what_openssl_finds_wrong_has_advice_of_its_own(
    number: int, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By X509_V_ERR_...: 26 is a certificate for another purpose, 79 an authority that may not be one, 66 a
    key that is too small, 7 a signature that is wrong.
    """
    wrong = ssl.SSLCertVerificationError("x")
    wrong.reason = "CERTIFICATE_VERIFY_FAILED"
    wrong.verify_code, wrong.verify_message = number, "what OpenSSL says"

    class Refusing:
        def wrap_socket(self, *_: object, **__: object) -> None:
            raise wrong

    monkeypatch.setattr(ClientSecurity, "tls", lambda _: Refusing())
    with FakeKafka() as server:
        text = said(server.port, ClientSecurity("SSL"))
    assert f"{trouble.value} (what OpenSSL says). {CONNECT_ADVICE[trouble]}" in text


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_where_there_is_none(pairs: dict[str, Pair], protocol: str) -> None:
    user = USER if protocol == "SASL_SSL" else dict[str, Any]()
    with FakeKafka() as server:
        text = said(server.port, ClientSecurity(protocol, ca=pairs["good"][0], **user))
    assert Trouble.NO_TLS.value in text
    assert "--security-protocol PLAINTEXT" in text


def test_no_tls_where_it_is_wanted(pairs: dict[str, Pair]) -> None:
    with FakeKafka(tls=pairs["good"]) as server:
        text = said(server.port, IN_THE_CLEAR)
    assert "it wants TLS" in text
    assert "--security-protocol" in text


@pytest.mark.parametrize(
    ("offered", "trouble", "word"),
    [
        ([], Trouble.NO_SASL, "leave the user away"),
        (["PLAIN", "SCRAM-SHA-256"], Trouble.NO_MECHANISM, "not SCRAM-SHA-512, but PLAIN, SCRAM-SHA-256"),
    ],
)
def test_a_mechanism_that_is_not_offered(offered: list[str], trouble: Trouble, word: str) -> None:
    cls: Any = RESPONSE_CLASSES[ApiKey.SASL_HANDSHAKE]
    with FakeKafka() as server:
        server.versions[ApiKey.SASL_HANDSHAKE] = (0, 1)
        code = 33 if offered else 34
        server.answers[ApiKey.SASL_HANDSHAKE] = lambda _: cls(error_code=code, mechanisms=offered)
        text = said(server.port, ClientSecurity("SASL_PLAINTEXT", **USER))
    assert trouble.value in text
    assert word in text
    assert CONNECT_ADVICE[trouble] in text


def test_a_connection_that_ends_after_a_login_may_have_done_what_was_asked() -> None:
    """As when administrators delete themselves: nothing is guessed about TLS, the user has been let in."""
    handshake, authenticate = (
        RESPONSE_CLASSES[key] for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    )
    with FakeKafka() as server:
        server.versions |= {ApiKey.SASL_HANDSHAKE: (0, 1), ApiKey.SASL_AUTHENTICATE: (0, 2)}
        server.answers[ApiKey.SASL_HANDSHAKE] = lambda _: handshake(error_code=0, mechanisms=["PLAIN"])
        server.answers[ApiKey.SASL_AUTHENTICATE] = lambda _: authenticate(error_code=0, auth_bytes=b"")
        server.answers[ApiKey.METADATA] = lambda _: None
        security = ClientSecurity("SASL_PLAINTEXT", mechanism="PLAIN", **USER)
        with KafkaClient("127.0.0.1", server.port, security) as client:
            client.negotiate()
            with pytest.raises(KafkaTrouble) as raised:
                client.ask(ApiKey.METADATA, 1, topics=[])
    assert raised.value.trouble is Trouble.CLOSED
    assert raised.value.detail == (
        "without answering, after it had let this user in: what was asked may have been done; it ends "
        "connections of who is deleted, or given another password"
    )


# ---------------------------------------------------------------------------------------------------- doctor


def examined(server: FakeKafka, security: ClientSecurity) -> dict[str, Finding]:
    found = Doctor("127.0.0.1", server.port, (), security).examine()
    return {one.question: one for one in found if "certificate" in one.question or "--tls" in one.question}


def test_certificates_are_good_for_so_many_days(pairs: dict[str, Pair]) -> None:
    certificate, key = pairs["good"]
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=certificate, certificate=certificate, key=key))
    assert list(found) == [
        f"your certificate {certificate}", f"--tls-ca {certificate}", f"certificate of {server.address}",
    ]  # fmt: skip
    for one in found.values():
        assert one.verdict is Verdict.OK
        assert re.fullmatch(r"good for 29 days, until \d{4}-\d\d-\d\d \d\d:\d\d UTC", one.text)


def test_one_that_ends_soon_is_told_with_what_to_do(pairs: dict[str, Pair]) -> None:
    with FakeKafka(tls=pairs["soon"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=pairs["soon"][0]))
    for one in found.values():
        assert (one.verdict, one.text[:17]) == (Verdict.NOTE, "it ends in 8 days")
        assert one.next_step
    assert "--tls-certificate" in found[f"certificate of {server.address}"].next_step


def test_one_that_has_ended_is_a_failure(pairs: dict[str, Pair]) -> None:
    certificate, key = pairs["ended"]
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=pairs["good"][0], certificate=certificate, key=key))
    own = found[f"your certificate {certificate}"]
    assert own.verdict is Verdict.FAILED
    assert own.text.startswith("it has ended, at ")
    with FakeKafka(tls=pairs["ended"]) as server:
        security = ClientSecurity("SSL", ca=pairs["authority"][0])
        (only,) = Doctor("127.0.0.1", server.port, (), security).examine()
    assert (only.verdict, only.question) == (Verdict.FAILED, "connect")
    assert "its certificate has ended" in only.text
    assert "--tls-certificate" in only.next_step


def test_an_authority_that_has_ended_beside_one_that_has_not_is_named(
    pairs: dict[str, Pair], tmp_path: Path
) -> None:
    """Such a bundle does: the next authority's certificate is added before the old one's ends."""
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(pairs["ended"][0].read_text() + pairs["good"][0].read_text())
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=bundle))
    assert [one.verdict for one in found.values()] == [Verdict.NOTE, Verdict.OK, Verdict.OK]
    ended = found[f"--tls-ca {bundle}, what has ended in it"]
    assert ended.text == "CN=localhost: what it has signed is refused"
    assert ended.next_step
    assert found[f"--tls-ca {bundle}"].text.startswith("good for 29 days")


def test_authorities_that_have_all_ended_are_a_failure(pairs: dict[str, Pair]) -> None:
    with FakeKafka() as server:
        doctor = Doctor("127.0.0.1", server.port, (), ClientSecurity(ca=pairs["ended"][0]))
        found = {one.question: one for one in doctor.examine()}
    ended = found[f"--tls-ca {pairs['ended'][0]}"]
    assert ended.verdict is Verdict.FAILED
    assert ended.text.startswith("it has ended, at ")


@pytest.mark.parametrize("heading", ["X509 CERTIFICATE", "TRUSTED CERTIFICATE"])
def test_the_other_headings_that_openssl_reads_are_read(
    heading: str, pairs: dict[str, Pair], tmp_path: Path
) -> None:
    """TRUSTED: what openssl x509 -trustout writes; behind the certificate it has what that is for."""
    certificate, key = pairs["good"]
    other = tmp_path / "other.pem"
    if heading == "TRUSTED CERTIFICATE":
        command = ["openssl", "x509", "-in", str(certificate), "-trustout", "-addtrust", "clientAuth"]
        subprocess.run(
            [*command, "-addtrust", "serverAuth", "-out", str(other)], check=True, capture_output=True
        )
    else:
        other.write_text(certificate.read_text().replace("CERTIFICATE", heading))
    assert f"-----BEGIN {heading}-----" in other.read_text()
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=other, certificate=other, key=key))
    for question in (f"your certificate {other}", f"--tls-ca {other}"):
        assert found[question].verdict is Verdict.OK
        assert found[question].text.startswith("good for 29 days")


def test_a_file_that_cannot_be_read_here_is_a_note(
    pairs: dict[str, Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL has taken it, so the server may, too."""

    def refuse(der: bytes) -> None:
        raise NotACertificate("a certificate without an end")

    certificate, key = pairs["good"]
    monkeypatch.setattr("dafka.commands.doctor_checks.parse_certificate", refuse)
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=certificate, certificate=certificate, key=key))
    for question in (f"your certificate {certificate}", f"--tls-ca {certificate}"):
        assert found[question].verdict is Verdict.NOTE
        assert found[question].text == "until when it is good cannot be read: a certificate without an end"
    assert found[f"certificate of {server.address}"].verdict is Verdict.OK


def test_each_gateway_has_a_certificate_of_its_own(pairs: dict[str, Pair]) -> None:
    with FakeKafka(tls=pairs["good"]) as server, FakeKafka(tls=pairs["soon"]) as other:
        server.advertised = other.advertised = "127.0.0.1", other.port
        both = pairs["good"][0].with_name("both.pem")
        both.write_text(pairs["good"][0].read_text() + pairs["soon"][0].read_text())
        found = examined(server, ClientSecurity("SSL", ca=both))
    assert found[f"certificate of {server.address}"].verdict is Verdict.OK
    assert found[f"certificate of {other.address}, node 1"].verdict is Verdict.NOTE
    assert found[f"--tls-ca {both}"].verdict is Verdict.NOTE


def test_one_that_signs_itself_and_is_no_authority_is_looked_at_too(
    pairs: dict[str, Pair], tmp_path: Path
) -> None:
    """OpenSSL, as Python asks it, lists authorities alone; keytool's certificates are none."""
    trusted = tmp_path / "trusted.pem"
    own = exported(key_store(tmp_path / "store.p12", days=9))
    trusted.write_text(own.read_text() + pairs["good"][0].read_text())
    with FakeKafka(tls=pairs["good"]) as server:
        found = examined(server, ClientSecurity("SSL", ca=trusted))
    assert found[f"--tls-ca {trusted}"].text.startswith("it ends in 8 days")


def test_soon_is_when_the_alert_says_so() -> None:
    (days,) = re.findall(r"dafka_tls_certificate_expiry_seconds < (\d+) \* 86400", RULES.read_text())
    assert timedelta(days=int(days)) == ENDS_SOON
