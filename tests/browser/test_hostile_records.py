"""What strangers write is seen, and does nothing."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Watched
from tests.browser.scene import RIGHT_TO_LEFT

Go = Callable[[str], Page]
Open = Callable[..., Watched]


@pytest.fixture
def odd(go: Go) -> Callable[..., Page]:
    """Shows one record of the topic `odd`: its offset, and more of the address."""

    def show(offset: int, more: str = "") -> Page:
        return go(f"topics/odd/records?from=start&open=0:{offset}{more}")

    return show


def test_markup_is_text_everywhere(go: Go) -> None:
    page = go("topics/odd/records?from=start&open=0:0")
    region = page.get_by_role("region", name="Record at offset 0 of partition 0")
    expect(region.get_by_role("region", name="Key")).to_have_text("<img src=x onerror=alert(1)>")
    expect(region.get_by_role("region", name="Value")).to_have_text("<script>alert('value')</script>")
    expect(region).to_contain_text("<b>")
    assert page.locator("img, main script, main b, main i").count() == 0


def test_marks_that_turn_text_around_are_shown_by_name(odd: Callable[..., Page]) -> None:
    page = odd(1)
    value = page.get_by_role("region", name="Value")
    expect(value).to_have_text("invoice\\u202efdp.exe")
    assert RIGHT_TO_LEFT not in page.locator("body").inner_text()


def test_bytes_that_are_no_text_are_hex_and_can_be_read_as_text(odd: Callable[..., Page]) -> None:
    page = odd(2)
    expect(page.get_by_role("region", name="Key")).to_contain_text("ff fe 00")
    expect(page.get_by_role("region", name="Value")).to_contain_text("0000f0  f0 f1 f2")
    page = odd(2, "&value=text")
    expect(page.get_by_role("region", name="Value")).to_contain_text("ABC")


def test_controls_are_shown_by_name(odd: Callable[..., Page]) -> None:
    expect(odd(3).get_by_role("region", name="Value")).to_have_text("a\\u0000b\\u001b[31mred\\u0007")


def test_json_keeps_its_numbers_and_touches_no_prototype(odd: Callable[..., Page]) -> None:
    page = odd(4)
    value = page.get_by_role("region", name="Value")
    expect(value).to_contain_text("18446744073709551615")
    expect(value).to_contain_text('"__proto__"')
    assert page.evaluate("() => ({}).polluted") is None


def test_long_keys_and_values_are_cut_and_loaded_when_asked_for(odd: Callable[..., Page]) -> None:
    page = odd(6)
    expect(page.get_by_role("heading", name=re.compile(r"^Value, .*, cut"))).to_be_visible()
    page.get_by_role("link", name="Load up to 1 MiB").click()
    expect(page.get_by_role("heading", name=re.compile(r"^Value, [^,]*$"))).to_be_visible()
    assert len(page.get_by_role("region", name="Value").inner_text()) == 200_000


@pytest.mark.parametrize(
    ("offset", "name", "said"),
    [(7, "Key", "none (null)"), (8, "Value", "none (null)"), (9, "Value", "empty")],
)
def test_null_and_empty_are_two_things(odd: Callable[..., Page], offset: int, name: str, said: str) -> None:
    part = odd(offset).locator(".steps", has=odd(offset).get_by_role("heading", name=re.compile(f"^{name}")))
    expect(part.last).to_contain_text(said)


def test_a_strange_address_is_a_message_and_no_fault(go: Go) -> None:
    page = go("topics%2F..%2F?q=%E0%A4%A&sort=<img>")
    expect(page.locator("h1")).to_have_text("Nothing is here")


def test_scripts_that_come_by_another_way_are_refused_by_the_browser(open_page: Open) -> None:
    """The policy holds by itself: markup cannot be made from text at all."""
    watched = open_page()
    page = watched.go("now")
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<img src=x onerror=window.hit=1>'; return 'made'; }"
        " catch (error) { return error.name; } }"
    )
    assert refused == "TypeError"
    assert [said for said in watched.wrong if "TrustedHTML" not in said] == []
    watched.wrong.clear()
