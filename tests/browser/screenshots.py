"""Makes the pictures of the status page in docs/images: python -m tests.browser.screenshots

They are of a real mesh of a tower, three stores and a gateway, under a minute of real traffic; for the last
one a store is killed. Debian's fonts-inter and fonts-jetbrains-mono have the letters that are in docs/images.
"""

import math
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from playwright.sync_api import Browser, Page

from tests.browser.chromium import Watched, chromium
from tests.browser.scene import GROUP, READ, Scene, group, order
from tests.peers.mesh import MeshCluster

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
WATCHED_SECONDS = 62
STORE_AWAY_SECONDS = 20
LAG = "Number(document.querySelector('.figures dd').textContent.replaceAll(',', ''))"
SEEN_LAG = 900
SCALE = 1.5


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dafka-screenshots-")))
        options = ("--http", "127.0.0.1:0", "--group-initial-rebalance-delay-ms", "0")
        mesh = stack.enter_context(MeshCluster(directory, 3, options))
        scene = Scene(mesh.gateway)
        scene.fill(copies=3)
        reader = stack.enter_context(group(mesh.bootstrap, GROUP, "orders", READ))
        stack.enter_context(group(mesh.bootstrap, "search-index", "inventory-changes", 60))
        stack.enter_context(group(mesh.bootstrap, "fraud-detection", "payments", 20))
        browser = stack.enter_context(chromium())
        with traffic(mesh.bootstrap, reader):
            _healthy(browser, scene.origin)
            mesh.stores[2].kill9()
            _a_store_away(browser, scene.origin)


def _healthy(browser: Browser, origin: str) -> None:
    now = _page(browser, origin, DESKTOP, "light").go("now")
    late = _page(browser, origin, DESKTOP, "dark").go(f"groups/{GROUP}")
    phone = _page(browser, origin, PHONE, "light").go(f"groups/{GROUP}")
    now.wait_for_timeout(WATCHED_SECONDS * 1000)
    _take(now, "page-now")
    late.wait_for_function(f"() => {LAG} > {SEEN_LAG}", timeout=WATCHED_SECONDS * 1000)
    _take(late, "page-group-dark")
    _take(phone, "page-group-phone")
    light = _page(browser, origin, DESKTOP, "light")
    _take(light.go("topics?sort=-bytes"), "page-topics")
    _take(light.go("topics/orders"), "page-topic")
    _take(light.go("topics/orders/records?from=last:20&open=1:95"), "page-record")
    _take(light.go("mesh"), "page-mesh")
    _take(_page(browser, origin, PHONE, "dark").go("now"), "page-now-phone-dark")


def _a_store_away(browser: Browser, origin: str) -> None:
    page = _page(browser, origin, DESKTOP, "light").go("now")
    page.locator(".problem").first.wait_for(timeout=STORE_AWAY_SECONDS * 1000)
    _take(page, "page-problem")


def _page(browser: Browser, origin: str, viewport: dict[str, int], theme: str) -> Watched:
    options: dict[str, Any] = {"color_scheme": theme, "device_scale_factor": SCALE, "timezone_id": "UTC"}
    return Watched(browser, origin, viewport=viewport, reduced_motion="reduce", **options)


def _take(page: Page, name: str) -> None:
    page.wait_for_timeout(2500)
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
    print(IMAGES / f"{name}.png")


@contextmanager
def traffic(bootstrap: str, reader: Consumer) -> Iterator[None]:
    """Orders and clicks in waves, and a reader that does not always keep up."""
    ended = threading.Event()
    writer = threading.Thread(target=_write, args=(bootstrap, ended))
    readers = threading.Thread(target=_read, args=(reader, ended))
    writer.start()
    readers.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        readers.join()


def _write(bootstrap: str, ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "client.id": "shop"})
    dice = random.Random(7)
    number = 1000
    began = time.monotonic()
    while not ended.wait(0.1):
        wave = 1 + 0.6 * math.sin((time.monotonic() - began) / 5) + 0.3 * dice.random()
        for _ in range(int(25 * wave)):
            number += 1
            producer.produce("orders", order(dice, number), f"customer-{number % 13}")
            producer.produce("clicks", f"/item/{dice.randrange(900)}")
        for topic in ("payments", "inventory-changes"):
            producer.produce(topic, str(number), f"key-{number % 31}")
        producer.poll(0)
    producer.flush(10)


def _read(reader: Consumer, ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.is_set():
        # Slow for some seconds, then quick enough to make up for it.
        slow = math.sin((time.monotonic() - began) / 4) > 0.2
        if reader.consume(20 if slow else 400, 0.3):
            try:
                reader.commit(asynchronous=False)
            except KafkaException as error:
                print(error)
        ended.wait(0.3)


if __name__ == "__main__":
    main()
