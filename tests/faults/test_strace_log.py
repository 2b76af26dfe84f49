"""The reader of strace logs, on logs written by hand: right ones, and each way to be wrong."""

from __future__ import annotations

import re

import pytest

from tests.faults.strace_log import Call, calls, judge

LOG = re.compile(r"/store/.*\d+\.log$")
WAL = "7</data/store/db/000004.log>"
CLIENT = "12<TCP:[127.0.0.1:9092->127.0.0.1:50000]>"
OTHER = "13<TCP:[127.0.0.1:9092->127.0.0.1:50001]>"
WRITE = f'11 12:00:00.1 write({WAL}, "abc"..., 300) = 300'
SYNC = f"11 12:00:00.2 fdatasync({WAL}) = 0"
ANSWER = f'10 12:00:00.3 sendto({CLIENT}, "x"..., 50, MSG_NOSIGNAL, NULL, 0) = 50'
SYNC_BEGINS = f"11 12:00:00.2 fdatasync({WAL} <unfinished ...>"
SYNC_ENDS = "11 12:00:00.4 <... fdatasync resumed>) = 0"
SYNC_FAILS = "11 12:00:00.4 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)"


KEPT = (
    '10 12:00:00.1 pwritev(7</data/store/db/write-ahead/1.log>, [{iov_base="abcdefgh"..., iov_len=32}, '
    '{iov_base="\\1=\\0\\263\\n\\0\\0ke\\0\\0\\0\\0\\0\\0\\0\\1topic/"..., iov_len=331}], 2, 4096) = 363'
)
"""A commit with which the store keeps a copy of the catalog."""


def violations(*lines: str) -> list[int]:
    return [found.line for found in judge(lines, log=LOG, client=":50000").violations]


@pytest.mark.parametrize(
    "lines",
    [
        [WRITE, SYNC, ANSWER],
        [WRITE, SYNC, ANSWER, WRITE, SYNC, ANSWER],
        [WRITE, SYNC_BEGINS, SYNC_ENDS, ANSWER],
        [WRITE, WRITE, SYNC, ANSWER],
        [WRITE, SYNC_BEGINS, ANSWER.replace(CLIENT, OTHER), SYNC_ENDS, ANSWER],
        [WRITE, SYNC, ANSWER.replace("sendto", "sendmsg"), "10 12:00:00.5 +++ exited with 0 +++"],
        [WRITE, SYNC, "11 12:00:00.2 --- SIGCHLD {si_signo=SIGCHLD} ---", ANSWER],
        [WRITE, SYNC.replace("12:00:00.2 ", ""), ANSWER],
        [WRITE, SYNC, KEPT, ANSWER],
    ],
)
def test_right(lines: list[str]) -> None:
    assert violations(*lines) == []


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([WRITE, ANSWER, SYNC], [2]),
        ([WRITE, ANSWER], [2]),
        ([WRITE, SYNC, ANSWER, WRITE, ANSWER, SYNC], [5]),
        ([WRITE, SYNC_BEGINS, ANSWER, SYNC_ENDS], [3]),
        ([WRITE, SYNC_BEGINS, SYNC_FAILS, ANSWER], [4]),
        ([SYNC, WRITE, ANSWER], [3]),
        ([SYNC_BEGINS, WRITE.replace("11 ", "12 "), SYNC_ENDS, ANSWER], [4]),
        ([WRITE, SYNC.replace("store", "gateway"), ANSWER], [3]),
        ([WRITE, SYNC.replace("000004.log", "CURRENT"), ANSWER], [3]),
        ([WRITE, SYNC, ANSWER, ANSWER], [4]),
        ([ANSWER], [1]),
    ],
)
def test_wrong(lines: list[str], wrong: list[int]) -> None:
    assert violations(*lines) == wrong


def test_counts() -> None:
    seen = judge([WRITE, SYNC, ANSWER, WRITE, SYNC, ANSWER], log=LOG, client=":50000")
    assert (seen.answers, seen.log_writes, seen.syncs) == (2, 2, 2)


def test_every_sync_made_a_no_op_is_seen() -> None:
    """The log of a right run, without its syncs: every answer is wrong."""
    right = [WRITE, SYNC, ANSWER] * 20
    assert violations(*right) == []
    assert len(violations(*(line for line in right if line != SYNC))) == 20


def test_both_ends_of_a_write_say_where_it_begins() -> None:
    whole = KEPT.replace("ke", "xy")
    begins = whole.replace(") = 363", " <unfinished ...>")
    for lines in ([whole], [begins, "10 12:00:00.2 <... pwritev resumed>) = 363"]):
        found = list(calls(lines))
        assert [(call.position, call.result) for call in found] == [(4096, 0), (4096, 363)]


def test_split_calls_are_put_together() -> None:
    found = list(calls([SYNC_BEGINS, WRITE.replace("11 ", "12 "), SYNC_FAILS]))
    assert found[0] == Call(11, "fdatasync", "/data/store/db/000004.log", begins=True, line=1)
    assert found[-1] == Call(11, "fdatasync", "/data/store/db/000004.log", begins=False, result=-1, line=3)
    assert [(c.name, c.begins) for c in found[1:3]] == [("write", True), ("write", False)]


@pytest.mark.parametrize(
    ("written", "position"),
    [
        ('pwrite64(7<1.log>, ""..., 4096, 8192) = 4096', 8192),
        ('pwrite64(7<1.log>, ""..., 4096, 8192 <unfinished ...>', 8192),
        ("pwritev(7<1.log>, [...], 3, 8192) = 4096", 8192),
        ("pwritev2(7<1.log>, [...], 3, 8192, 0) = 4096", 8192),
        ("pwritev2(7<1.log>, [...], 3, 8192, RWF_DSYNC|RWF_HIPRI) = 4096", 8192),
        ("pwritev2(7<1.log>, [...], 3, 8192, 0 <unfinished ...>", 8192),
        ('write(7<1.log>, ""..., 4096) = 4096', -1),
    ],
)
def test_where_a_write_begins(written: str, position: int) -> None:
    """The last argument of a pwritev2 are its flags."""
    assert {call.position for call in calls([f"10 12:00:00.1 {written}"])} == {position}
