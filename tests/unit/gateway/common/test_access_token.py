"""Tokens: from what files they are read, and what is one that is shown."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from gateway.common.access_token import MAX_CHARS, MIN_CHARS, AccessToken, BadToken

TOKEN = b"0123456789abcdef:+/=~!"


def written(directory: Path, content: bytes) -> Path:
    path = directory / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def basic(user: bytes, password: bytes) -> bytes:
    return b"Basic " + b64encode(user + b":" + password)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize(
    ("authorization", "is_in"),
    [
        (b"Bearer " + TOKEN, True),
        (b"bearer " + TOKEN, True),
        (b" BEARER   " + TOKEN + b" ", True),
        (basic(b"", TOKEN), True),
        (basic(b"anybody", TOKEN), True),
        (b"basic " + b64encode(b"u:" + TOKEN), True),
        (b"", False),
        (b"Bearer", False),
        (b"Bearer ", False),
        (TOKEN, False),
        (b"Token " + TOKEN, False),
        (b"Bearer " + TOKEN[:-1], False),
        (b"Bearer " + TOKEN + b"x", False),
        (b"Bearer " + TOKEN.upper(), False),
        (b"Bearer " + TOKEN + b"\n", True),
        (b"Bearer x " + TOKEN, False),
        (basic(TOKEN, b""), False),
        (basic(b"u", b"x" + TOKEN), False),
        (b"Basic " + b64encode(TOKEN.replace(b":", b"")), False),
        (b"Basic !", False),
        (b"Basic " + b64encode(b"u:" + TOKEN)[:-3], False),
        (b"Bearer \xff\xfe", False),
    ],
)
def test_what_is_shown(tmp_path: Path, end: bytes, authorization: bytes, is_in: bool) -> None:
    assert AccessToken(written(tmp_path, TOKEN + end)).is_in(authorization) is is_in


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b"", f"{MIN_CHARS} to {MAX_CHARS}"),
        (b"\n", f"{MIN_CHARS} to {MAX_CHARS}"),
        (b"secret", f"{MIN_CHARS} to {MAX_CHARS}"),
        (b"s" * (MAX_CHARS + 1), f"{MIN_CHARS} to {MAX_CHARS}"),
        (b"secret secret secret", "without spaces"),
        (b"secretsecretsecret\nsecond line", "alone in its file"),
        ("secretsecretsecré".encode(), "printable ASCII"),
    ],
)
def test_a_file_without_a_token_is_refused_and_not_shown(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "token" if content is None else written(tmp_path, content)
    with pytest.raises(BadToken, match=said) as raised:
        AccessToken(path)
    assert str(path) in str(raised.value)
    assert "openssl rand -hex 32" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.exit_code == 2


def test_another_file_is_read_again_and_one_without_a_token_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = AccessToken(written(tmp_path, TOKEN))
    other = b"another token".replace(b" ", b"-") + b"-of-it"
    replacement = tmp_path / "new"
    for content, good, bad in ((b"short", TOKEN, other), (other, other, TOKEN)):
        replacement.write_bytes(content)
        replacement.chmod(0o600)
        replacement.replace(tmp_path / "token")
        assert token.is_in(b"Bearer " + good)
        assert not token.is_in(b"Bearer " + bad)
        assert not token.is_in(b"Bearer " + content) or content == good
    # Whether other words are logged as well is as the process says.
    assert [record.levelname for record in caplog.records if record.levelname != "INFO"] == ["ERROR"]
    assert "the one from before is used" in caplog.text
    assert not any(secret.decode() in caplog.text for secret in (TOKEN, other))
    (tmp_path / "token").unlink()
    assert token.is_in(b"Bearer " + other)


def test_a_token_that_everybody_can_read_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, TOKEN)
    path.chmod(0o644)
    AccessToken(path)
    assert caplog.messages == [f"{path}: other users can read the token in it: chmod o-rwx it"]
