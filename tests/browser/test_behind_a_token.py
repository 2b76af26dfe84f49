"""A page behind a token: the browser asks for a name and a password by itself, and the page works as ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Watched
from tests.browser.scene import PAGE
from tests.peers.standalone import Standalone

TOKEN = "0123456789abcdef0123"


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    options = ["--http", "127.0.0.1:0", "--http-token-file", str(token), "--topics", "orders:2"]
    with Standalone(None, *options, directory=tmp_path / "server") as server:
        found = PAGE.search(server.log)
        assert found, server.tail()
        yield found[1]


def test_the_page_works_with_the_token_as_a_password(browser: Browser, origin: str) -> None:
    watched = Watched(browser, origin, http_credentials={"username": "me", "password": TOKEN})
    page = watched.go("topics")
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
    expect(page.get_by_role("status").first).to_have_text("Live")
    assert TOKEN not in page.url
    watched.close()


def test_nothing_is_shown_without_it(browser: Browser, origin: str) -> None:
    context = browser.new_context(http_credentials={"username": "me", "password": "wrong-wrong-wrong"})
    page = context.new_page()
    answer = page.goto(f"{origin}/#/topics")
    assert answer is not None
    assert answer.status == 401
    assert "orders" not in page.content()
    context.close()
