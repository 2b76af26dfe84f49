from __future__ import annotations

import pytest

from gateway.common.topic_names import (
    collision_key,
    has_collision_characters,
    invalid_topic_name,
    is_internal,
)

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


def test_dots_and_underscores_are_one_in_kafkas_metrics() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("a-b") != collision_key("a_b")
    assert [name for name in ("a.b", "a_b", "a-b", "ab") if has_collision_characters(name)] == ["a.b", "a_b"]


def test_kafkas_internal_topics() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert is_internal("__share_group_state")
    assert not is_internal("__mine")
