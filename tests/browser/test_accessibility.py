"""axe-core finds nothing in any view, theme and width; the keyboard reaches everything."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import violations
from tests.browser.chromium import NARROW, WIDE, Watched

Open = Callable[..., Watched]
Go = Callable[[str], Page]

VIEWS = (
    "now",
    "topics",
    "topics?q=no-such-topic",
    "topics/orders",
    "topics/orders?show=configs&all=true",
    "topics/orders/records?open=0:1",
    "topics/odd/records",
    "topics/empty/records?from=live",
    "groups",
    "groups/billing",
    "mesh",
    "clients",
)


@pytest.mark.parametrize("width", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    open_page: Open, theme: str, width: dict[str, int]
) -> None:
    watched = open_page(viewport=width, color_scheme=theme)
    found = {}
    for view in VIEWS:
        page = watched.go(view)
        found[view] = violations(page)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found[view].append("wider than the screen")
    assert {view: faults for view, faults in found.items() if faults} == {}


def test_the_first_tab_stop_skips_to_the_content(go: Go) -> None:
    page = go("topics")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/topics")


def test_a_table_is_sorted_with_the_keyboard_and_keeps_the_focus(go: Go) -> None:
    page = go("topics")
    button = page.get_by_role("button", name="Offsets")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Offsets")).to_have_attribute("aria-sort", "descending")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Offsets")).to_have_attribute("aria-sort", "ascending")


def test_another_view_takes_the_focus_to_its_heading(go: Go) -> None:
    page = go("now")
    page.get_by_role("link", name="Groups").press("Enter")
    expect(page.get_by_role("heading", name="Groups", level=1)).to_be_focused()
    assert page.title() == "Groups · Dafka"


def test_a_record_that_is_opened_gets_the_focus_and_gives_it_back(go: Go) -> None:
    page = go("topics/orders/records?from=last:50&partition=1")
    link = page.get_by_role("link", name="60", exact=True)
    link.press("Enter")
    heading = page.get_by_role("heading", name="Record at offset 60 of partition 1")
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    page.get_by_role("link", name="Close").press("Enter")
    expect(link).to_be_focused()


def test_cards_of_a_narrow_screen_are_still_a_table(open_page: Open) -> None:
    page = open_page(viewport=NARROW).go("topics")
    expect(page.get_by_role("rowheader", name="orders")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Partitions")).to_be_visible()


def test_what_can_be_pressed_is_large_enough(open_page: Open) -> None:
    """24 px in both directions, but for links in running text."""
    page = open_page(viewport=NARROW).go("topics/orders/records")
    small = page.eval_on_selector_all(
        "button, .button, input, select, .choice a, nav a",
        "all => all.map(e => [e.textContent, e.getBoundingClientRect()])"
        ".filter(([, r]) => r.width > 0 && (r.width < 24 || r.height < 24)).map(([text]) => text)",
    )
    assert small == []


def test_the_theme_is_a_switch_that_is_remembered(open_page: Open) -> None:
    page = open_page(color_scheme="light").go("mesh")
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    theme = page.locator("#theme")
    for said in ("light", "dark"):
        theme.click()
        expect(theme).to_contain_text(said)
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(theme).to_contain_text("dark")
    assert page.evaluate(ground) == dark


def test_nothing_is_animated_for_who_does_not_want_it(open_page: Open) -> None:
    page = open_page(reduced_motion="reduce").go("groups/billing")
    page.locator(".strip").first.wait_for()
    assert page.evaluate("() => document.getAnimations().length") == 0
    moving = "all => all.filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    assert page.eval_on_selector_all("*", moving) == 0
