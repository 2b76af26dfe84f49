"""Offsets in transactions, and what may begin one in a partition."""

from tests.mutants.mutant import Mutant

OFFSETS = "tests/unit/gateway/groups/test_transactional_offsets.py::"
VERIFICATION = "tests/unit/gateway/produce/test_verification.py::"
WAITS = "tests/unit/gateway/produce/test_verification_waits.py::"
STATE = "tests/unit/gateway/log/idempotence/test_state_transactions.py::"

MUTANTS = (
    Mutant(
        "pending-offset-over-a-later-one",
        "A group goes back to what it had read before.",
        "gateway/groups/pending_offsets.py",
        "            if is_commit and place > self._latest.get(key, 0):\n",
        "            if is_commit:\n",
        (f"{OFFSETS}test_a_plain_commit_that_came_later_stays",),
    ),
    Mutant(
        "repeated-marker-ends-the-next-transaction",
        "Offsets count whose records were never committed.",
        "gateway/journal/group_commit.py",
        "self.effect.settled(error is None and not self.write.repeats)",
        "self.effect.settled(error is None)",
        (f"{OFFSETS}test_a_marker_that_comes_again_ends_nothing_of_the_next_transaction",),
    ),
    Mutant(
        "marker-while-groups-are-loaded",
        "A group's partition is unstable for ever.",
        "gateway/groups/transactional.py",
        "        if not self._is_loaded(partition):\n",
        "        if partition < 0:\n",
        (f"{OFFSETS}test_while_the_groups_are_not_loaded_no_marker_is_taken",),
    ),
    Mutant(
        "offsets-without-a-guard",
        "A late commit begins a transaction that nobody ends.",
        "gateway/log/idempotence/producers.py",
        "        return self.is_open(producer_id, epoch) or self.guards.holds(producer_id, guard)\n",
        "        return True\n",
        (f"{OFFSETS}test_a_commit_whose_transaction_has_ended_meanwhile_is_refused",),
    ),
    Mutant(
        "deleted-offset-comes-back",
        "After a start a deleted offset is committed by the end of a transaction.",
        "gateway/journal/replay.py",
        "                        one.pop(key, None)\n",
        "                        pass\n",
        (f"{OFFSETS}test_a_log_that_is_read_back_shows_what_was_shown",),
    ),
    Mutant(
        "pending-metadata-not-counted",
        "A client fills the memory with what it never commits.",
        "gateway/groups/offsets.py",
        "        return sum(map(_bytes_of, offsets.values()))\n",
        "        return OFFSET_BYTES * len(offsets)\n",
        (f"{OFFSETS}test_memory_is_counted_with_the_metadata_and_given_back",),
    ),
    Mutant(
        "batch-without-a-guard",
        "A late batch begins a transaction that nobody ends.",
        "gateway/produce/verification.py",
        "        if not producers.guards.holds(header.producer_id, asked.guard):\n",
        "        if asked is None:\n",
        (f"{WAITS}test_what_happens_each_time_is_sent_again",),
    ),
    Mutant(
        "guard-taken-after-the-last-answer",
        "A late batch begins a transaction that nobody ends.",
        "gateway/produce/verification.py",
        "            self._take_again(asked)\n            await self._ask_for(asked, verifier)\n",
        "            await self._ask_for(asked, verifier)\n            self._take_again(asked)\n",
        (f"{WAITS}test_what_happens_each_time_is_sent_again",),
    ),
    Mutant(
        "refused-for-what-was-waited-for",
        "Each transaction that follows another at once is slow.",
        "gateway/produce/verification.py",
        "            self._take_again(asked)\n            await",
        "            await",
        (f"{WAITS}test_the_marker_that_was_waited_for_refuses_nothing",),
    ),
    Mutant(
        "overtakes-what-was-not-verified",
        "A producer's records are out of order, or it cannot go on.",
        "gateway/produce/verification.py",
        "            partition.producers.refused(header, self._client, for_good=for_good)\n",
        "",
        (f"{VERIFICATION}test_no_later_batch_overtakes_one_that_was_refused",),
    ),
    Mutant(
        "opened-in-the-name-of-another",
        "One client leaves no place for others' transactions.",
        "gateway/log/idempotence/state.py",
        "        producer.first_offset, producer.opened_by = first_offset, client\n",
        "        client = producer.client\n"
        "        producer.first_offset, producer.opened_by = first_offset, client\n",
        (f"{STATE}test_who_opens_a_transaction_has_it_whoever_its_producer_was_first",),
    ),
)
