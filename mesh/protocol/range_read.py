"""A reader's judgement of the answer to one directed FETCH."""

from collections.abc import Iterable

from wireproto.dafka.additions import STATUS_DONE, End
from wireproto.dafka.messages import DirectRecord


class RangeRefused(Exception):
    """The store could not answer, or its answer is not the range that was asked for; `status` as in END."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def judge(address: str, first: int, count: int, records: Iterable[DirectRecord], end: End) -> list[bytes]:
    """The contents of the records from `first` on, without gaps, as far as they came. Raises `RangeRefused`.

    A record lost on the link cuts the range there, and the rest is asked for again; foreign, doubled or
    unasked ones never count.
    """
    if end.last.status != STATUS_DONE:
        raise RangeRefused(end.last.status, f"store {end.store} cannot serve address {address}")
    contents: list[bytes] = []
    for record in records:
        if record.address == address and record.sequence == first + len(contents) and len(contents) < count:
            contents.append(bytes(record.content))
    if not contents and end.last.sequence >= first:
        raise RangeRefused(
            STATUS_DONE, f"the records of address {address} from store {end.store} were lost on the way"
        )
    return contents
