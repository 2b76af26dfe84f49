"""The file with the secret that delegation tokens are made with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dafka.processes.token_secret import MAX_SECRET_BYTES, BadTokenSecret, read_token_secret
from gateway.security.delegation_tokens import TokenSecret

SECRET = b"of the gateways, and of nobody else"


def written(folder: Path, content: bytes = SECRET, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_there_need_not_be_one() -> None:
    assert read_token_secret(None) is None


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_it_is_read_without_the_end_of_its_line(tmp_path: Path, mode: int, end: bytes) -> None:
    found = read_token_secret(written(tmp_path, SECRET + end, mode))
    assert found is not None
    assert found.hmac_of("id") == TokenSecret(SECRET).hmac_of("id")


def test_it_may_be_a_link(tmp_path: Path) -> None:
    """As in a volume of Kubernetes."""
    link = tmp_path / "link"
    link.symlink_to(written(tmp_path))
    assert read_token_secret(link) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_others_may_not_use_it(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, mode=mode)
    with pytest.raises(
        BadTokenSecret, match=f"others than its owner may use .* 'chmod 600 {path}'"
    ) as caught:
        read_token_secret(path)
    assert caught.value.exit_code == 2
    assert SECRET.decode() not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 31 + b"\n", b"x" * (MAX_SECRET_BYTES + 1)])
def test_it_is_neither_short_nor_long(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadTokenSecret, match="make one with 'openssl rand -base64 48'"):
        read_token_secret(written(tmp_path, content))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path, why in (
        (tmp_path, "Is a directory"),
        (pipe, "is no file"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(BadTokenSecret, match=why):
            read_token_secret(path)
