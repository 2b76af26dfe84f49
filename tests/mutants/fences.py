"""What tells older from as it was: chains, the catalog's lineage, stores' lives, delayed deletions."""

from tests.mutants.mutant import Mutant

CATALOG_MEMORY = "tests/unit/mesh/protocol/test_catalog_memory.py::"
CHAIN_CHECK = "tests/unit/gateway/log/recovery/test_chain_check.py::"
FENCED = "tests/unit/gateway/catalog/test_fenced.py::"
STORE_FENCES = "tests/unit/mesh/protocol/test_fences.py::"
FENCES = "tests/unit/gateway/log/test_fences.py::"
GRACE = "tests/unit/gateway/cluster/test_grace.py::"
LINEAGE = "tests/unit/gateway/cluster/test_lineage.py::"
MESH_SCRUB = "tests/mesh/test_scrub.py::"
OPENER = "tests/unit/gateway/log/test_opener.py::"
PRODUCER_IDS = "tests/unit/gateway/log/idempotence/test_producer_ids.py::"
RECOVERY = "tests/unit/gateway/log/recovery/test_recovery.py::"
REMEMBERING = "tests/unit/gateway/cluster/test_remembering.py::"
VOUCHING = "tests/unit/mesh/protocol/test_vouching.py::"

MUTANTS = (
    Mutant(
        "deposed-lifes-segment-stays-open",
        "A gateway on a copy of the catalog goes on writing beside its successor: offsets are given twice.",
        "mesh/protocol/segments.py",
        "            if other.phase is Phase.OPEN:\n                self._seal_now(other)\n",
        "            pass\n",
        (f"{STORE_FENCES}test_an_open_of_a_higher_epoch_seals_what_another_life_has_open_and_names_it",),
    ),
    Mutant(
        "own-lifes-segment-is-sealed-too",
        "A compaction's output, at a raised epoch, fails the log that its own gateway writes.",
        "mesh/protocol/unended.py",
        "if life_of(one) != life]:",
        "if one != segment.address]:",
        (f"{STORE_FENCES}test_the_same_lifes_is_never_sealed",),
    ),
    Mutant(
        "seal-of-an-older-round-taken",
        "A gateway that was taken for dead seals the segment that its successor writes.",
        "mesh/protocol/segments.py",
        "wanted.epoch <= state.announcement.epoch:",
        "wanted.epoch < state.announcement.epoch:",
        (f"{STORE_FENCES}test_a_seal_is_of_a_higher_epoch_than_the_address",),
    ),
    Mutant(
        "older-catalogs-delete-is-taken",
        "A catalog from before has records deleted that the newer one counts on.",
        "mesh/protocol/segments.py",
        "        if at.lineage == told.lineage and at.sequence < told.sequence:\n",
        "        if at.lineage == told.lineage and at.sequence < 0:\n",
        (f"{STORE_FENCES}test_a_delete_is_not_older_than_what_was_told_of_the_address",),
    ),
    Mutant(
        "other-catalogs-delete-is-taken",
        "A catalog that went on from a copy has records deleted that the other one counts on.",
        "mesh/protocol/segments.py",
        "        if remembered and at.lineage != remembered:\n",
        "        if False:\n",
        (f"{STORE_FENCES}test_a_delete_is_of_the_catalog_that_the_store_remembers",),
    ),
    Mutant(
        "unknown-segment-of-another-life-is-no-wonder",
        "A gateway with an older catalog, or a copy, gives offsets that the other one has given.",
        "gateway/log/opener.py",
        "            if unknown:\n",
        "            if False:\n",
        (f"{OPENER}test_what_the_catalog_does_not_know_of_another_life_withholds_the_log",),
    ),
    Mutant(
        "life-not-compared",
        "A gateway that slept writes into the catalog when another one has taken its place.",
        "gateway/catalog/fenced.py",
        "transact([*own, *compares], puts",
        "transact([*compares], puts",
        (
            f"{FENCED}test_the_next_life_ends_this_one",
            f"{FENCES}test_a_deposed_gateway_changes_nothing_any_more[deposed-open_segment]",
        ),
    ),
    Mutant(
        "compared-with-what-is-there",
        "A gateway gives offsets that another one has given since it has read the partition.",
        "gateway/log/fences.py",
        "[Compare(one.fence.key, one.fence.revision) for one in partitions]",
        "[self._as_read(one.fence.key) for one in partitions]",
        (
            f"{FENCES}test_a_partition_that_another_gateway_has_changed_is_read_anew_and_the_others_go_on",
            f"{FENCES}test_what_was_made_of_an_earlier_reading_says_nothing_of_a_later_one",
        ),
    ),
    Mutant(
        "older-reading-passes-for-the-newest",
        "A recovery goes on with what the catalog said before a transaction that was under way.",
        "gateway/log/fences.py",
        "            if fence.readings == reading:\n",
        "            if fence.readings >= reading:\n",
        (f"{FENCES}test_what_was_made_of_an_earlier_reading_says_nothing_of_a_later_one",),
    ),
    Mutant(
        "topic-not-compared",
        "Segments are put into the catalog for a topic that was deleted, and nobody ever deletes them.",
        "gateway/log/fences.py",
        "Compare(keys.topic_key(topic.name), topic.revision)",
        "self._as_read(keys.topic_key(topic.name))",
        (f"{FENCES}test_what_belongs_to_a_deleted_topic_drops_out[deleted]",),
    ),
    Mutant(
        "hole-in-a-chain-is-no-wonder",
        "A catalog that has lost a segment's row is served without its records.",
        "gateway/log/recovery/chain_check.py",
        "after.start_offset == before.end_offset or",
        "after.start_offset >= before.end_offset or",
        (f"{CHAIN_CHECK}test_what_a_lost_row_leaves",),
    ),
    Mutant(
        "lost-first-segment-is-no-wonder",
        "The same, for the oldest one.",
        "gateway/log/recovery/chain_check.py",
        "    if first.start_offset > log_start:\n",
        "    if first.start_offset < 0:\n",
        (f"{CHAIN_CHECK}test_what_a_lost_row_leaves",),
    ),
    Mutant(
        "lost-last-segment-is-no-wonder",
        "The same, for the newest one: its offsets are given again.",
        "gateway/log/recovery/chain_check.py",
        "    if max(end, log_start) < known_end:\n",
        "    if end < 0:\n",
        (f"{CHAIN_CHECK}test_what_a_lost_row_leaves",),
    ),
    Mutant(
        "epoch-that-is-not-used-up",
        "A partition's record that has gone back is believed, and an epoch is used twice.",
        "gateway/log/recovery/chain_check.py",
        """        if segment.epoch >= record["next_epoch"]:\n""",
        """        if segment.epoch < 0 <= record["next_epoch"]:\n""",
        (f"{CHAIN_CHECK}test_what_a_lost_row_leaves",),
    ),
    Mutant(
        "deleted-segment-is-in-the-log",
        "A catalog from before a deletion serves a log whose end is gone.",
        "gateway/log/recovery/verification.py",
        "verified.phase == Phase.DELETED and address == known.last_closed",
        "verified.phase == Phase.DELETED and address and not known.last_closed",
        (f"{RECOVERY}test_a_closed_segment_that_a_store_has_deleted_refutes_a_catalog_that_has_it",),
    ),
    Mutant(
        "unknown-segment-is-no-news",
        "A store has a segment that the catalog has lost, and its offsets are given again.",
        "gateway/log/recovery/verification.py",
        "    if is_news and not known.is_known(verified.newest):\n",
        "    if is_news and not known and not known.is_known(verified.newest):\n",
        (f"{RECOVERY}test_the_stores_tell_of_segments_that_are_lost_at_the_end_of_a_chain",),
    ),
    Mutant(
        "older-life-of-the-catalog-vouched-for",
        "A restored catalog goes on where a store remembers more: topics and producer ids are given twice.",
        "gateway/cluster/lineage.py",
        "        if memory.sequence > last:\n",
        "        if memory.sequence < 0:\n",
        (f"{LINEAGE}test_a_memory_lies_on_the_history_or_refutes_it",),
    ),
    Mutant(
        "unknown-life-of-the-catalog-vouched-for",
        "The same, where the gateway that wrote last is none that the catalog knows.",
        "gateway/cluster/lineage.py",
        """        return Judgement(Verdict.REFUTES, f"{where}, and the catalog knows no such life")""",
        """        return Judgement(Verdict.VOUCHES, f"{where}, and the catalog knows no such life")""",
        (f"{LINEAGE}test_a_memory_lies_on_the_history_or_refutes_it",),
    ),
    Mutant(
        "half-of-the-stores-remember",
        "An administrator is answered, and a start compares with stores that know nothing of it.",
        "gateway/cluster/remembering.py",
        "        return len(self._tasks) // 2 + 1\n",
        "        return (len(self._tasks) + 1) // 2\n",
        (f"{REMEMBERING}test_a_majority_keeps_what_was_answered",),
    ),
    Mutant(
        "compared-with-too-few",
        "A start does not wait for a store that any majority has in common.",
        "gateway/cluster/remembering.py",
        "        while len(self._known) < len(self._tasks) - self._majority + 1:\n",
        "        while len(self._known) < len(self._tasks) - self._majority:\n",
        (f"{REMEMBERING}test_nothing_is_compared_before_enough_stores_have_vouched",),
    ),
    Mutant(
        "ids-handed-out-before-they-are-remembered",
        "After a restored backup a producer is given another one's id.",
        "gateway/log/idempotence/producer_ids.py",
        "        if not await self._copies.keep(BLOCK_SECONDS):\n",
        "        if await self._copies.keep(BLOCK_SECONDS) is None:\n",
        (f"{PRODUCER_IDS}test_a_block_that_too_few_stores_remember_is_not_handed_out",),
    ),
    Mutant(
        "memory-goes-back",
        "A store that remembers the newest catalog takes an older one's word.",
        "mesh/protocol/catalog_memory.py",
        "        return keep.at.sequence > known.sequence\n",
        "        return keep.at != known\n",
        (f"{CATALOG_MEMORY}test_another_history_is_refused",),
    ),
    Mutant(
        "changes-with-a-gap-remembered",
        "What a store remembers of the catalog lacks some changes, and a rebuild has not what they said.",
        "mesh/protocol/catalog_memory.py",
        "            and known.sequence == keep.base\n",
        "            and known.sequence <= keep.base\n",
        (f"{CATALOG_MEMORY}test_changes_that_do_not_follow_change_nothing",),
    ),
    Mutant(
        "older-copy-of-a-store-counts",
        "A store that was restored from a copy acknowledges for what it has lost.",
        "mesh/protocol/vouching.py",
        "        if told.remembered_commit < known.commit:\n",
        "        if told.remembered_commit < -1:\n",
        (f"{VOUCHING}test_a_new_start_that_lacks_something_is_refused_and_that_is_said_once",),
    ),
    Mutant(
        "start-that-goes-back-counts",
        "The same, where the copy is of the very start that was seen last.",
        "mesh/protocol/vouching.py",
        "            if told.commit >= self._floor.get(told.store, 0):\n",
        "            if told.commit >= -1:\n",
        (f"{VOUCHING}test_the_same_start_that_is_behind_is_refused_for_good",),
    ),
    Mutant(
        "counted-before-it-is-remembered",
        "A copy from before a store's start passes as well once the gateway starts anew.",
        "mesh/protocol/vouching.py",
        "        self._keeping[store] = told.nonce\n",
        "        self.counts[store] = self._keeping[store] = told.nonce\n",
        (f"{VOUCHING}test_what_nothing_is_remembered_of_is_taken_as_it_is",),
    ),
    Mutant(
        "deleted-without-delay",
        "What a gateway deletes by mistake is gone before anybody can stop it.",
        "gateway/cluster/grace.py",
        "self._seen[0][0] + self._seconds <= now",
        "self._seen[0][0] <= now",
        (f"{GRACE}test_a_revision_is_old_when_it_was_noted_so_long_ago",),
    ),
    Mutant(
        "lacking-copy-not-made-again",
        "A store that lost a closed segment is noticed, and one disk less than counted has it.",
        "mesh/store/refill.py",
        "        if phase is not Phase.OPEN and not await _ask(requests, ids.COPY,",
        "        if phase is Phase.DELETED and not await _ask(requests, ids.COPY,",
        (f"{MESH_SCRUB}test_a_copy_that_is_gone_is_not_good_and_is_made_again",),
    ),
)
