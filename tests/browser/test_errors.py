"""The server goes away and comes back, and the page says so."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import Watched
from tests.browser.scene import Scene
from tests.peers.standalone import Standalone

Open = Callable[..., Watched]


@pytest.fixture
def mortal(tmp_path: Path, free_http_port: int) -> Iterator[Standalone]:
    """A server of its own, whose page is at the same address in each of its lives."""
    options = ("--http", f"127.0.0.1:{free_http_port}", "--topics", "orders:2")
    with Standalone(tmp_path / "data", *options, directory=tmp_path / "server") as server:
        yield server


def test_the_server_goes_away_and_comes_back(
    mortal: Standalone, open_page: Open, free_http_port: int
) -> None:
    watched = open_page(f"http://127.0.0.1:{free_http_port}")
    page = watched.go("topics/orders")
    expect(page.get_by_role("status").first).to_have_text("Live")
    watched.away = True
    mortal.kill9()
    expect(page.get_by_role("status").first).to_have_text("No answer, trying again")
    # What was known is still there, and another view says what is wrong.
    expect(page.locator("h1")).to_have_text("orders")
    page.get_by_role("link", name="Mesh").click()
    expect(page.get_by_role("alert")).to_contain_text("See whether the process runs")
    mortal.start()
    expect(page.get_by_role("table", name="Stores")).to_be_visible()
    expect(page.get_by_role("status").first).to_have_text("Live")
    watched.away = False


def test_without_topics_the_page_says_how_to_begin(open_page: Open, tmp_path: Path) -> None:
    with Standalone(tmp_path / "data", "--http", "127.0.0.1:0", directory=tmp_path / "server") as server:
        watched = open_page(Scene(server).origin)
        page = watched.go("now")
        expect(page.locator(".empty")).to_contain_text("No topics yet")
        expect(page.locator(".empty code").first).to_contain_text(f"--bootstrap {server.bootstrap}")
        for view, said in (
            ("topics", "No topics yet"),
            ("groups", "No groups yet"),
            ("clients", "Nobody is connected"),
        ):
            page.get_by_role("navigation", name="Views").get_by_role("link", name=view.capitalize()).click()
            expect(page.locator(".empty")).to_contain_text(said)
        watched.close()


def test_values_that_the_server_hides_are_said_to_be_hidden(open_page: Open, tmp_path: Path) -> None:
    options = ("--http", "127.0.0.1:0", "--http-no-values", "--topics", "orders")
    with Standalone(tmp_path / "data", *options, directory=tmp_path / "server") as server:
        scene = Scene(server)
        scene.write("orders", "a secret", "its key")
        watched = open_page(scene.origin)
        page = watched.go("topics/orders/records?open=0:0")
        expect(page.get_by_role("region", name="Record at offset 0 of partition 0")).to_contain_text(
            "--http-no-values"
        )
        assert "secret" not in page.content()
        watched.close()
