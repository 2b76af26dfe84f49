"""One browser and one server for the folder; each test has a page of its own that is watched."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PATIENCE_MS, Watched, chromium
from tests.browser.scene import Scene, scene

Open = Callable[..., Watched]


# Not for the session: while it runs, Playwright keeps an event loop that tests of other folders would meet.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene(Path(tmp_path_factory.mktemp("shown"))) as made:
        yield made


@pytest.fixture
def open_page(browser: Browser, shown: Scene) -> Iterator[Open]:
    """Opens a watched page: `open_page(viewport=..., color_scheme="dark")`."""
    opened: list[Watched] = []

    def make(origin: str | None = None, **options: Any) -> Watched:
        opened.append(Watched(browser, origin or shown.origin, **options))
        return opened[-1]

    yield make
    for watched in opened:
        watched.close()


@pytest.fixture(scope="package")
def shared(browser: Browser, shown: Scene) -> Iterator[Watched]:
    watched = Watched(browser, shown.origin)
    yield watched
    watched.close()


@pytest.fixture
def go(shared: Watched) -> Iterator[Callable[[str], Page]]:
    """Shows a view in a page 1,280 wide that is loaded anew for the test, with its switches as they begin."""
    shared.page.goto("about:blank")
    shared.wrong.clear()
    yield shared.go
    assert not shared.wrong, shared.wrong


@pytest.fixture
def free_http_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
