"""The command `dafka store accept-loss --gone`: partitions go on without stores that are lost for good.

All of it is asked of the gateway that runs (`accept_loss` answers there): the stores that are left decide
where the partitions end that wait for the lost ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dafka.operators.socket import OperatorRefused, ask


class LostStores:
    """Stores that are lost for good, as the gateway that runs on `data` sees it."""

    def __init__(self, data: Path, gone: Sequence[str]) -> None:
        self._data = data
        self._gone = list(gone)
        self._plan: dict[str, Any] = {}

    def given_up(self) -> Iterator[str]:
        """What is given up, a line for each segment. Nothing is changed.

        Raises OperatorRefused (there is nothing to give up, or it cannot be), NoGateway.
        """
        self._plan = ask(self._data, "loss.plan", gone=self._gone)
        losses = self._plan["losses"]
        away = sorted({name for loss in losses for name in loss["unanswered"]})
        if away:
            raise OperatorRefused(
                f"the stores {', '.join(away)} do not answer: start them, or name them with --gone too"
            )
        if not losses:
            raise OperatorRefused(
                "no partition waits for these stores, so there is nothing to give up: let other stores take "
                "their places (dafka store replace)"
            )
        yield f"Given up with {', '.join(self._gone)}:"
        for loss in losses:
            yield f"  {_loss_line(loss)}"
        for one in self._plan["unreadable"]:
            yield (
                f"  {one['topic']}-{one['partition']}, segment {one['segment']}: offsets {one['first']} to "
                f"{one['last']} cannot be read until one of these stores is back"
            )
        yield (
            "Should one of these stores come back, what it has after that is cut off there. Offsets that "
            "were given up are given again. Transactions that are open there and have lost a part are "
            "aborted, unless their end is decided already."
        )

    def give_up(self) -> Iterator[str]:
        """Give up what `given_up` said; what was done, and what to do next. Raises OperatorRefused."""
        done = ask(self._data, "loss.accept", gone=self._gone, token=self._plan["token"])
        for one in done["partitions"]:
            if one["serves"]:
                yield f"{one['partition']} serves again: its next offset is {one['end']}"
            else:
                yield f"{one['partition']} does not serve yet: {one['reason']}"
            if one["aborted"]:
                named = one["aborted"]
                yield f"{one['partition']}: aborted, since no coordinator knows how they ended: {named}"
            if one["open"]:
                yield (
                    f"{one['partition']}: still open transactions, for which readers of read_committed wait: "
                    f"{one['open']}. Their coordinators end them, and what none of these knows is aborted "
                    "once the partition takes markers, as long as this gateway runs. Abort what is still "
                    "open 15 minutes after that with "
                    "'dafka transactions abort TOPIC --partition N --start-offset OFFSET'"
                )
        yield (
            "Next: new segments count on the lost stores as long as nobody has taken their places, and "
            "acks=all may be refused. For each of them start an empty store, then 'dafka store admit NEW' "
            "and 'dafka store replace LOST NEW'"
        )


def _loss_line(loss: Mapping[str, Any]) -> str:
    head = f"{loss['topic']}-{loss['partition']}, segment {loss['segment']}: "
    first = loss["kept_to"] + 1
    shown = f"to {loss['shown_to']} at least" if loss["shown_to"] >= first else "on, as far as there were any"
    if loss["kept_to"] < loss["start"]:
        left = ", ".join(loss["left"])
        whom = f"{left} have nothing of it" if left else "no store that keeps it is left"
        return f"{head}all of it, offsets from {first} {shown}; {whom}"
    return f"{head}offsets from {first} {shown}; {', '.join(loss['left'])} have it up to {loss['kept_to']}"
