"""Patterns mean what Python's `re` and RE2 agree on, and no pattern takes for ever."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.pattern.parsing import MAX_PATTERN_LENGTH, compile_pattern
from gateway.common.pattern.program import MAX_INSTRUCTIONS, InvalidPattern, Match


def matches(pattern: str, text: str) -> bool:
    match = Match(compile_pattern(pattern))
    for start in range(0, len(text), 3):
        match.feed(text[start : start + 3])
    return match.is_whole


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("", [""], ["a"]),
        ("abc", ["abc"], ["ab", "abcd", "xabc", "ABC"]),
        ("a.c", ["abc", "a.c", "aéc"], ["ac", "a\nc"]),
        ("(?s)a.c", ["a\nc"], []),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("a*", ["", "a", "aaaa"], ["b", "ab"]),
        ("a+?b", ["ab", "aab"], ["b"]),
        ("(ab)?c", ["c", "abc"], ["ababc"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaaa"], ["a"]),
        ("a{1,3}", ["a", "aaa"], ["", "aaaa"]),
        ("a{0}", [""], ["a"]),
        ("a{,2}", ["a{,2}"], ["a"]),
        ("a{x", ["a{x"], []),
        ("[a-c-]x", ["ax", "-x"], ["dx"]),
        ("[^a-c]", ["d", "\n"], ["a", ""]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[\\]\\-^]", ["]", "-", "^"], ["\\"]),
        ("[\\d_]+", ["1_2"], ["a", "٣"]),
        ("[[:alpha:][:^digit:]]", ["a", "-"], ["1"]),
        ("\\d\\D\\w\\W\\s\\S", ["1a_- x"], ["1a_-xx"]),
        ("\\.\\*\\/", [".*/"], []),
        ("\\Qa.b*\\E+", ["a.b*", "a.b**"], ["axb*"]),
        ("\\Qa.", ["a."], ["ab"]),
        ("\\x41\\x{1F600}", ["A😀"], []),
        ("\\t\\n", ["\t\n"], []),
        ("^a$", ["a"], ["aa"]),
        ("\\Aa\\z", ["a"], ["b"]),
        ("x^a", [], ["xa"]),
        ("a\\b-\\Bb?", ["a-"], ["a-b"]),
        ("(?i)tX", ["tx", "TX", "Tx"], ["t"]),
        ("(?i)[a-f]é", ["Bé", "bÉ"], ["g"]),
        ("a(?i:b)c", ["abc", "aBc"], ["aBC", "Abc"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        ("(?:a|b)(?P<name>c)(?<other>d)", ["acd", "bcd"], ["cd"]),
        ("((a)*)*", ["", "aaa"], ["b"]),
        ("(|a)+", ["", "aa"], ["b"]),
    ],
)
def test_what_patterns_mean(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [text for text in yes if not matches(pattern, text)] == []
    assert [text for text in no if matches(pattern, text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "a(", "a)", "(", "[", "[]", "[a", "*", "+a", "?", "a**", "a*{2}", "a|*", "(?=a)", "(?!a)", "(?<=a)",
        "(?<!a)", "(a)\\1", "\\p{L}", "\\", "[\\", "\\y", "(?x)a", "(?P<>a)", "(?P<n", "(?P<a b>c)", "[b-a]",
        "[[:nope:]]", "[[:alpha:", "\\x", "\\x4", "\\x{", "\\x{}", "\\x{110000}", "\\x{zz}", "a{1001}",
        "a{2,1}", "(?", "(?i", "(?:a", "(" * 200 + ")" * 200, "a" * (MAX_PATTERN_LENGTH + 1),
        "((a{100}){100}){100}", "(a{1000}){1000}", "(|a){1000}" * 10,
    ],
)  # fmt: skip
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|aa)+", "(a*)*", "(a?){30}a{30}", "(.*a){20}"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    began = time.process_time()
    assert not matches(pattern, "a" * 300 + "!")
    assert time.process_time() - began < 5  # `re` needs longer than the age of the universe


LETTERS = st.text("ab-", max_size=8)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 0) -> str:
    kind = draw(st.sampled_from(["literal", "class", "dot", *(["both", "either", "repeat"] * (depth < 4))]))
    if kind == "literal":
        return re.escape(draw(st.sampled_from("ab-")))
    if kind == "class":
        return draw(st.sampled_from(["[a-b]", "[^a]", "[-b]", "\\w", "\\W"]))
    if kind == "dot":
        return "."
    first = draw(patterns(depth + 1))
    if kind == "repeat":
        return f"(?:{first}){draw(st.sampled_from(['*', '+', '?', '{2}', '{1,3}', '{1,}', '*?']))}"
    second = draw(patterns(depth + 1))
    return first + second if kind == "both" else f"(?:{first}|{second})"


@settings(deadline=None)
@given(patterns(), st.lists(LETTERS, max_size=10))
def test_the_same_as_re(pattern: str, texts: list[str]) -> None:
    try:
        compile_pattern(pattern)
    except InvalidPattern:
        return  # repetitions of repetitions, written out
    for text in texts:
        assert matches(pattern, text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


@settings(deadline=None)
@given(st.text("ab([{*+?|)]}^$\\.-,12xQEidP<>:=!", max_size=20), LETTERS)
def test_whatever_is_sent_nothing_else_is_raised(pattern: str, text: str) -> None:
    try:
        program = compile_pattern(pattern)
    except InvalidPattern:
        return
    assert len(program) <= MAX_INSTRUCTIONS
    matches(pattern, text)
