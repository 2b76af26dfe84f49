"""A file of no use, as half of one that is being written: what was read before stays, and it is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trustme

from gateway.catalog.etcd.credentials import MAX_PASSWORD_BYTES, BadFile, Credentials, Identity

OF_NO_USE = {
    "empty": b"",
    "nothing but a line's end": b"\n",
    "too large": b"a" * (MAX_PASSWORD_BYTES + 1),
    "not UTF-8": b"\xff\xfe",
}


@pytest.fixture(params=OF_NO_USE.values(), ids=list(OF_NO_USE))
def of_no_use(request: pytest.FixtureRequest) -> bytes:
    content: bytes = request.param
    return content


def test_a_password_of_no_use_replaces_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, of_no_use: bytes
) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"secret\r\n")
    identity = Identity(Credentials(user="dafka", password_file=file))
    file.write_bytes(of_no_use)
    assert [identity.password() for _ in range(3)] == ["secret"] * 3
    assert caplog.text.count("the one from before is used") == 1
    file.write_text("geheim-ä")
    assert identity.password() == "geheim-ä"
    file.unlink()
    assert identity.password() == "geheim-ä"
    assert caplog.text.count("the one from before is used") == 2


def test_a_password_of_no_use_is_told_at_the_start(tmp_path: Path, of_no_use: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(of_no_use)
    with pytest.raises(BadFile, match="password") as told:
        Identity(Credentials(user="dafka", password_file=file))
    assert str(file) in str(told.value)
    assert told.value.exit_code == 2


@pytest.mark.parametrize("content", [None, b"", b"nothing of PEM"], ids=["missing", "empty", "no PEM"])
@pytest.mark.parametrize("which", ["ca", "cert"])
def test_certificates_of_no_use_are_told_at_the_start(
    tmp_path: Path, which: str, content: bytes | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=f"^{file}: .") as told:
        Identity(Credentials(ca=file if which == "ca" else None, cert=file if which == "cert" else None))
    assert told.value.exit_code == 2


def test_the_longest_password_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"a" * (MAX_PASSWORD_BYTES - 2) + b"\r\n")
    longest = Identity(Credentials(user="dafka", password_file=file)).password()
    assert longest == "a" * (MAX_PASSWORD_BYTES - 2)


def test_a_key_with_a_password_asks_nobody_for_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """OpenSSL would ask on the terminal, and all of the process would wait."""
    issued = trustme.CA().issue_cert("gateway.example")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    identity = Identity(Credentials(cert=cert, key=key))
    before = identity.context()
    encrypted = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret"]
    key.write_bytes(subprocess.run(encrypted, check=True, capture_output=True).stdout)
    assert identity.context() is before
    assert "the key has a password" in caplog.text
