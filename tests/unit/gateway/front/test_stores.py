"""Certificates from PKCS#12 stores, as openssl makes them and Java's keytool: that, too, is there wherever
tests run, as Kafka needs it.
"""

from __future__ import annotations

import os
import shutil
import ssl
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.front.certificates import BadCertificates, CertificateFiles, Certificates, ClientAuth
from gateway.peers.opening import PeerSecurity, _context
from gateway.security import tls_files
from gateway.security.key_store import identity
from tests.peers.certificates import self_signed, signed
from tests.peers.stores import (
    PASSWORD,
    bundled,
    exported,
    java_store,
    key_store,
    password_file,
    trust_store,
)
from tests.unit.gateway.front.test_certificates import serial, shaken


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with stores by both, and what they were made of."""
    directory = tmp_path_factory.mktemp("stores")
    password_file(directory)
    pair = self_signed(directory, "ours")
    bundled(directory / "openssl.p12", *pair)
    exported(key_store(directory / "java.p12"))
    trust_store(directory / "trusted.p12", pair[0])
    return directory


def files(directory: Path, store: str, **more: Path | ClientAuth) -> CertificateFiles:
    return CertificateFiles(directory / store, password_file=directory / "password", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("store", "certificate"), [("openssl.p12", "ours.pem"), ("java.p12", "java.server.pem")]
)
def test_the_key_of_a_store_is_shown_with_its_certificate(made: Path, store: str, certificate: str) -> None:
    shown = Certificates(files(made, store))
    assert serial(shown.context, made / certificate)
    assert serial(shown.of_pages, made / certificate)
    assert 29 < shown.seconds() / 86_400 < 30


def test_without_files_in_memory_a_temporary_one_is_used_and_goes(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[bytes] = []
    as_file = tls_files._as_file

    def watched(content: bytes) -> AbstractContextManager[str]:
        seen.append(content)
        return as_file(content)

    monkeypatch.setattr(tls_files, "_as_file", watched)
    assert serial(Certificates(files(made, "openssl.p12")).context, made / "ours.pem")
    assert seen
    assert all(b"ENCRYPTED PRIVATE KEY" in content for content in seen)
    assert list(tmp_path.iterdir()) == []


def test_a_chain_is_shown_in_its_order_whatever_that_of_the_store_is(tmp_path: Path) -> None:
    password_file(tmp_path)
    root = self_signed(tmp_path, "root", "/CN=root")
    middle = signed(tmp_path, root, "middle", "/CN=middle")
    leaf = signed(tmp_path, middle, "leaf", "/CN=localhost")
    stranger = self_signed(tmp_path, "stranger", "/CN=stranger")
    others = tmp_path / "others.pem"
    others.write_text("".join(pair[0].read_text() for pair in (stranger, root, middle)))
    bundled(tmp_path / "chain.p12", *leaf, "-certfile", str(others))
    made_of = identity((tmp_path / "chain.p12").read_bytes(), PASSWORD.encode(), b"made up")
    shown = made_of.pem.decode().split("-----BEGIN ENCRYPTED PRIVATE KEY-----")[0]
    assert shown == "".join(pair[0].read_text() for pair in (leaf, middle, root))


def test_of_two_authorities_of_one_name_the_one_that_has_signed_is_shown(tmp_path: Path) -> None:
    """As after an authority has been given another key: its old certificate may still be in the store."""
    password_file(tmp_path)
    old, new = (self_signed(tmp_path, name, "/CN=authority") for name in ("old", "new"))
    leaf = signed(tmp_path, new, "leaf", "/CN=localhost")
    (tmp_path / "both.pem").write_text(old[0].read_text() + new[0].read_text())
    (tmp_path / "other.pem").write_text(new[0].read_text() + old[0].read_text())
    for others in ("both.pem", "other.pem"):
        bundled(tmp_path / "store.p12", *leaf, "-certfile", str(tmp_path / others))
        made_of = identity((tmp_path / "store.p12").read_bytes(), PASSWORD.encode(), b"made up")
        shown = made_of.pem.decode().split("-----BEGIN ENCRYPTED PRIVATE KEY-----")[0]
        assert shown == leaf[0].read_text() + new[0].read_text()


def test_whom_a_store_trusts_may_come_in(made: Path) -> None:
    trusted: dict[str, Any] = {"client_ca": made / "trusted.p12", "ca_password_file": made / "password"}
    asking = Certificates(files(made, "java.p12", client_auth=ClientAuth.REQUIRED, **trusted))
    assert [one["subject"] for one in asking.context.get_ca_certs()] == [((("commonName", "localhost"),),)]


@pytest.mark.parametrize("store", ["openssl.p12", "java.p12", "trusted.p12"])
def test_a_store_without_its_password_says_which_option_has_it(
    made: Path, tmp_path: Path, store: str
) -> None:
    wrong = password_file(tmp_path, "wrong")
    given_by = r"it has a password, .* given by --tls-certificate-password-file FILE"
    with pytest.raises(BadCertificates, match=given_by):
        Certificates(CertificateFiles(made / store))
    with pytest.raises(BadCertificates, match=r"the password does not open it.*password-file") as raised:
        Certificates(CertificateFiles(made / store, password_file=wrong))
    assert str(made / store) in str(raised.value)
    assert str(wrong) in str(raised.value)
    ca: dict[str, Any] = {"client_ca": made / store, "client_auth": ClientAuth.REQUIRED}
    with pytest.raises(BadCertificates, match=r"it has a password, .* given by --tls-ca-password-file FILE"):
        Certificates(files(made, "java.p12", **ca))
    with pytest.raises(BadCertificates, match=r"--tls-ca-password-file"):
        Certificates(files(made, "java.p12", **ca, ca_password_file=wrong))


def test_a_store_with_two_keys_is_refused(made: Path) -> None:
    shutil.copy(made / "java.p12", made / "two.p12")
    key_store(made / "two.p12", "other")
    with pytest.raises(BadCertificates, match=r"2 private keys in it.* -srcalias ALIAS"):
        Certificates(files(made, "two.p12"))


def test_a_store_without_a_key_is_refused(made: Path) -> None:
    with pytest.raises(BadCertificates, match=r"no private key in it: .*--tls-client-ca"):
        Certificates(files(made, "trusted.p12"))


def test_a_store_without_certificates_is_refused(made: Path, tmp_path: Path) -> None:
    bundled(tmp_path / "key.p12", made / "ours.pem", made / "ours-key.pem", "-nocerts")
    with pytest.raises(BadCertificates, match="no certificate for the key"):
        Certificates(CertificateFiles(tmp_path / "key.p12", password_file=made / "password"))
    with pytest.raises(BadCertificates, match="no certificates in it"):
        Certificates(
            files(
                made, "java.p12", client_auth=ClientAuth.REQUIRED, client_ca=tmp_path / "key.p12",
                ca_password_file=made / "password",
            )
        )  # fmt: skip


def test_one_of_java_s_own_kind_is_refused_with_the_way_out(made: Path, tmp_path: Path) -> None:
    java_store(tmp_path / "java.jks", made / "java.p12")
    with pytest.raises(BadCertificates, match=r"kind JKS: .*-deststoretype pkcs12"):
        Certificates(CertificateFiles(tmp_path / "java.jks", password_file=made / "password"))


def test_a_store_beside_a_key_is_refused(made: Path) -> None:
    with pytest.raises(BadCertificates, match="leave --tls-key away"):
        Certificates(files(made, "java.p12", key=made / "ours-key.pem"))


@pytest.mark.parametrize("cut", [1, 100, 700])
def test_a_broken_store_is_refused(made: Path, tmp_path: Path, cut: int) -> None:
    broken = tmp_path / "broken.p12"
    broken.write_bytes((made / "java.p12").read_bytes()[:cut])
    with pytest.raises(BadCertificates, match=r"broken.p12: it is neither PEM nor PKCS#12|or it is broken"):
        Certificates(CertificateFiles(broken, password_file=made / "password"))


def test_an_empty_password_file_is_refused(made: Path, tmp_path: Path) -> None:
    with pytest.raises(BadCertificates, match="a password has 1 to 1024 bytes"):
        Certificates(CertificateFiles(made / "java.p12", password_file=password_file(tmp_path, "")))


def test_a_key_as_pem_may_have_a_password_too(made: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    command = (
        f"openssl ec -in {made / 'ours-key.pem'} -aes256 -passout file:{made / 'password'} -out {locked}"
    )
    assert os.system(f"{command} 2> /dev/null") == 0
    given = CertificateFiles(made / "ours.pem", locked, password_file=made / "password")
    assert serial(Certificates(given).context, made / "ours.pem")


def test_another_store_is_taken_and_one_of_no_use_is_not(
    made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, password = tmp_path / "store.p12", password_file(tmp_path)
    shutil.copy(made / "openssl.p12", store)
    served = Certificates(CertificateFiles(store, password_file=password))
    first = serial(served.context, made / "ours.pem")
    seen = served._looks()
    password.write_text("longer and wrong")
    assert served._looks() != seen, "a changed password is seen"
    served.read_again()
    assert "those from before are used" in caplog.text
    assert "the password does not open it" in caplog.text
    assert serial(served.context, made / "ours.pem") == first
    shutil.copy(made / "java.p12", store)
    password.write_text(PASSWORD)
    served.read_again()
    assert serial(served.context, made / "java.server.pem") != first
    for secret in (PASSWORD, "longer and wrong"):
        assert secret not in caplog.text


def test_gateways_show_each_other_what_is_in_stores(made: Path) -> None:
    security = PeerSecurity(
        ca=made / "trusted.p12",
        certificate=made / "openssl.p12",
        password_file=made / "password",
        ca_password_file=made / "password",
    )
    asks = _context(security)
    assert asks.verify_mode is ssl.CERT_REQUIRED
    assert asks.check_hostname
    assert [one["subject"] for one in asks.get_ca_certs()] == [((("commonName", "localhost"),),)]
    asked = Certificates(
        files(
            made, "openssl.p12", client_auth=ClientAuth.REQUIRED, client_ca=made / "trusted.p12",
            ca_password_file=made / "password",
        )
    )  # fmt: skip
    assert shaken(asked.context, asks)["subject"] == ((("commonName", "localhost"),),)
