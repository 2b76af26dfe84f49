"""A catalog that several processes share: who serves, what memory has of it, what is settled."""

from tests.mutants.mutant import Mutant

ALIVE = "tests/unit/gateway/cluster/test_alive.py::"
FENCES = "tests/unit/gateway/log/test_fences.py::"
FOLLOWING = "tests/unit/gateway/cluster/test_following.py::"
RECOVERY = "tests/unit/gateway/log/recovery/test_recovery.py::"
COMPACTOR = "tests/unit/gateway/log/compaction/test_compactor.py::"

SUSPENDED = "test_who_cannot_renew_its_lease_is_suspended_where_somebody_may_follow"

MUTANTS = (
    Mutant(
        "alive-key-not-compared",
        "A gateway whose place another one has taken changes the catalog all the same.",
        "gateway/cluster/alive.py",
        "        self._catalog.hold(Compare(self._key, revision))\n",
        "",
        (f"{ALIVE}test_a_standby_takes_the_place[it is killed]",),
    ),
    Mutant(
        "everybody-is-the-last-life",
        "A second gateway takes the place of one that lives.",
        "gateway/cluster/alive.py",
        "self._life_in(there) == self._last_life",
        "self._life_in(there) != self._life",
        (f"{ALIVE}test_a_directory_of_an_older_life_than_the_one_that_serves_waits",),
    ),
    Mutant(
        "old-lease-silences-who-is-alone",
        "Where the catalog is away the only gateway answers nobody, and nobody can take its place.",
        "gateway/cluster/alive.py",
        "self._has_place and self._is_old and self._is_followed",
        "self._has_place and self._is_old",
        (f"{ALIVE}test_who_cannot_renew_its_lease_is_suspended_where_somebody_may_follow[nobody]",),
    ),
    Mutant(
        "old-lease-is-as-good-as-new",
        "A gateway that may have been replaced shows what is old for as long as it likes.",
        "gateway/cluster/alive.py",
        "self._has_place and self._is_old and self._is_followed",
        "False",
        (f"{ALIVE}test_who_cannot_renew_its_lease_is_suspended_where_somebody_may_follow[a standby]",),
    ),
    Mutant(
        "who-is-down-never-comes-back",
        "A gateway that has lost the catalog answers for what another one leads that was started meanwhile.",
        "gateway/cluster/alive.py",
        "any(entry.key != own for entry in catalog.range(keys.GATEWAYS, limit=2))",
        "False",
        (f"{ALIVE}{SUSPENDED}[another one that is down]",),
    ),
    Mutant(
        "a-topic-made-again-is-the-same",
        "What was deleted elsewhere goes on under its successor's name.",
        "gateway/cluster/following.py",
        'keys.unpack(entry.value)["id"] != topic.id.hex()',
        "False",
        (f"{FOLLOWING}test_one_that_is_made_again_before_anybody_looks_is_another_one",),
    ),
    Mutant(
        "others-topics-are-new-here",
        "A topic that another gateway made is served without asking the stores what is in it.",
        "gateway/cluster/following.py",
        "await self._begin(topic.partitions, new=topic is made)",
        "await self._begin(topic.partitions, new=True)",
        (f"{FOLLOWING}test_a_topic_is_there_on_both_and_new_on_one",),
    ),
    Mutant(
        "what-is-done-is-not-told",
        "Of several transactions one fails, and the segments of the others are opened for nobody.",
        "gateway/log/fences.py",
        "raise PartlyDone(failed[0].key, done)",
        "raise PartlyDone(failed[0].key, [])",
        (f"{FENCES}test_of_several_transactions_one_may_fail_and_it_is_told_what_is_done",),
    ),
    Mutant(
        "deleted-meanwhile-refutes",
        "A store deletes what it was told to, and a healthy partition serves nothing.",
        "gateway/log/recovery/verification.py",
        "return now.newest == address",
        "return True",
        (f"{RECOVERY}test_what_is_deleted_while_a_recovery_asks_about_it_refutes_nothing",),
    ),
    Mutant(
        "what-was-deleted-is-forgotten-at-once",
        "A store's late answer names what it has deleted since, and a healthy partition serves nothing.",
        "gateway/log/other_lives.py",
        "if address in context.deleted:",
        "if address in ():",
        ("tests/unit/gateway/log/test_opener.py::test_what_a_store_named_and_has_deleted_by_now_does_not",),
    ),
    Mutant(
        "a-segment-becomes-any-number",
        "A compaction's swap is larger than the catalog takes, after all the work.",
        "gateway/log/compaction/output.py",
        " and len(self.outputs) < MAX_OUTPUTS",
        "",
        (f"{COMPACTOR}test_where_too_many_segments_would_come_of_one_the_last_one_is_larger",),
    ),
)
