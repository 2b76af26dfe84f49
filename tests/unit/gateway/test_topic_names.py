from __future__ import annotations

import pytest

from gateway.topic_names import colliding_topic, invalid_topic_name, is_internal

OTHER = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize("name", ["a", "-", "_", "...", "a.b_c-D9", "x" * 249, "__consumer_offsets"])
def test_good_names(name: str) -> None:
    assert invalid_topic_name(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a/b", f"'a/b' {OTHER}"),
        ("a b", f"'a b' {OTHER}"),
        ("a\0b", f"'a\0b' {OTHER}"),
        ("a\n", f"'a\n' {OTHER}"),
        ("é", f"'é' {OTHER}"),
        ("٣", f"'٣' {OTHER}"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("x" * 40_000, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
def test_bad_names_with_kafkas_words(name: str, reason: str) -> None:
    assert invalid_topic_name(name) == f"Topic name is invalid: {reason}"


@pytest.mark.parametrize(
    ("name", "existing", "collides"),
    [
        ("a.b", ["x", "a_b"], "a_b"),
        ("a_b", ["a.b"], "a.b"),
        ("a.b_c", ["a_b.c"], "a_b.c"),
        ("a.b", ["a.b"], None),
        ("ab", ["a.b", "a_b"], None),
        ("a.b", ["a.c"], None),
    ],
)
def test_dots_and_underscores_are_one_in_kafkas_metrics(
    name: str, existing: list[str], collides: str | None
) -> None:
    assert colliding_topic(name, existing) == collides


def test_kafkas_internal_topics() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert is_internal("__share_group_state")
    assert not is_internal("__mine")
