"""What is wrong comes first, with the command that helps."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chromium import Watched
from tests.browser.scene import Scene
from tests.faults.disks import roomy
from tests.peers.mesh import MeshCluster

Open = Callable[..., Watched]


def test_a_store_that_is_away_is_named_until_it_is_back(tmp_path: Path, open_page: Open) -> None:
    with (
        roomy(tmp_path / "disk") as disk,
        MeshCluster(disk, 3, ("--http", "127.0.0.1:0", "--topics", "orders:4")) as mesh,
    ):
        watched = open_page(Scene(mesh.gateway).origin)
        page = watched.go("now")
        expect(page.locator("h1")).to_have_text("Nothing is wrong.")
        expect(page.locator("main")).to_contain_text("on 3 stores")
        mesh.stores[2].kill9()
        problem = page.locator(".problem", has_text="(s3) is away")
        expect(problem).to_contain_text("dafka store")
        expect(page.locator("h1")).not_to_have_text("Nothing is wrong.")
        problem.get_by_role("link", name="Look at the mesh").click()
        expect(page.get_by_role("row", name="s3")).to_contain_text("away")
        mesh.stores[2].start()
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Now").click()
        expect(page.locator("h1")).to_have_text("Nothing is wrong.")
        watched.close()


def test_a_topic_that_is_new_shows_up_by_itself(tmp_path: Path, open_page: Open) -> None:
    with MeshCluster(tmp_path, 1, ("--http", "127.0.0.1:0")) as mesh:
        scene = Scene(mesh.gateway)
        watched = open_page(scene.origin)
        page = watched.go("topics")
        expect(page.locator(".empty")).to_contain_text("No topics yet")
        scene.write("orders", "the first")
        expect(page.get_by_role("rowheader", name="orders")).to_be_visible()
        watched.close()
