"""Debian's chromium without a window, and a page that is watched: nothing may fail or be said in it."""

import gc
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.peers.requirements import require

FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The same pixels on each machine that has the same fonts.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 320, "height": 640}
PATIENCE_MS = 10_000
LOADS = 3
INTERRUPTED = "ERR_NETWORK_CHANGED"
"""Other tests make network namespaces, and links between them, on the same machine."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser."""
    executable = shutil.which("chromium") or require("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
    # The driver's process has ended, which its own library has not noticed: said now, to nobody, and not in
    # the middle of some later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Watched:
    """A page of the server at `origin`, and what went wrong in it (`wrong`)."""

    def __init__(self, browser: Browser, origin: str, **options: Any) -> None:
        self.origin = origin
        self.wrong: list[str] = []
        self._interrupted = False
        self.away = False
        """The server is meant to be away: what cannot be loaded is no fault."""
        self.context = browser.new_context(**{"viewport": WIDE, "timezone_id": "Europe/Berlin", **options})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", self._asked)

    def go(self, view: str) -> Page:
        """Show a view (`topics/orders`) and wait until it is loaded."""
        for attempt in range(LOADS):
            self.page.goto(f"{self.origin}/#/{view}")
            try:
                self.page.wait_for_function(
                    "() => document.querySelector('main').dataset.shown === location.hash",
                    timeout=PATIENCE_MS / LOADS if self._interrupted else PATIENCE_MS,
                )
                break
            except PlaywrightTimeoutError:
                # The browser drops what it is loading when the machine gets or loses an interface.
                if not self._interrupted or attempt == LOADS - 1:
                    raise
                self.page.reload()
        return self.page

    def close(self) -> None:
        """Close it; raises AssertionError if anything went wrong in it."""
        self.context.close()
        assert not self.wrong, self.wrong

    def _said(self, message: ConsoleMessage) -> None:
        if not (INTERRUPTED in message.text or (self.away and "Failed to load resource" in message.text)):
            self.wrong.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        if request.failure and INTERRUPTED in request.failure:
            self._interrupted = True
        # A view that is left takes back what it asked for.
        elif request.failure != "net::ERR_ABORTED" and not self.away:
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:", "about:")):
            self.wrong.append(f"foreign origin: {request.url}")
