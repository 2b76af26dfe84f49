"""From a setting's text to its value. A parser raises ValueError with a clause that says what is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gateway.listeners import InvalidListener, ListenerSpec, parse_listener, split_host_port
from gateway.topic_names import invalid_topic_name

MAX_PARTITIONS: Final = 10_000
"""Partitions of one topic at most, as a setting: each costs memory and a segment, and a number above this
is more often a slip of the finger than a wish."""

_SWITCH: Final = {"true": True, "on": True, "yes": True, "1": True} | {
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


def parse_listeners(texts: Sequence[str]) -> tuple[ListenerSpec, ...]:
    """Every listener; at least one."""
    if not texts:
        raise ValueError("at least one listener is needed, for example 127.0.0.1:9092")
    return tuple(parse_listener(text) for text in texts)


def parse_directory(text: str) -> Path:
    """A path; not empty, which would be the current directory."""
    if not text or "\0" in text:
        raise ValueError("the path of a directory is needed, for example ./dafka-data")
    return Path(text)


def parse_metrics(text: str) -> ListenerSpec:
    """HOST:PORT of the HTTP server."""
    host, port = split_host_port(text)
    return ListenerSpec("METRICS", host, port)


def parse_mesh_listen(text: str) -> str:
    """HOST[:PORT] as ZeroMQ binds it; without a port, one is picked."""
    try:
        host, port = split_host_port(text)
    except InvalidListener:
        if ":" in text.rpartition("]")[2]:
            raise
        host, port = split_host_port(f"{text}:0")
    return f"{f'[{host}]' if ':' in host else host}:{port or '*'}"


def parse_topics(text: str) -> tuple[tuple[str, int | None], ...]:
    """NAME[:PARTITIONS],... ; partitions None: the default number of them."""
    topics: dict[str, int | None] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, colon, partitions = item.partition(":")
        if why := invalid_topic_name(name):
            raise ValueError(why)
        if name in topics:
            raise ValueError(f"the topic {name} is named twice")
        topics[name] = parse_number(1, MAX_PARTITIONS)(partitions) if colon else None
    return tuple(topics.items())


def parse_number(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        # int() of a long text takes quadratic time, and allows underscores and other alphabets' digits.
        if len(text) > 20 or not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"{text[:32]!r} is not a whole number")
        if not least <= int(text) <= most:
            raise ValueError(f"{text} is not between {least} and {most}")
        return int(text)

    return parse


def parse_choice(choices: Sequence[str]) -> Callable[[str], str]:
    """A parser of one of some words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text[:32]!r} is none of {', '.join(choices)}")
        return text

    return parse


def parse_switch(text: str) -> bool:
    """True or false, on or off, yes or no, 1 or 0."""
    if text.lower() not in _SWITCH:
        raise ValueError(f"{text[:32]!r} is neither true nor false")
    return _SWITCH[text.lower()]
