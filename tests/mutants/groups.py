"""What consumer groups have written, and read back."""

from tests.mutants.mutant import Mutant

JOURNAL = "tests/unit/gateway/groups/test_journal.py::"
LOADING = "tests/unit/gateway/groups/test_loading.py::"

MUTANTS = (
    Mutant(
        "commits-answered-before-they-are-durable",
        "A committed offset is gone after a crash, and records are read again.",
        "gateway/journal/group_commit.py",
        "                completion.when_over(partial(self._arrived, place, waiting, refused))\n"
        "                return\n",
        "                pass\n",
        (f"{JOURNAL}test_a_commit_is_answered_and_shown_once_it_is_durable",),
    ),
    Mutant(
        "lost-partition-not-loaded-again",
        "After a partition's recovery groups show commits that its log may not have.",
        "gateway/journal/group_commit.py",
        "            self._lost(place.partition.index)\n",
        "",
        (f"{JOURNAL}test_a_partition_that_fails_has_to_be_loaded_again",),
    ),
    Mutant(
        "failed-commits-shown",
        "An offset is shown that a restart does not find.",
        "gateway/groups/journal.py",
        "        if durable:\n            self._table",
        "        if durable or self._offsets:\n            self._table",
        (f"{JOURNAL}test_a_partition_that_fails_has_to_be_loaded_again",),
    ),
    Mutant(
        "loaded-while-writes-are-on-their-way",
        "A commit that was acknowledged takes effect in a table that nobody looks at.",
        "gateway/groups/journal.py",
        "        await self.group_commit.settle(place)\n",
        "",
        (f"{JOURNAL}test_what_is_on_its_way_is_loaded",),
    ),
    Mutant(
        "group-deleted-first",
        "A crash in a deletion leaves offsets of a group that is gone.",
        "gateway/groups/journal.py",
        """    for key in offsets:
        yield _offset_record(group_id, key, None)
    yield group_key(group_id), None
""",
        "    yield group_key(group_id), None\n",
        (f"{JOURNAL}test_a_group_and_its_end",),
    ),
    Mutant(
        "first-commit-counts",
        "After a start each group is where it began.",
        "gateway/journal/replay.py",
        "                latest[key] = offset, value\n                if value",
        "                latest.setdefault(key, (offset, value))\n                if value",
        (f"{LOADING}test_the_last_record_of_each_key_counts",),
    ),
    Mutant(
        "compacted-front-read-again",
        "A range that begins within a batch brings back what lies before it.",
        "gateway/journal/replay.py",
        "            if offset >= first_offset:\n",
        "            if offset >= 0:\n",
        (f"{LOADING}test_records_below_the_log_start_do_not_count",),
    ),
    Mutant(
        "older-format-wins",
        "An offset in an older format, which a tool has written, counts over a newer one.",
        "gateway/journal/replay.py",
        "                    latest.pop(key, None)  # what",
        "                    pass  # what",
        (f"{LOADING}test_what_an_older_kafka_wrote_is_followed_by_what_a_newer_one_did",),
    ),
)
