"""The table of scenarios that all clients share. README.md says what a client's program does in each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECURED, REAUTHENTICATING = "secured", "reauthenticating"
"""Servers that ask who comes (`Scenario.server`); the second one again every few seconds."""
# A scenario that hangs is ended then. None takes as long on a quiet machine.
LIMIT_SECONDS = 120.0
# What goes on for a while writes so much as it does in that time: where the server is away, it takes longer.
KILLED_FACTOR = 3.0


@dataclass(frozen=True)
class Scenario:
    """One row of the table.

    `quick` ones are run by `make compat QUICK=1` as well. `seconds` is the time limit; one that goes on for a
    while by itself goes on for `lasts_seconds`, and has that time besides. `alone`: with one gateway; its
    client's FINDINGS.md says why. `server` names another server than the one of most scenarios.
    """

    name: str
    shows: str
    quick: bool = True
    seconds: float = LIMIT_SECONDS
    lasts_seconds: float = 0.0
    alone: bool = False
    server: str = ""

    @property
    def limit_seconds(self) -> float:
        """What still runs then is ended."""
        return self.seconds + KILLED_FACTOR * self.lasts_seconds


def _secured(name: str, shows: str, *, quick: bool = True, server: str = SECURED) -> Scenario:
    """One of security. Whoever lets clients in is one gateway."""
    return Scenario(name, f"security: {shows}", quick, alone=True, server=server)


SCENARIOS = (
    *(Scenario(f"codec-{codec}", f"produce and consume, {codec}") for codec in CODECS),
    Scenario("headers", "headers: several, repeated, empty, of any bytes"),
    Scenario("empty-values", "null and empty keys and values"),
    Scenario("batches", "thousands of records in batches"),
    Scenario("single-records", "single records, each awaited"),
    Scenario("large-messages", "a message of 1,000,000 bytes; a larger one is refused"),
    Scenario("idempotence", "an idempotent producer"),
    Scenario("seek", "seek to an offset, the beginning, the end"),
    Scenario("timestamps", "times of records, and offsets by time"),
    Scenario("commits", "offsets committed, and gone on from"),
    Scenario("group-join-leave", "group: a member joins and leaves"),
    Scenario("group-killed", "group: a member is killed", quick=False),
    Scenario("admin-topics", "admin: create, list, describe, delete topics"),
    Scenario("admin-configs", "admin: describe and alter configs"),
    Scenario("admin-partitions", "admin: more partitions"),
    Scenario("delete-records", "admin: delete records"),
    Scenario("reconnect", "goes on after SIGKILL of the server"),
    Scenario("transactions", "transactions committed, aborted and open, by both isolation levels"),
    Scenario("transactions-fencing", "a second producer of a transactional id fences the first"),
    Scenario("transactions-offsets", "consume, transform, produce: offsets in transactions"),
    Scenario("transactions-timeout", "a transaction that is open for too long is aborted"),
    _secured("tls", "SSL; a certificate that is not trusted"),
    _secured("sasl-plain", "PLAIN, with and without TLS; a wrong password", quick=False),
    _secured("sasl-scram-sha-256", "SCRAM-SHA-256, likewise", quick=False),
    _secured("sasl-scram-sha-512", "SCRAM-SHA-512, likewise"),
    _secured("sasl-oauthbearer", "OAUTHBEARER, likewise; a token that nobody knows", quick=False),
    _secured("certificate-exchanged", "the server's certificate is exchanged while records flow"),
    _secured("password-changed", "the user's password is changed while records flow", quick=False),
    _secured(
        "reauthentication", "who is connected is asked again and again", quick=False, server=REAUTHENTICATING
    ),
)


def chosen(
    names: list[str],
    *,
    quick: bool,
    lasting: bool = False,
    several: bool = False,
    seconds: float | None = None,
    among: Iterable[Scenario] = SCENARIOS,
) -> tuple[Scenario, ...]:
    """Those `among` them that have these names; without names all, or the quick ones, or those that last.

    `several` gateways: without what is for one. `seconds`: how long what lasts goes on, instead of its own
    time.
    """
    found = [
        one
        for one in among
        if (one.name in names if names else (one.quick or not quick) and (one.lasts_seconds or not lasting))
        and not (several and one.alone)
    ]
    if seconds is None:
        return tuple(found)
    return tuple(replace(one, lasts_seconds=seconds) if one.lasts_seconds else one for one in found)
