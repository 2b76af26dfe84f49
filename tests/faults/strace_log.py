"""Reads what `strace -f -yy` wrote: what reached the log file, when it was forced to disk, what was sent.

A line is `PID CLOCK call(args) = result`; a call that another thread's line interrupts is split in two:
`call(args <unfinished ...>` and `<... call resumed>rest) = result`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

WRITES = {"write", "writev", "pwrite64", "pwritev", "pwritev2"}
SYNCS = {"fsync", "fdatasync", "sync_file_range"}
SENDS = {"sendto", "sendmsg", "sendmmsg", "write", "writev"}
TRACED = sorted(WRITES | SYNCS | SENDS | {"openat", "close"})

_LINE = re.compile(r"^(?P<pid>\d+)\s+(?:[\d:.]+\s+)?(?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<call>\w+)\((?P<args>.*)$")
_TARGET = re.compile(r"^\d+<(?P<target>.*?)>(?=[,)\s]|$)")
_BYTE = r"(?:\\\d{1,3}|\\.|[^\\])"
_KEPT = re.compile(rf"\\1{_BYTE}\\0{_BYTE}{{4}}ke(?:\\0){{4}}")
"""The first key of a commit with which a store keeps a copy of the catalog: no answer to a client waits for
it, and it may come at any time."""

_END = r"(?:\)\s+=| <unfinished)"
_POSITION = re.compile(rf", (?P<position>\d+){_END}")
_POSITION_BEFORE_FLAGS = re.compile(rf", (?P<position>\d+), [\w|]+{_END}")
_RESULT = re.compile(r"= (?P<result>-?\d+)")
UNFINISHED = "<unfinished ...>"


@dataclass(frozen=True)
class Call:
    """One end of a system call: `begins` when it was entered, or its return with `result` (-1: failed).

    A call on one line is two of these in a row. `target` is the file or socket of its first argument,
    `position` where a pwrite, pwritev or pwritev2 begins to write.
    """

    pid: int
    name: str
    target: str
    begins: bool
    result: int = 0
    line: int = 0
    position: int = -1


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """Every call's beginning and end, in the order of the log."""
    open_calls: dict[tuple[int, str], tuple[str, int]] = {}
    for number, text in enumerate(lines, 1):
        line = _LINE.match(text.rstrip("\n"))
        if not line or _KEPT.search(text):
            continue
        pid, rest = int(line["pid"]), line["rest"]
        resumed = _RESUMED.match(rest)
        if resumed:
            target, position = open_calls.pop((pid, resumed["call"]), ("", -1))
            yield Call(pid, resumed["call"], target, False, _result(resumed["rest"]), number, position)
            continue
        call = _CALL.match(rest)
        if not call:
            continue
        found = _TARGET.match(call["args"])
        target = found["target"] if found else ""
        position = _position(call["call"], call["args"])
        yield Call(pid, call["call"], target, True, 0, number, position)
        if call["args"].endswith(UNFINISHED):
            open_calls[pid, call["call"]] = target, position
        else:
            yield Call(pid, call["call"], target, False, _result(call["args"]), number, position)


def _position(name: str, arguments: str) -> int:
    """Where a pwrite, pwritev or pwritev2 begins; -1 for other calls."""
    if not name.startswith("pwrite"):
        return -1
    found = (_POSITION_BEFORE_FLAGS if name == "pwritev2" else _POSITION).search(arguments)
    return int(found["position"]) if found else -1


def _result(rest: str) -> int:
    found = _RESULT.findall(rest)
    return int(found[-1]) if found else -1


@dataclass(frozen=True)
class Violation:
    """An answer that left while log bytes written before it were not on disk."""

    line: int
    why: str


@dataclass
class Judgement:
    """What `judge` saw: answers sent to the client, log writes, finished syncs, and every violation."""

    answers: int
    log_writes: int
    syncs: int
    violations: list[Violation]


def judge(lines: Iterable[str], *, log: re.Pattern[str], client: str) -> Judgement:
    """Was every answer to `client` sent only when the log's writes before it were on disk?

    The client must send one request at a time, each of which appends: then every answer acknowledges the
    writes before it. A sync covers the writes that had returned when it began.

    Args:
        log: matches the path of a write-ahead log file.
        client: a part of the socket's name that only this client's connection has, e.g. its port.
    """
    seen = Judgement(0, 0, 0, [])
    written = 0  # log writes that were begun
    covers: dict[int, int] = {}  # by thread: the writes that its running sync will have forced to disk
    durable = answered = 0
    for call in calls(lines):
        if log.search(call.target):
            if call.name in WRITES and call.begins:
                written += 1
                seen.log_writes += 1
            elif call.name in SYNCS and call.begins:
                covers[call.pid] = written
            elif call.name in SYNCS and call.result == 0:
                durable = max(durable, covers.pop(call.pid, 0))
                seen.syncs += 1
        elif call.name in SENDS and call.begins and client in call.target:
            seen.answers += 1
            if written == answered:
                seen.violations.append(Violation(call.line, "no log write since the answer before"))
            elif durable < written:
                seen.violations.append(Violation(call.line, f"{written - durable} writes not on disk"))
            answered = written
    return seen
