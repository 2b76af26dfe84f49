"""Each view shows what a real server has."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.scene import GROUP, ORDERS, READ, STRANGE_GROUP, TOPICS

Go = Callable[[str], Page]
Open = Callable[..., Watched]


def row(page: Page, name: str) -> str:
    """The text of the row that `name` heads."""
    return " ".join(
        page.locator("tbody tr", has=page.locator("th", has_text=name)).first.inner_text().split()
    )


def test_now_is_calm_and_says_what_there_is(go: Go) -> None:
    page = go("now")
    expect(page.locator("h1")).to_have_text("Nothing is wrong.")
    expect(page.locator("main")).to_contain_text("partitions serve, on one store")
    expect(page.get_by_role("table", name="Busiest topics")).to_contain_text("orders")
    expect(page.get_by_role("table", name="Groups")).to_contain_text(GROUP)
    expect(page.get_by_role("img", name=re.compile("Records written"))).to_be_visible()


def test_topics_are_found_and_sorted_by_the_server_and_the_address_says_so(go: Go) -> None:
    page = go("topics")
    names = page.locator("tbody th a")
    expect(names).to_have_text(sorted(TOPICS))
    page.get_by_role("button", name="Partitions").click()
    expect(page.get_by_role("columnheader", name="Partitions")).to_have_attribute("aria-sort", "descending")
    expect(names.nth(0)).to_have_text("clicks")
    assert page.url.endswith("#/topics?sort=-partitions")
    page.get_by_role("searchbox").fill("inv")
    expect(names).to_have_text(["inventory-changes"])
    assert page.url.endswith("#/topics?sort=-partitions&q=inv")
    page.get_by_role("searchbox").fill("no such topic")
    expect(page.locator("main")).to_contain_text("No topic has that in its name")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("no such topic")


def test_a_topic_has_its_partitions_and_what_was_configured(go: Go) -> None:
    page = go("topics/orders")
    table = page.get_by_role("table", name="Partitions of orders")
    expect(table.locator("tbody tr")).to_have_count(4)
    assert "0 100" in row(page, "0")
    page.get_by_role("link", name=GROUP).wait_for()
    page = go("topics/payments?show=configs")
    expect(page.get_by_role("table", name="Configs of payments")).to_contain_text("retention.ms")
    assert "3600000" in row(page, "retention.ms")


def test_the_last_records_are_read_with_their_keys_values_headers_and_batch(go: Go) -> None:
    page = go("topics/orders/records?from=last:5&partition=0")
    offsets = page.locator(".records tbody th a")
    expect(offsets).to_have_text([str(offset) for offset in range(99, 94, -1)])
    page.get_by_role("link", name="oldest first").click()
    expect(offsets).to_have_text([str(offset) for offset in range(95, 100)])
    offsets.nth(0).click()
    record = page.get_by_role("region", name="Record at offset 95 of partition 0")
    expect(record).to_contain_text('"order": 380')
    expect(record).to_contain_text("customer-3")
    expect(record).to_contain_text("trace")
    record.locator("summary").click()
    expect(record).to_contain_text("Codec")
    page.get_by_role("group", name="Values as").get_by_role("link", name="hex").click()
    expect(record.get_by_role("region", name="Value")).to_contain_text("000000  7b 22 6f 72 64 65 72 22")
    assert "value=hex" in page.url
    assert "open=0%3A95" in page.url


def test_records_are_read_from_an_offset_and_from_a_time_once_it_is_asked_for(go: Go) -> None:
    page = go("topics/orders/records?from=last:1")
    page.get_by_role("combobox", name="Read").select_option("offset")
    page.get_by_label("Offset", exact=True).fill("7")
    page.get_by_label("Of partition").select_option("2")
    assert "offset" not in page.url
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.locator(".records tbody th a").first).to_have_text("7")
    assert page.url.endswith("#/topics/orders/records?from=offset%3A7&partition=2")
    page.get_by_role("combobox", name="Read").select_option("time")
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.locator(".records tbody th a").first).to_have_text("0")
    assert "from=time%3A" in page.url


def test_groups_have_lag_and_one_that_is_behind_shows_where(go: Go) -> None:
    page = go("groups")
    expect(page.locator("tbody th a")).to_have_text([STRANGE_GROUP, GROUP])
    assert str(ORDERS - READ) in row(page, GROUP)
    page.get_by_role("link", name=GROUP).click()
    expect(page.locator("h1")).to_have_text(GROUP)
    table = page.get_by_role("table", name=f"How far {GROUP} has read")
    expect(table.locator("tbody tr")).to_have_count(4)
    expect(page.get_by_role("img", name=re.compile(f"now {ORDERS - READ}"))).to_be_visible()
    expect(page.get_by_role("table", name="Members of")).to_contain_text(f"{GROUP}-1")


def test_a_group_without_members_says_how_to_go_on(go: Go) -> None:
    page = go("groups")
    page.get_by_role("link", name=STRANGE_GROUP).click()
    expect(page.locator("h1")).to_have_text(STRANGE_GROUP)
    expect(page.locator("main")).to_contain_text("Nobody reads now")


def test_the_mesh_shows_the_store_and_its_disk(go: Go) -> None:
    page = go("mesh")
    expect(page.get_by_role("table", name="Stores").locator("tbody tr")).to_have_count(1)
    expect(page.locator("main")).to_contain_text("finds its store in its own process")
    expect(page.get_by_role("heading", name="Gateway 1")).to_be_visible()


def test_clients_are_told_by_library(go: Go) -> None:
    page = go("clients")
    expect(page.get_by_role("table", name="Libraries")).to_contain_text("confluent-kafka-python")
    expect(page.get_by_role("table", name="Libraries")).to_contain_text("<script>alert(1)</script>")


def test_an_empty_topic_says_what_to_do_next(go: Go) -> None:
    page = go("topics/empty/records")
    expect(page.locator(".empty")).to_contain_text("kcat -b 127.0.0.1:")


@pytest.mark.parametrize("view", ["topics/nope", "groups/nope", "topics/nope/records"])
def test_what_is_not_there_is_said_with_the_next_step(open_page: Open, view: str) -> None:
    watched = open_page()
    watched.away = True  # browsers say each 404 in the console
    page = watched.go(view)
    expect(page.get_by_role("alert")).to_contain_text("nope")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_times_are_shown_in_utc_or_local_at_a_switch_that_is_remembered(open_page: Open) -> None:
    page = open_page().go("topics/orders/records?from=last:1&partition=0")
    time = page.locator(".records time").first
    local = time.inner_text()
    page.get_by_role("button", name="show UTC").click()
    expect(time).to_have_text(re.compile("UTC$"))
    assert local != time.inner_text().removesuffix(" UTC")
    page.reload()
    expect(page.locator(".records time").first).to_have_text(re.compile("UTC$"))
