"""Why another gateway has not answered. Each text says which one, and why; whoever asked may ask again."""

from __future__ import annotations


class PeerFailed(Exception):
    """There is no answer. What was asked may have been done, unless it is PeerGone, PeerLacks or PeerBusy
    that says so before anything was sent.
    """


class PeerGone(PeerFailed):
    """The gateway is not alive, or not any more."""


class PeerUnreachable(PeerFailed):
    """There is no connection to it, or the one that there was has ended."""


class PeerSilent(PeerFailed):
    """It has not answered in time."""


class PeerLacks(PeerFailed):
    """It is of a release that does not have what was asked."""


class PeerBusy(PeerFailed):
    """So much is asked of it already that nothing more is sent."""
