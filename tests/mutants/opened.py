"""What producers send is looked through before it enters a log."""

from tests.mutants.mutant import Mutant

POISONED = "tests/in_process/test_poisoned_logs.py::"
READING = "tests/unit/gateway/log/compaction/test_reading.py::"
WALK = "tests/unit/wireproto/records/test_walk.py::"

MUTANTS = (
    Mutant(
        "nothing-opened",
        "A batch that nobody can read is in the log, and no consumer gets past it.",
        "gateway/produce/appending.py",
        "return not self._broker.settings.trust_batches or topic.internal",
        "return self._broker.settings.trust_batches or topic.internal",
        (f"{POISONED}test_what_nobody_could_read_is_refused_and_is_in_no_log",),
    ),
    Mutant(
        "offset-deltas-not-compared",
        "Records have offsets that others have.",
        "wireproto/records/walk.py",
        "            if places != list(range(place, place + len(some))):\n",
        "            if places[0] != place:\n",
        (f"{WALK}test_what_is_wrong_is_said",),
    ),
    Mutant(
        "written-longer-than-readers-read",
        "aiokafka's parser lets numbers pass that Java's and our reader refuse.",
        "wireproto/records/walk.py",
        "            if refused or size < window.size:\n",
        "            if refused:\n",
        (f"{WALK}test_numbers_written_longer_than_they_need_are_read_as_readers_do",),
    ),
    Mutant(
        "bytes-after-the-last-record",
        "What the header does not count is in the log.",
        "wireproto/records/walk.py",
        "        expect_end(self._body, self._position)\n",
        "",
        (f"{WALK}test_what_is_wrong_is_said",),
    ),
    Mutant(
        "names-of-each-batch",
        "A request of 13 MB has an answer of hundreds of megabytes.",
        "gateway/produce/appending.py",
        "] = opened\n        self._names_left -= len(opened.record_errors)\n",
        "] = opened\n",
        (f"{POISONED}test_an_answer_names_so_many_records_and_no_more",),
    ),
    Mutant(
        "groups-kept-away-by-a-batch",
        "One batch that cannot be read keeps all groups of its partition from being served.",
        "gateway/journal/replay.py",
        "            self.set_aside(header, error)\n            return\n",
        "            self.set_aside(header, error)\n            raise\n",
        (f"{POISONED}test_groups_are_there_beside_a_batch_that_cannot_be_read",),
    ),
    Mutant(
        "learnt-from-what-cannot-be-read",
        "Compaction drops a committed offset for a later one that nobody can read.",
        "gateway/log/compaction/reading.py",
        "keys = list(_keys(batch, first_dirty))",
        "newest.add(keys := _keys(batch, first_dirty))",
        (f"{READING}test_a_batch_that_cannot_be_read_takes_no_record_from_others",),
    ),
)
