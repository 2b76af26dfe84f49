"""What a partition's log counts, shows, recovers, compacts and drops."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "w-is-half",
        "Of four stores two acknowledge, and two others decide without them.",
        "gateway/log/context.py",
        "len(members) // 2 + 1)",
        "(len(members) + 1) // 2)",
        (
            "tests/unit/gateway/log/test_context.py::test_a_batch_counts_on_a_majority_or_as_many_as_the_topic_asks_for",
            "tests/sim/test_cluster.py::test_the_promises_hold_with_several_stores[2]",
        ),
    ),
    Mutant(
        "min-insync-replicas-ignored",
        "A batch counts on fewer stores than the topic asks for.",
        "gateway/log/context.py",
        "max(partition.topic.settings.min_insync_replicas, len",
        "max(1, len",
        (
            "tests/unit/gateway/log/test_context.py::test_a_batch_counts_on_a_majority_or_as_many_as_the_topic_asks_for",
        ),
    ),
    Mutant(
        "rows-beyond-the-first-answer-dropped",
        "After a start a retry of what is far back in a long segment is stored twice.",
        "gateway/log/recovery/producers_at_end.py",
        "    if applied <= last:\n",
        "    if applied <= last and not applied:\n",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",
        ),
    ),
    Mutant(
        "rows-beyond-the-first-round-dropped",
        "The same, where the first answer had no rows.",
        "gateway/log/recovery/producers_at_end.py",
        "range(applied, last + 1, ROWS_AT_ONCE)",
        "range(applied, min(last + 1, applied + ROWS_AT_ONCE), ROWS_AT_ONCE)",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",
        ),
    ),
    Mutant(
        "last-row-not-read",
        "The last batch of a segment is not recognised as a duplicate after a start.",
        "gateway/log/recovery/producers_at_end.py",
        "min(last, first + ROWS_AT_ONCE - 1)",
        "min(last - 1, first + ROWS_AT_ONCE - 1)",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_the_producers_of_every_batch_are_known_however_many_answers_its_rows_take",
        ),
    ),
    Mutant(
        "epoch-not-used-up",
        "Two lives write under one epoch; a store cannot tell an older catalog.",
        "gateway/log/opener.py",
        '{"next_epoch": partition.leader_epoch + 1,',
        '{"next_epoch": partition.leader_epoch,',
        (
            "tests/unit/gateway/log/test_opener.py::test_when_too_few_can_take_it_the_catalog_is_not_the_one_that_the_stores_know",
        ),
    ),
    Mutant(
        "end-heard-by-one",
        "Too few members know the end when the next segment begins: an older catalog is believed.",
        "gateway/log/closer.py",
        "len(closing.heard) >= closing.w:",
        "len(closing.heard) >= 1:",
        (
            "tests/unit/gateway/log/test_closer.py::test_it_is_told_until_all_have_confirmed_and_heard_when_enough_have_answered",
        ),
    ),
    Mutant(
        "restart-forgets-closes",
        "What members were still to be told, and to copy, is forgotten by a restart.",
        "gateway/cluster/cluster.py",
        "        self.context.closer.load()\n",
        "",
        (
            "tests/unit/gateway/cluster/test_deletion.py::test_a_start_deletes_nothing_before_it_knows_whose_ends_are_to_be_heard",
        ),
    ),
    Mutant(
        "verification-off",
        "A catalog that is older than its stores is believed: what it does not know is lost.",
        "gateway/log/recovery/verification.py",
        "            if why is not None:\n                raise CatalogRefuted",
        "            if why is not None and not store:\n                raise CatalogRefuted",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_a_catalog_from_before_the_last_life_is_refuted",
        ),
    ),
    Mutant(
        "closed-segment-believed-open",
        "A catalog from before a roll is believed, where epoch and life are the same.",
        "gateway/log/recovery/verification.py",
        "verified.phase >= Phase.CLOSED and address in unended",
        "verified.phase > Phase.CLOSED and address in unended",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_a_catalog_from_before_a_roll_of_the_same_life_is_refuted",
        ),
    ),
    Mutant(
        "epoch-of-another-life-believed",
        "Two catalogs have used one epoch, and the older one goes on.",
        "gateway/log/recovery/verification.py",
        "        if lives and verified.life not in lives:\n",
        "        if lives and not verified.life:\n",
        (
            "tests/unit/gateway/log/recovery/test_recovery.py::test_an_epoch_that_two_catalogs_have_used_is_refuted",
        ),
    ),
    Mutant(
        "duplicate-needs-no-count",
        "A batch that is part of an earlier one is answered as stored, and its other records are nowhere.",
        "gateway/log/idempotence/producer.py",
        "if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:",
        "if batch.first_sequence == first_sequence:",
        ("tests/unit/gateway/log/idempotence/test_state.py::test_what_kafka_answers",),
    ),
    Mutant(
        "four-batches-kept",
        "The oldest of five batches in flight is refused when it comes again.",
        "gateway/log/idempotence/producer.py",
        "BATCHES_KEPT: Final = 5\n",
        "BATCHES_KEPT: Final = 4\n",
        ("tests/unit/gateway/log/idempotence/test_state.py::test_what_kafka_answers",),
    ),
    Mutant(
        "newest-producer-forgotten",
        "With many producers the one that is busy loses its protection against duplicates.",
        "gateway/log/idempotence/state.py",
        "                self._producers.popitem(last=False)\n",
        "                self._producers.popitem()\n",
        (
            "tests/unit/gateway/log/idempotence/test_state.py::test_beyond_the_bound_the_producer_idle_for_longest_is_forgotten",
        ),
    ),
    Mutant(
        "used-producer-stays-oldest",
        "The same: who writes most, and has for longest, is forgotten first.",
        "gateway/log/idempotence/state.py",
        "        self._producers.move_to_end(producer_id)\n",
        "",
        (
            "tests/unit/gateway/log/idempotence/test_state.py::test_beyond_the_bound_the_producer_idle_for_longest_is_forgotten",
        ),
    ),
    Mutant(
        "snapshot-forgets-the-living",
        "With each new segment the producers that are busy are forgotten, and their retries stored twice.",
        "gateway/log/idempotence/state.py",
        "if producer.used_ms <= oldest]",
        "if producer.used_ms >= oldest]",
        ("tests/unit/gateway/log/idempotence/test_state.py::test_a_refused_batch_changes_nothing",),
    ),
    Mutant(
        "rows-applied-twice",
        "Rows that a snapshot covers push its batches out: a retry is refused after a start.",
        "gateway/log/idempotence/state.py",
        "row.last_offset <= producer.batches[-1].last_offset",
        "row.last_offset < producer.batches[-1].last_offset",
        (
            "tests/unit/gateway/log/idempotence/test_snapshot.py::test_snapshot_and_rows_give_the_state_that_was",
        ),
    ),
    Mutant(
        "log-start-not-in-the-catalog",
        "What DeleteRecords took is back after a restart, or its segments are deleted under readers.",
        "gateway/log/log_start.py",
        """record |= {"log_start": max(start, record["log_start"]), "epochs": epochs.to_list()}""",
        """record |= {"epochs": epochs.to_list()}""",
        (
            "tests/unit/gateway/log/test_log_start.py::test_whole_segments_below_it_go_and_one_that_it_lies_in_stays",
        ),
    ),
    Mutant(
        "segment-with-the-log-start-dropped",
        "DeleteRecords takes records above the offset that it names.",
        "gateway/log/log_start.py",
        "end > start or self",
        "segment.start_offset >= start or self",
        (
            "tests/unit/gateway/log/test_log_start.py::test_whole_segments_below_it_go_and_one_that_it_lies_in_stays",
        ),
    ),
    Mutant(
        "log-start-not-compared",
        "A segment that opens meanwhile loses its epoch in the catalog, or the log start goes back.",
        "gateway/log/log_start.py",
        "        compares.append(Compare(key, entry.mod_revision))\n        puts[key] = keys.pack(record)\n",
        "        puts[key] = keys.pack(record)\n",
        (
            "tests/unit/gateway/log/test_log_start.py::test_a_move_and_an_opening_segment_that_meet_in_the_catalog_lose_nothing",
        ),
    ),
    Mutant(
        "producers-of-an-emptied-log-not-kept",
        "When retention has dropped all of a log a late retry is stored again.",
        "gateway/log/log_start.py",
        "        if dropped and len(dropped) == len(partition.chain.closed):\n",
        "        if dropped and not partition.chain.closed:\n",
        (
            "tests/unit/gateway/log/test_log_start.py::test_a_late_retry_is_known_though_all_records_have_expired",
        ),
    ),
    Mutant(
        "retention-takes-one-more",
        "A log has less than retention.bytes after a look.",
        "gateway/log/retention_rules.py",
        "count < len(segments) and too_much - segments[count].size >= 0:",
        "count < len(segments):",
        ("tests/unit/gateway/log/test_retention_rules.py::test_how_many_segments_go",),
    ),
    Mutant(
        "retention-passes-over-a-young-segment",
        "Records go that are younger than retention.ms, because later ones have older timestamps.",
        "gateway/log/retention_rules.py",
        "now_ms - segments[count].largest_timestamp > retention_ms",
        "now_ms - segments[-1].largest_timestamp > retention_ms",
        ("tests/unit/gateway/log/test_retention_rules.py::test_how_many_segments_go",),
    ),
    Mutant(
        "tombstones-for-ever-gone",
        "A tombstone goes before delete.retention.ms: a consumer never learns that the key was deleted.",
        "gateway/log/compaction/reading.py",
        "keep_tombstones = horizon is None or now_ms < horizon",
        "keep_tombstones = horizon is None",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_a_log_that_does_not_fit_memory_takes_several_passes",
        ),
    ),
    Mutant(
        "unreadable-batches-go",
        "Compaction deletes what it cannot read.",
        "gateway/log/compaction/reading.py",
        "            left.append((header, batch))\n            continue\n",
        "            continue\n",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_a_batch_that_does_not_parse_stays_as_it_is",
        ),
    ),
    Mutant(
        "end-of-a-compacted-log-goes",
        "The last batch goes, and its offsets are given again.",
        "gateway/log/compaction/reading.py",
        "        if kept is None and header.last_offset >= last_offset:\n",
        "        if kept is None and header.last_offset > last_offset:\n",
        ("tests/unit/gateway/log/compaction/test_compactor.py::test_a_long_chain_is_swapped_in_parts",),
    ),
    Mutant(
        "newest-record-goes",
        "Compaction keeps no record of a key whose newest one it has seen.",
        "gateway/log/compaction/rules.py",
        "        return offset >= self._offsets.get(_digest(key), -1) and",
        "        return offset > self._offsets.get(_digest(key), -1) and",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_the_newest_of_each_key_stays_where_it_was",
        ),
    ),
    Mutant(
        "swapped-before-it-is-durable",
        "The old segments go while the new ones are in memory.",
        "gateway/log/compaction/run.py",
        "            await writer.finish()\n",
        "",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_the_newest_of_each_key_stays_where_it_was",
        ),
    ),
    Mutant(
        "sources-deleted-before-ends-are-heard",
        "A catalog that is lost now cannot be read back: neither old nor new segments can.",
        "gateway/cluster/deletion.py",
        "        return any(map(self._context.closer.is_waited_for, after))",
        "        return False",
        (
            "tests/unit/gateway/cluster/test_deletion.py::test_a_start_deletes_nothing_before_it_knows_whose_ends_are_to_be_heard",
        ),
    ),
    Mutant(
        "outputs-not-noted",
        "What a killed compaction wrote stays on the disks for ever, and a rebuild takes it for the log.",
        "gateway/log/compaction/output.py",
        "        await self._note(segment)\n",
        "",
        ("tests/unit/gateway/log/compaction/test_compactor.py::test_killed_at_any_point_nothing_is_lost",),
    ),
    Mutant(
        "old-notes-delete",
        "A restored catalog deletes what compactions wrote since: acknowledged records are gone for good.",
        "gateway/log/compaction/left_over.py",
        "            if answer.phase >= Phase.CLOSED:\n",
        "            if answer.phase > Phase.DELETED:\n",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_a_catalog_from_before_the_swap_deletes_nothing_that_was_written",
        ),
    ),
    Mutant(
        "notes-judged-by-one",
        "The same, where the store that knows better is away.",
        "gateway/log/compaction/left_over.py",
        "        return len(known) >= one.needed\n",
        "        return True\n",
        (
            "tests/unit/gateway/log/compaction/test_compactor.py::test_what_was_left_over_waits_for_members_that_say_so",
        ),
    ),
)
