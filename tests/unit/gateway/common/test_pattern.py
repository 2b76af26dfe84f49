"""Patterns of clients: matched whole, refused where they are none, and never slow."""

import pytest

from gateway.common.pattern import MAX_PATTERN_LENGTH, InvalidPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("app-.*", "app-1", True),
        ("app-.*", "my-app-1", False),
        ("app-.", "app-12", False),
        ("(a|b)+c?", "abba", True),
        ("ä.*", "äöü", True),
        ("^a$", "a", True),
        ("a", "a\n", False),
        ("(?i)APP", "app", True),
        (r"\Qa.b\E", "a.b", True),
        ("(a*)*b", "a" * 5000, False),
    ],
)
def test_the_whole_text_has_to_match(pattern: str, text: str, matches: bool) -> None:
    assert Pattern(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "a**b)", "(?=a)", r"(a)\1", "a{2000}", "(((a{100}){100}){100})", "\udc80"]
)
def test_what_is_no_pattern_is_refused_with_a_reason(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        Pattern(pattern)
    assert str(refused.value)


def test_a_long_pattern_is_refused() -> None:
    Pattern("a" * MAX_PATTERN_LENGTH)
    with pytest.raises(InvalidPattern):
        Pattern("a" * (MAX_PATTERN_LENGTH + 1))


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [
        ("CN=(.*?),OU=(.*)", "CN=ä,OU=b", ("CN=ä,OU=b", "ä", "b")),
        ("CN=(.*?)", "CN=abc", ("CN=abc", "abc")),
        ("(a)|(b)", "b", ("b", "", "b")),
        ("ab", "ab", ("ab",)),
        ("a(b)", "abc", None),
    ],
)
def test_what_matches_is_taken_apart(pattern: str, text: str, parts: tuple[str, ...] | None) -> None:
    made = Pattern(pattern)
    assert made.taken_apart(text) == parts
    assert parts is None or made.groups == len(parts) - 1
