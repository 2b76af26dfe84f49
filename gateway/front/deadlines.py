"""How long the client of one connection may take: to ask for something, to send it, to read the answer.

On the way of a request only times are noted. The server looks at them once a second.
"""

from __future__ import annotations

import math

from gateway.front.limits import LEFT_SECONDS, LEFT_WHILE_MUTED_SECONDS, Limits
from gateway.front.output import Output


class Deadlines:
    """What the reader notes, with trio's clock; a time is infinite while there is none.

    * `input_waiting_since`: when it began to wait for bytes;
    * `frame_began`: when the first bytes of a frame came that is not here as a whole;
    * `partial`: bytes received that belong to no whole frame yet;
    * `served`: requests so far;
    * `unknown_since`: when it connected, until it is known who it is, where it has to say so, and until TLS
      has begun, where that is spoken;
    * `left_since`: when the client had closed its sending side. Looking moves it on while requests that it
      sent before are still taken;
    * `muted_until`: before then nothing is read, because of quotas.
    """

    __slots__ = (
        "_limits",
        "_muted_counts_until",
        "_served_when_left",
        "frame_began",
        "input_waiting_since",
        "left_since",
        "muted_until",
        "partial",
        "served",
        "unknown_since",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.input_waiting_since = math.inf
        self.frame_began = math.inf
        self.partial = 0
        self.served = 0
        self.unknown_since = math.inf
        self.left_since = math.inf
        self.muted_until = -math.inf
        self._muted_counts_until = math.inf
        self._served_when_left = 0

    def left(self, now: float) -> None:
        """The client has closed its sending side; it does so once."""
        self.left_since = now
        self._muted_counts_until = now + LEFT_WHILE_MUTED_SECONDS

    def gone(self, now: float) -> bool:
        """Whether the client has gone, and nothing that it sent before has begun for LEFT_SECONDS in which it
        could.
        """
        if self.served != self._served_when_left and self.left_since <= now:
            self._served_when_left = self.served
            self.left_since = now
        muted_until = min(self.muted_until, self._muted_counts_until)
        return now - max(self.left_since, muted_until) > LEFT_SECONDS

    def overdue(self, now: float, output: Output, *, owes_answers: bool) -> str | None:
        """Why the connection is to be closed at `now`: a sentence, or None.

        `owes_answers`: requests of the client are in flight, so it is not idle.
        """
        limits = self._limits
        rate, stall = limits.min_bytes_per_second, limits.stall_seconds
        if now - output.waiting_since > stall:
            return f"the client has read nothing for {stall:.0f} s"
        if output.draining and now - output.drain_began > stall + output.drained / rate:
            return f"the client reads less than {rate} bytes/s"
        if now - self.unknown_since > limits.first_request_seconds:
            return f"it was not known within {limits.first_request_seconds:.0f} s who the client is"
        waited = now - self.input_waiting_since
        if self.partial:
            if waited > stall:
                return f"a request stopped arriving for {stall:.0f} s"
            if waited >= 0 and now - self.frame_began > stall + self.partial / rate:
                return f"a request arrives with less than {rate} bytes/s"
        elif not owes_answers:
            allowed = limits.idle_seconds if self.served else limits.first_request_seconds
            if waited > allowed:
                return f"nothing was asked for {allowed:.0f} s"
        return None
