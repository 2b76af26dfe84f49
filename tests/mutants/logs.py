"""What a partition's log counts, shows and recovers, and what it knows of producers."""

from tests.mutants.mutant import Mutant

CLOSER = "tests/unit/gateway/log/test_closer.py::"
CONTEXT = "tests/unit/gateway/log/test_context.py::"
DELETION = "tests/unit/gateway/cluster/test_deletion.py::"
OPENER = "tests/unit/gateway/log/test_opener.py::"
PARTITION_APPENDS = "tests/unit/gateway/log/test_partition_appends.py::"
PRODUCERS = "tests/unit/gateway/log/compaction/test_producers.py::"
PRODUCER_IDS = "tests/unit/gateway/log/idempotence/test_producer_ids.py::"
RECOVERY = "tests/unit/gateway/log/recovery/test_recovery.py::"
SEVERAL_STORES = "tests/in_process/test_several_stores.py::"
SIM_CLEANING = "tests/sim/test_cleaning.py::"
SIM_CLUSTER = "tests/sim/test_cluster.py::"
SNAPSHOT = "tests/unit/gateway/log/idempotence/test_snapshot.py::"
STATE = "tests/unit/gateway/log/idempotence/test_state.py::"

MUTANTS = (
    Mutant(
        "w-is-half",
        "Of four stores two acknowledge, and two others decide without them.",
        "gateway/log/context.py",
        "len(members) // 2 + 1)",
        "(len(members) + 1) // 2)",
        (
            f"{CONTEXT}test_a_batch_counts_on_a_majority_or_as_many_as_the_topic_asks_for",
            f"{SIM_CLUSTER}test_the_promises_hold_with_several_stores[2]",
        ),
    ),
    Mutant(
        "min-insync-replicas-ignored",
        "A batch counts on fewer stores than the topic asks for.",
        "gateway/log/context.py",
        "max(partition.topic.settings.min_insync_replicas, len",
        "max(1, len",
        (f"{CONTEXT}test_a_batch_counts_on_a_majority_or_as_many_as_the_topic_asks_for",),
    ),
    Mutant(
        "rows-beyond-the-first-answer-dropped",
        "After a start a retry of what is far back in a long segment is stored twice.",
        "gateway/log/recovery/producers_at_end.py",
        "    if applied <= last:\n",
        "    if applied <= last and not applied:\n",
        (
            f"{RECOVERY}test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",
            f"{SIM_CLEANING}test_the_promises_hold_where_segments_have_more_rows_than_an_answer[5]",
        ),
    ),
    Mutant(
        "rows-beyond-the-first-round-dropped",
        "The same, where the first answer had no rows.",
        "gateway/log/recovery/producers_at_end.py",
        "range(applied, last + 1, ROWS_AT_ONCE)",
        "range(applied, min(last + 1, applied + ROWS_AT_ONCE), ROWS_AT_ONCE)",
        (f"{RECOVERY}test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",),
    ),
    Mutant(
        "last-row-not-read",
        "The last batch of a segment is not recognised as a duplicate after a start.",
        "gateway/log/recovery/producers_at_end.py",
        "min(last, first + ROWS_AT_ONCE - 1)",
        "min(last - 1, first + ROWS_AT_ONCE - 1)",
        (f"{RECOVERY}test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",),
    ),
    Mutant(
        "rows-of-before-the-snapshot-applied",
        "After a compaction a producer that was forgotten comes back in part, and pushes out another.",
        "gateway/log/recovery/producers_at_end.py",
        "    if segment.is_compacted:\n",
        "    if segment.is_compacted and not beginning.rows:\n",
        (f"{PRODUCERS}test_producers_of_old_batches_do_not_push_out_newer_ones",),
    ),
    Mutant(
        "epoch-not-used-up",
        "Two lives write under one epoch; a store cannot tell an older catalog.",
        "gateway/log/opener.py",
        '{"next_epoch": partition.leader_epoch + 1,',
        '{"next_epoch": partition.leader_epoch,',
        (f"{OPENER}test_when_too_few_can_take_it_the_catalog_is_not_the_one_that_the_stores_know",),
    ),
    Mutant(
        "segments-announced-without-producers",
        "After a start a retry of an earlier segment's batch is stored twice.",
        "gateway/log/opener.py",
        "OpenSegment(segment, writer, partition.producers.snapshot(now_ms))",
        'OpenSegment(segment, writer, b"")',
        (f"{RECOVERY}test_the_producers_of_earlier_segments_are_known_too",),
    ),
    Mutant(
        "next-segment-announced-before-the-end-is-heard",
        "A catalog from before the roll is believed, and offsets are given twice.",
        "gateway/log/opener.py",
        "        untold = {segment.address for segment in before}\n",
        "        self._announce(partition, opening)\n        untold = {one.address for one in before}\n",
        (f"{RECOVERY}test_no_record_of_the_next_segment_before_the_end_of_the_one_before_is_heard",),
    ),
    Mutant(
        "next-segment-opened-before-the-last-is-durable",
        "A crash leaves a chain with a hole.",
        "gateway/log/opener.py",
        """                partition.state is not PartitionState.READY
                or partition.high_watermark < opening.segment.start_offset
""",
        "                partition.state is not PartitionState.READY\n",
        (f"{OPENER}test_a_segment_is_not_opened_before_all_of_the_last_one_is_durable",),
    ),
    Mutant(
        "close-not-noted",
        "After a restart the members of a closed segment never hear its end, nor copy what they lack.",
        "gateway/log/opener.py",
        "        Closer.note(segment, partition.log, puts)\n",
        "",
        (f"{RECOVERY}test_an_end_that_nobody_has_heard_is_told_by_the_next_life",),
    ),
    Mutant(
        "recovered-close-not-noted",
        "The same, for an end that a recovery has decided.",
        "gateway/log/recovery/one_partition.py",
        "            Closer.note(segment, partition.log, puts)\n",
        "",
        (f"{RECOVERY}test_an_end_that_nobody_has_heard_is_told_by_the_next_life",),
    ),
    Mutant(
        "incomplete-member-confirmed",
        "A member that has not all of a closed segment counts as one that has.",
        "gateway/log/closer.py",
        "        if status.status == STATUS_DONE:\n            closing",
        "        if status.status in {STATUS_DONE, STATUS_INCOMPLETE}:\n            closing",
        (f"{CLOSER}test_a_member_that_lacks_something_is_told_again_when_it_has_copied_that",),
    ),
    Mutant(
        "end-heard-by-one",
        "Too few members know the end when the next segment begins: an older catalog is believed.",
        "gateway/log/closer.py",
        "len(closing.heard) >= closing.w:",
        "len(closing.heard) >= 1:",
        (f"{CLOSER}test_it_is_told_until_all_have_confirmed_and_heard_when_enough_have_answered",),
    ),
    Mutant(
        "restart-forgets-closes",
        "What members were still to be told, and to copy, is forgotten by a restart.",
        "gateway/cluster/cluster.py",
        "        self.context.closer.load()\n",
        "",
        (f"{DELETION}test_a_start_deletes_nothing_before_it_knows_whose_ends_are_to_be_heard",),
    ),
    Mutant(
        "verification-off",
        "A catalog that is older than its stores is believed: what it does not know is lost.",
        "gateway/log/recovery/verification.py",
        "            if why is not None:\n                raise CatalogRefuted",
        "            if why is not None and not store:\n                raise CatalogRefuted",
        (f"{RECOVERY}test_a_catalog_from_before_the_last_life_is_refuted",),
    ),
    Mutant(
        "closed-segment-believed-open",
        "A catalog from before a roll is believed, where epoch and life are the same.",
        "gateway/log/recovery/verification.py",
        "verified.phase >= Phase.CLOSED and address in known.unended",
        "verified.phase > Phase.CLOSED and address in known.unended",
        (f"{RECOVERY}test_a_catalog_from_before_a_roll_of_the_same_life_is_refuted",),
    ),
    Mutant(
        "epoch-of-another-life-believed",
        "Two catalogs have used one epoch, and the older one goes on.",
        "gateway/log/recovery/verification.py",
        "        if lives and verified.life not in lives:\n",
        "        if lives and not verified.life:\n",
        (f"{RECOVERY}test_an_epoch_that_two_catalogs_have_used_is_refuted",),
    ),
    Mutant(
        "n-w-stores-asked-about-the-catalog",
        "An older catalog is believed because the store that knows better was not waited for.",
        "gateway/log/recovery/one_partition.py",
        "members, len(members) - w + 1)",
        "members, max(1, len(members) - w))",
        (f"{RECOVERY}test_so_many_members_are_asked_that_any_w_meet_one_of_them",),
    ),
    Mutant(
        "noted-outputs-not-asked-about",
        "An older catalog with a note of a compaction that went well is believed.",
        "gateway/log/recovery/one_partition.py",
        "        unended += [output.address for output in noted_outputs(self._context, partition.log)]\n",
        "",
        (f"{RECOVERY}test_a_catalog_with_a_note_of_a_compaction_that_is_over_is_refuted",),
    ),
    Mutant(
        "shorter-than-shown",
        "After a recovery a log ends before what was shown, and serves.",
        "gateway/log/recovery/one_partition.py",
        "        if end < partition.high_watermark and not",
        "        if end < 0 and not",
        (f"{RECOVERY}test_a_log_that_ends_before_what_was_shown_serves_nothing",),
    ),
    Mutant(
        "confirmations-forgotten",
        "A wiped store is asked where a segment ends as if it had never had it: what it acknowledged goes.",
        "gateway/log/recovery/ends.py",
        "        return segment.confirmed\n",
        "        return ()\n",
        (f"{SEVERAL_STORES}test_a_store_that_lost_what_it_had_confirmed_does_not_count",),
    ),
    Mutant(
        "duplicate-needs-no-count",
        "A batch that is part of an earlier one is answered as stored, and its other records are nowhere.",
        "gateway/log/idempotence/producer.py",
        "if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:",
        "if batch.first_sequence == first_sequence:",
        (f"{STATE}test_what_kafka_answers",),
    ),
    Mutant(
        "four-batches-kept",
        "The oldest of five batches in flight is refused when it comes again.",
        "gateway/log/idempotence/producer.py",
        "BATCHES_KEPT: Final = 5\n",
        "BATCHES_KEPT: Final = 4\n",
        (f"{STATE}test_what_kafka_answers",),
    ),
    Mutant(
        "producer-ids-not-durable",
        "After a restart a producer is given another one's id, and its records count as duplicates.",
        "gateway/log/idempotence/producer_ids.py",
        "self._revision = await self._catalog.transact(compares, puts)",
        "await trio.lowlevel.checkpoint()",
        (f"{PRODUCER_IDS}test_ids_are_counted_up_and_a_start_skips_what_is_left_of_a_block",),
    ),
    Mutant(
        "newest-producer-forgotten",
        "With many producers the one that is busy loses its protection against duplicates.",
        "gateway/log/idempotence/state.py",
        "                self._producers.popitem(last=False)\n",
        "                self._producers.popitem()\n",
        (f"{STATE}test_beyond_the_bound_the_producer_idle_for_longest_is_forgotten",),
    ),
    Mutant(
        "used-producer-stays-oldest",
        "The same: who writes most, and has for longest, is forgotten first.",
        "gateway/log/idempotence/state.py",
        "        self._producers.move_to_end(producer_id)\n",
        "",
        (
            f"{STATE}test_beyond_the_bound_the_producer_idle_for_longest_is_forgotten",
            f"{SIM_CLEANING}test_the_promises_hold_where_more_producers_write_than_a_log_remembers[1]",
        ),
    ),
    Mutant(
        "snapshot-forgets-the-living",
        "With each new segment the producers that are busy are forgotten, and their retries stored twice.",
        "gateway/log/idempotence/state.py",
        "if producer.used_ms <= oldest]",
        "if producer.used_ms >= oldest]",
        (f"{STATE}test_a_refused_batch_changes_nothing",),
    ),
    Mutant(
        "rows-applied-twice",
        "Rows that a snapshot covers push its batches out: a retry is refused after a start.",
        "gateway/log/idempotence/state.py",
        "row.last_offset <= producer.batches[-1].last_offset",
        "row.last_offset < producer.batches[-1].last_offset",
        (f"{SNAPSHOT}test_snapshot_and_rows_give_the_state_that_was",),
    ),
    Mutant(
        "producers-over-the-cap-revived-whole",
        "A snapshot of more producers than are kept loses those that were heard last.",
        "gateway/log/idempotence/state.py",
        "            state._producers.popitem(last=False)\n",
        "            state._producers.popitem()\n",
        (f"{SNAPSHOT}test_of_more_producers_than_are_kept_those_heard_last_are_read",),
    ),
    Mutant(
        "later-batch-overtakes-a-refused-one",
        "The second batch of a new producer is taken for its first; the first is refused for ever.",
        "gateway/log/idempotence/producers.py",
        "        if duplicate is None and self._refused and",
        "        if duplicate is not None and self._refused and",
        (f"{PARTITION_APPENDS}test_a_first_batch_that_was_refused_is_not_overtaken",),
    ),
    Mutant(
        "duplicate-answered-early",
        "A retry is acknowledged before what it repeats is durable.",
        "gateway/log/partition.py",
        "        if duplicate.last_offset < self.high_watermark:\n",
        "        if duplicate.last_offset < self.next_offset:\n",
        (f"{PARTITION_APPENDS}test_a_duplicate_is_answered_when_its_original_is_durable",),
    ),
)
