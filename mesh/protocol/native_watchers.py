"""Gateways that have a topic of a native subject: a store tells them of what comes.

A gateway may have no link to native producers: it hears of their records from stores. One that has asked for
the heads of a subject is told each new one for some seconds; it asks again before they are over.
"""

WATCH_SECONDS = 15.0
"""How long a gateway that has asked is told what comes: three times as long as it pauses between two
questions."""

MAX_WATCHERS_OF_SUBJECT = 64
"""Those of one subject: each new head is sent to all of them."""

MAX_WATCHERS = 1_024
"""Pairs of subject and gateway that one store tells; further ones ask, and are answered, as anybody."""


class NativeWatchers:
    """Of one store."""

    def __init__(self) -> None:
        self._until: dict[str, dict[str, float]] = {}
        """Subject -> requester -> when it is told no more."""
        self._count = 0

    def __bool__(self) -> bool:
        """Whether anybody may be told of anything."""
        return self._count > 0

    def asked(self, subject: str, requester: str, now: float) -> None:
        """A gateway asks for the heads of a subject."""
        if self._count >= MAX_WATCHERS or len(self._until.get(subject, ())) >= MAX_WATCHERS_OF_SUBJECT:
            self._forget_old(now)
        of_subject = self._until.get(subject, {})
        if requester not in of_subject:
            if self._count >= MAX_WATCHERS or len(of_subject) >= MAX_WATCHERS_OF_SUBJECT:
                return
            self._count += 1
        self._until.setdefault(subject, of_subject)[requester] = now + WATCH_SECONDS

    def of(self, subject: str, now: float) -> list[str]:
        """Who is told of this subject."""
        of_subject = self._until.get(subject)
        if of_subject is None:
            return []
        return [requester for requester, until in of_subject.items() if now < until]

    def _forget_old(self, now: float) -> None:
        for subject, of_subject in list(self._until.items()):
            for requester, until in list(of_subject.items()):
                if until <= now:
                    del of_subject[requester]
                    self._count -= 1
            if not of_subject:
                del self._until[subject]
