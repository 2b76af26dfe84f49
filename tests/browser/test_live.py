"""What is shown moves by itself, over one stream, and does not disturb who is looking."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.scene import Scene

Open = Callable[..., Watched]

COUNT_STREAMS = """
const Real = window.EventSource;
window.streams = [];
window.EventSource = class extends Real {
  constructor(...what) { super(...what); window.streams.push(this); }
};
window.openStreams = () => window.streams.filter((stream) => stream.readyState !== 2).length;
window.hide = (hidden) => {
  const value = hidden ? "hidden" : "visible";
  Object.defineProperty(document, "visibilityState", {value, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
};
"""


@pytest.fixture
def watched(open_page: Open) -> Watched:
    made = open_page()
    made.context.add_init_script(COUNT_STREAMS)
    return made


def live(page: Page) -> None:
    expect(page.get_by_role("status").first).to_have_text("Live")
    page.wait_for_function("() => window.streams.at(-1)?.readyState === 1")


def test_new_records_show_up_in_a_live_view_newest_first(watched: Watched, shown: Scene) -> None:
    page = watched.go("topics/empty/records?from=live&partition=0")
    expect(page.locator(".empty")).to_contain_text("Waiting for records")
    live(page)
    for number in range(3):
        shown.write("empty", f"live {number}")
    values = page.locator(".records tbody .payload")
    expect(values).to_have_text(["live 2", "live 1", "live 0"])


def test_a_topic_s_next_offset_moves_and_the_focus_stays(watched: Watched, shown: Scene) -> None:
    page = watched.go("topics/inventory-changes")
    live(page)
    link = page.get_by_role("link", name="Records of partition 0")
    link.focus()
    expect(page.locator("tbody tr").first).to_contain_text("60")
    shown.write("inventory-changes", "one more")
    expect(page.locator("tbody tr").first).to_contain_text("61")
    expect(link).to_be_focused()


def test_a_group_s_lag_grows_and_gives_the_line_another_point(watched: Watched, shown: Scene) -> None:
    page = watched.go("groups/billing")
    live(page)
    figure = page.locator(".figures dd").first
    before = int(figure.inner_text())
    shown.write("orders", "unread", partition=3)
    expect(figure).to_have_text(str(before + 1))
    expect(page.get_by_role("img", name=f"now {before + 1}")).to_be_visible()


def test_nothing_moves_while_it_is_paused_and_it_catches_up_after(watched: Watched, shown: Scene) -> None:
    page = watched.go("topics/clicks")
    live(page)
    first = page.locator("tbody tr").first
    before = first.inner_text()
    page.get_by_role("button", name="Pause live updates").click()
    expect(page.get_by_role("status").first).to_have_text("Paused")
    assert page.evaluate("openStreams()") == 0
    shown.write("clicks", "unseen")
    assert first.inner_text() == before
    page.get_by_role("button", name="Resume live updates").click()
    expect(first).not_to_have_text(before)
    live(page)


def test_there_is_one_stream_and_none_while_the_page_is_hidden(watched: Watched) -> None:
    page = watched.go("topics")
    live(page)
    for view in ("Groups", "Mesh", "Clients", "Now"):
        page.get_by_role("navigation", name="Views").get_by_role("link", name=view).click()
        live(page)
        assert page.evaluate("openStreams()") == 1
    page.evaluate("hide(true)")
    assert page.evaluate("openStreams()") == 0
    page.evaluate("hide(false)")
    live(page)
    assert page.evaluate("openStreams()") == 1


def test_a_field_that_somebody_types_into_is_left_alone(watched: Watched, shown: Scene) -> None:
    page = watched.go("topics/orders/records?from=live")
    live(page)
    page.get_by_role("combobox", name="Read").select_option("offset")
    field = page.get_by_label("Offset", exact=True)
    field.fill("12")
    shown.write("orders", "while somebody types")
    expect(page.locator(".records tbody .payload").first).to_contain_text("while somebody types")
    expect(field).to_have_value("12")
    expect(field).to_be_focused()
