"""What consumer groups have written, and read back."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "commits-answered-before-they-are-durable",
        "A committed offset is gone after a crash, and records are read again.",
        "gateway/groups/group_commit.py",
        """                completion = Completion(self._broker.completions, math.inf)
                append.wait_with(completion)
                completion.when_over(partial(self._arrived, place, append))
                return
""".replace("_broker", "_cluster"),
        "                pass\n",
        (
            "tests/unit/gateway/groups/test_journal.py::test_a_commit_is_answered_and_shown_once_it_is_durable",
        ),
    ),
    Mutant(
        "lost-partition-not-loaded-again",
        "After a partition's recovery groups show commits that its log may not have.",
        "gateway/groups/group_commit.py",
        "            self._lost(place.partition.index)\n",
        "",
        ("tests/unit/gateway/groups/test_journal.py::test_a_partition_that_fails_has_to_be_loaded_again",),
    ),
)
