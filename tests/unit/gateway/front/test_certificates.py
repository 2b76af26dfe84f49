"""Certificates that are read, refused, and read again."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from gateway.common.metrics import Metrics
from gateway.front.certificates import (
    CERTIFICATE,
    LOOK_SECONDS,
    BadCertificates,
    CertificateFiles,
    Certificates,
    ClientAuth,
)
from tests.peers.certificates import self_signed, signed
from tests.peers.stores import bundled

DAYS = re.compile(r"^dafka_tls_certificate_expiry_seconds (.*)$", re.MULTILINE)

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """Two certificates, with their keys."""
    directory = tmp_path_factory.mktemp("pem")
    return [self_signed(directory, name) for name in ("one", "two")]


def serial(context: ssl.SSLContext, trusted: Path) -> str:
    """Of the certificate that a client is shown."""
    return str(shaken(context, ssl.create_default_context(cafile=trusted))["serialNumber"])


def shaken(context: ssl.SSLContext, client: ssl.SSLContext) -> Any:
    """What a client is shown, in a handshake in which both show what they have to."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for one in (theirs, ours):
            try:
                one.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = theirs.getpeercert()
    assert found is not None
    return found


def test_key_and_certificate_may_be_one_file(pairs: list[Pair], tmp_path: Path) -> None:
    certificate, key = pairs[0]
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    shown = serial(Certificates(CertificateFiles(both)).context, certificate)
    assert shown == serial(Certificates(CertificateFiles(certificate, key)).context, certificate)


@pytest.mark.parametrize(
    ("text", "said"), [(None, "No such file"), ("", "is not PEM"), ("hello", "is not PEM")]
)
def test_what_is_none_is_refused(pairs: list[Pair], tmp_path: Path, text: str | None, said: str) -> None:
    bad = tmp_path / "bad.pem"
    if text is not None:
        bad.write_text(text)
    with pytest.raises(BadCertificates, match=said) as raised:
        Certificates(CertificateFiles(bad, pairs[0][1]))
    assert str(bad) in str(raised.value)
    assert "what is needed is a certificate with its chain" in str(raised.value)


def test_a_file_of_a_password_that_is_not_there_is_the_one_that_is_named(
    pairs: list[Pair], tmp_path: Path
) -> None:
    (certificate, key), nothing = pairs[0], tmp_path / "nothing"
    said = f"^{re.escape(str(nothing))}: No such file or directory"
    with pytest.raises(BadCertificates, match=said):
        Certificates(CertificateFiles(certificate, key, password_file=nothing))
    store = bundled(tmp_path / "trusted.p12", certificate, key)
    with pytest.raises(BadCertificates, match=said):
        Certificates(CertificateFiles(certificate, key, store, ClientAuth.REQUIRED, ca_password_file=nothing))


def test_a_certificate_as_der_is_refused_with_the_way_out(pairs: list[Pair], tmp_path: Path) -> None:
    certificate, key = pairs[0]
    (tmp_path / "server.der").write_bytes(ssl.PEM_cert_to_DER_cert(certificate.read_text()))
    with pytest.raises(BadCertificates, match=r"or a certificate as DER: .*openssl x509 -inform DER"):
        Certificates(CertificateFiles(tmp_path / "server.der", key))


def test_a_key_of_another_certificate_is_refused(pairs: list[Pair]) -> None:
    with pytest.raises(BadCertificates, match="KEY_VALUES_MISMATCH"):
        Certificates(CertificateFiles(pairs[0][0], pairs[1][1]))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(pairs: list[Pair], tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    command = ["openssl", "ec", "-in", str(pairs[0][1]), "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(BadCertificates, match="the key has a password"):
        Certificates(CertificateFiles(pairs[0][0], locked))


def test_who_asks_clients_for_certificates_says_who_signs_them(pairs: list[Pair]) -> None:
    certificate, key = pairs[0]
    for auth in (ClientAuth.REQUESTED, ClientAuth.REQUIRED):
        with pytest.raises(BadCertificates, match="--tls-client-ca"):
            Certificates(CertificateFiles(certificate, key, client_auth=auth))
    with pytest.raises(BadCertificates, match="NO_CERTIFICATE_OR_CRL_FOUND"):
        Certificates(CertificateFiles(certificate, key, pairs[1][1], ClientAuth.REQUIRED))
    made = Certificates(CertificateFiles(certificate, key, pairs[1][0], ClientAuth.REQUIRED))
    assert made.context.verify_mode is ssl.CERT_REQUIRED
    made = Certificates(CertificateFiles(certificate, key, pairs[1][0], ClientAuth.REQUESTED))
    assert made.context.verify_mode is ssl.CERT_OPTIONAL


def test_other_files_are_read_again_and_half_a_pair_is_not(
    pairs: list[Pair], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        shutil.copy(pairs[0][0], certificate)
        shutil.copy(pairs[0][1], key)
        made = Certificates(CertificateFiles(certificate, key))
        first = serial(made.context, pairs[0][0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.run)
            await trio.sleep(LOOK_SECONDS * 1.5)
            before = made.context
            shutil.copy(pairs[1][0], certificate)
            await trio.sleep(LOOK_SECONDS)
            assert made.context is before
            assert "those from before are used" in caplog.text
            assert serial(made.context, pairs[0][0]) == first
            shutil.copy(pairs[1][1], key)
            await trio.sleep(LOOK_SECONDS)
            assert serial(made.context, pairs[1][0]) != first
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_how_long_it_is_good_for_is_shown_and_changes_with_it(
    pairs: list[Pair], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def put(pair: Pair) -> None:
        shutil.copy(pair[0], certificate)
        shutil.copy(pair[1], key)

    put(pairs[0])
    made, metrics = Certificates(CertificateFiles(certificate, key)), Metrics(with_process=False)
    metrics.register(CERTIFICATE, made)

    def days() -> float:
        (found,) = DAYS.findall(metrics.text().decode())
        return float(found) / 86_400

    assert 29 < days() < 30
    assert "it ends in" not in caplog.text
    put(self_signed(tmp_path, "shorter", days=9))
    made.read_again()
    assert f"{certificate}: it ends in 8 days" in caplog.text
    put(self_signed(tmp_path, "longer", days=90))
    made.read_again()
    assert 89 < days() < 90
    assert "ended" not in caplog.text
    put(signed(tmp_path, pairs[0], "ended", "/CN=localhost", days=-1))
    made.read_again()
    assert -2 < days() < -1 + 1e-3
    assert f"{certificate}: it has ended, at 20" in caplog.text
    shutil.copy(pairs[1][0], certificate)
    made.read_again()  # half a pair
    assert -2 < days() < -1 + 1e-3


def test_the_key_may_stand_before_the_certificate(pairs: list[Pair], tmp_path: Path) -> None:
    certificate, key = pairs[0]
    both = tmp_path / "both.pem"
    both.write_text(key.read_text() + "some text\n" + certificate.read_text() + pairs[1][0].read_text())
    made = Certificates(CertificateFiles(both))
    assert made.ends == Certificates(CertificateFiles(certificate, key)).ends
