"""What is open, what is stable, what was aborted, and who is told of it."""

from tests.mutants.mutant import Mutant

ABORTED = "tests/unit/gateway/log/transactions/test_aborted.py::"
ABORTED_BOUNDS = "tests/unit/gateway/log/transactions/test_aborted_bounds.py::"
ACCEPT_LOSS = "tests/in_process/test_accept_loss.py::"
ABORTED_CACHE = "tests/unit/gateway/log/transactions/test_aborted_cache.py::"
ABORTED_READING = "tests/unit/gateway/log/transactions/test_aborted_reading.py::"
ABORTED_REPLAY = "tests/unit/gateway/log/transactions/test_aborted_replay.py::"
CHAIN = "tests/unit/gateway/log/test_chain.py::"
COMPACTION = "tests/unit/gateway/log/compaction/test_transactions.py::"
DESCRIBE_PRODUCERS = "tests/unit/gateway/api/test_describe_producers.py::"
ENDED = "tests/unit/gateway/log/idempotence/test_ended.py::"
FETCH_BYTES = "tests/unit/wireproto/kafka/test_fetch.py::"
ISOLATION = "tests/unit/gateway/fetch/test_isolation.py::"
LIST_OFFSETS = "tests/unit/gateway/api/test_list_offsets.py::"
MARKER = "tests/unit/gateway/log/test_append_marker.py::"
MARKERS = "tests/unit/gateway/log/idempotence/test_markers.py::"
OPEN = "tests/unit/gateway/log/transactions/test_open_transactions.py::"
SNAPSHOT = "tests/unit/gateway/log/idempotence/test_snapshot_transactions.py::"
STABLE = "tests/unit/gateway/log/test_last_stable_offset.py::"
STATE = "tests/unit/gateway/log/idempotence/test_state_transactions.py::"

MEET = f"{ABORTED_READING}test_readers_are_told_of_every_aborted_transaction_that_they_meet"
NOT_DECIDED = f"{LIST_OFFSETS}test_what_is_not_decided_is_not_there_for_who_reads_what_is_committed"

OPEN_ONES = (
    Mutant(
        "stable-before-the-marker-is-durable",
        "Records are shown as committed whose transaction is open again after a crash.",
        "gateway/log/transactions/open_transactions.py",
        "ended[0][0] < high_watermark:",
        "ended[0][0] <= high_watermark:",
        (
            f"{OPEN}test_what_is_decided[a marker that is not durable decides nothing]",
            f"{STABLE}test_it_stays_before_an_open_transaction_until_its_marker_is_durable[True]",
        ),
    ),
    Mutant(
        "open-ones-read-in-the-order-of-use",
        "After a start the last stable offset lies in the middle of an open transaction.",
        "gateway/log/transactions/open_transactions.py",
        "OrderedDict.fromkeys(sorted(first_offsets))",
        "OrderedDict.fromkeys(first_offsets)",
        (f"{OPEN}test_those_that_were_open_are_read_in_any_order",),
    ),
    Mutant(
        "stable-below-the-log-start",
        "A consumer that reads from the log's start is told that nothing is there, for ever.",
        "gateway/log/partition.py",
        "max(self.last_stable_offset, stable, self.log_start_offset)",
        "max(self.last_stable_offset, stable)",
        (
            f"{STABLE}test_a_log_start_that_moves_into_an_open_transaction_takes_it_along",
            f"{STABLE}test_a_log_that_was_emptied_keeps_its_open_transaction",
        ),
    ),
    Mutant(
        "stable-above-an-accepted-loss",
        "Offsets that are given anew are shown before they are decided.",
        "gateway/log/partition.py",
        "        self.last_stable_offset = min(self.last_stable_offset, end)\n",
        "",
        (f"{STABLE}test_where_a_loss_was_accepted_it_ends_with_the_log",),
    ),
    Mutant(
        "stable-from-the-start",
        "Until the producers are read a consumer is told that nothing is committed, and begins at 0.",
        "gateway/log/partition.py",
        '        self.last_stable_offset = UNDECIDED\n        """',
        '        self.last_stable_offset = 0\n        """',
        (f"{STABLE}test_until_the_producers_are_known_nothing_is_stable",),
    ),
    Mutant(
        "stable-beyond-an-accepted-loss",
        "Records are shown as committed whose transaction another leader has open.",
        "gateway/log/partition.py",
        "        self.last_stable_offset = UNDECIDED\n        # What was about",
        "        # What was about",
        (f"{STABLE}test_of_a_partition_that_another_gateway_leads_nothing_is_told",),
    ),
    Mutant(
        "everything-counts-as-committed",
        "read_committed shows what is open.",
        "gateway/log/partition.py",
        "        return self.last_stable_offset if committed else self.high_watermark\n",
        "        return self.high_watermark\n",
        (
            f"{STABLE}test_who_reads_what_is_committed_is_shown_what_lies_below",
            f"{ISOLATION}test_each_isolation_is_given_its_records_and_its_list[0-aborted0-hot-12]",
        ),
    ),
)

PRODUCERS = (
    Mutant(
        "batch-outside-of-the-open-transaction",
        "A record is shown or dropped with a transaction that it is none of.",
        "gateway/log/idempotence/sequences.py",
        "if duplicate is None and known.has_open and not is_transactional:",
        "if duplicate is None and known.has_open and known.epoch != epoch and not is_transactional:",
        (f"{STATE}test_what_is_answered[a batch outside of the open transaction]",),
    ),
    Mutant(
        "duplicate-outside-of-the-open-transaction",
        "A producer is ended for good by a repetition of what is there already.",
        "gateway/log/idempotence/sequences.py",
        "if duplicate is None and known.has_open and not is_transactional:",
        "if known.has_open and not is_transactional:",
        (f"{STATE}test_what_is_answered[one that is there already, outside or not]",),
    ),
    Mutant(
        "marker-leaves-old-batches",
        "A late batch of the epoch before is answered as if it had been appended in this one.",
        "gateway/log/idempotence/producer.py",
        """            self.epoch = epoch
            self.batches.clear()
        self.coordinator_epoch""",
        """            self.epoch = epoch
        self.coordinator_epoch""",
        (f"{STATE}test_what_is_answered[the marker's epoch begins at 0]",),
    ),
    Mutant(
        "marker-takes-the-epoch-back",
        "A producer that was fenced may write again.",
        "gateway/log/idempotence/state.py",
        "producer.end(max(epoch, producer.epoch), ",
        "producer.end(epoch, ",
        (f"{STATE}test_what_is_answered[a marker of an older epoch leaves the later one]",),
    ),
    Mutant(
        "marker-not-the-last-offset",
        "A row is applied once more behind a snapshot, and ends the producer's next transaction.",
        "gateway/log/idempotence/producer.py",
        "        self.used_ms, self.last_offset, self.timestamp = now_ms, offset, timestamp\n",
        "        self.used_ms, self.timestamp = now_ms, timestamp\n",
        (
            f"{STATE}test_rows_of_markers_and_transactional_batches",
            f"{SNAPSHOT}test_the_bytes_of_version_2",
        ),
    ),
    Mutant(
        "open-one-expires",
        "A transaction that lasts for a day is never ended: nothing behind it is shown any more.",
        "gateway/log/idempotence/state.py",
        "    return producer.used_ms > oldest or producer.has_open\n",
        "    return producer.used_ms > oldest\n",
        (f"{STATE}test_who_has_an_open_transaction_does_not_expire",),
    ),
    Mutant(
        "open-one-makes-room",
        "A producer is forgotten in the middle of its transaction.",
        "gateway/log/idempotence/state.py",
        "while self._producers[longest_idle := next(iter(self._producers))].has_open:",
        "while self._producers[longest_idle := next(iter(self._producers))] is None:",
        (f"{STATE}test_who_has_an_open_transaction_is_never_forgotten_for_others",),
    ),
    Mutant(
        "open-one-read-away",
        "After a start on a full partition somebody's transaction is forgotten.",
        "gateway/log/idempotence/state.py",
        "for key, one in state._producers.items() if not one.has_open and not keeps(key, one)),",
        "for key, one in state._producers.items() if not keeps(key, one)),",
        (f"{SNAPSHOT}test_open_ones_are_read_though_more_than_are_kept_and_though_they_are_old",),
    ),
    Mutant(
        "share-of-transactions-not-given-back",
        "A client that has had so many transactions may begin none any more.",
        "gateway/log/idempotence/state.py",
        "        self._open_of.charge(producer.opened_by, -1)\n",
        "",
        (f"{STATE}test_a_client_begins_no_more_than_its_share_of_a_partitions_transactions",),
    ),
    Mutant(
        "no-share-of-transactions",
        "One client's open transactions leave no place to others.",
        "gateway/log/idempotence/state.py",
        "        if not self._open_of.has_room(client, 1):\n",
        "        if self._open_of.used > self._max_producers:\n",
        (f"{STATE}test_a_client_begins_no_more_than_its_share_of_a_partitions_transactions",),
    ),
    Mutant(
        "version-1-of-a-marker-alone",
        "A producer's first sequence after a marker may be any, after a start.",
        "gateway/log/idempotence/snapshot.py",
        "        or not producer.batches\n",
        "",
        (f"{SNAPSHOT}test_a_marker_that_left_no_batch_is_version_2",),
    ),
    Mutant(
        "two-transactions-begin-at-one-offset",
        "A damaged snapshot ends the gateway.",
        "gateway/log/idempotence/snapshot.py",
        "    if len(set(begun)) != len(begun):\n",
        "    if len(set(begun)) > len(begun):\n",
        (f"{SNAPSHOT}test_damaged_bytes_are_refused[two open transactions with one first offset]",),
    ),
    Mutant(
        "open-transactions-not-described",
        "kafka-transactions.sh finds no hanging one.",
        "gateway/api/describe_producers.py",
        "            current_txn_start_offset=producer.first_offset,\n",
        "            current_txn_start_offset=-1,\n",
        (f"{DESCRIBE_PRODUCERS}test_producers_with_transactions",),
    ),
)

MARKERS_TAKEN = (
    Mutant(
        "late-marker-of-a-newer-client",
        "A late marker of the transaction before ends the next one.",
        "gateway/log/idempotence/markers.py",
        "    is_again = marker.producer_epoch == known.epoch and not known.has_open\n",
        "    is_again = marker.producer_epoch == known.epoch\n",
        (f"{MARKERS}test_the_producers_epoch[case2-1-versions1-True]",),
    ),
    Mutant(
        "marker-that-comes-again-refused",
        "A marker that was answered too late is refused for good, and its transaction hangs.",
        "gateway/log/idempotence/markers.py",
        "    return not is_again and marker.producer_epoch != LAST_EPOCH\n",
        "    return marker.producer_epoch != LAST_EPOCH\n",
        (f"{MARKERS}test_the_producers_epoch[case3-1-versions1-True]",),
    ),
    Mutant(
        "last-epoch-refused",
        "A producer whose epochs are used up hangs.",
        "gateway/log/idempotence/markers.py",
        "    return not is_again and marker.producer_epoch != LAST_EPOCH\n",
        "    return not is_again\n",
        (f"{MARKERS}test_the_producers_epoch[case9-1-versions1-True]",),
    ),
    Mutant(
        "newer-protocol-from-3",
        "What a client of version 2 ends is judged as of an old one.",
        "gateway/log/idempotence/markers.py",
        "marker.transaction_version < BUMPS_EPOCH_FROM:",
        "marker.transaction_version <= BUMPS_EPOCH_FROM:",
        (f"{MARKERS}test_the_producers_epoch[case2-1-versions1-True]",),
    ),
    Mutant(
        "same-coordinator-fenced",
        "A coordinator can end one transaction of each producer.",
        "gateway/log/idempotence/markers.py",
        "if marker.coordinator_epoch < known.coordinator_epoch:",
        "if marker.coordinator_epoch <= known.coordinator_epoch:",
        (f"{MARKERS}test_the_coordinators_epoch",),
    ),
    Mutant(
        "late-number-appended",
        "A marker that lay in front of the log ends the next transaction.",
        "gateway/log/idempotence/ended.py",
        "return last.offset if is_now <= came else None",
        "return last.offset if is_now == came else None",
        (
            f"{ENDED}test_a_marker_repeats_what_came_or_does_not[3-4-90]",
            f"{ENDED}test_a_late_one_is_no_error_though_its_epoch_is_old",
        ),
    ),
    Mutant(
        "numbers-known-to-the-next-leader",
        "After a recovery that has lost a marker it is taken for done: its transaction never ends.",
        "gateway/log/idempotence/producers.py",
        "        self._ended.cut(end)\n",
        "",
        (
            f"{ENDED}test_a_recovered_partition_takes_each_again",
            f"{MARKER}test_a_recovered_partition_knows_no_numbers",
        ),
    ),
    Mutant(
        "numbers-known-for-ever",
        "Markers of producers that are gone fill the memory.",
        "gateway/log/idempotence/ended.py",
        "            first[0].forget(first[1])\n",
        "            return\n",
        (f"{ENDED}test_it_is_remembered_for_a_minute",),
    ),
    Mutant(
        "marker-of-an-earlier-leader",
        "A marker that was on its way since before a recovery ends the next transaction.",
        "gateway/log/partition.py",
        "        if self.is_leaving or self.check_leader_epoch(leader_epoch) is not ErrorCode.NONE:\n",
        "        if self.is_leaving:\n",
        (f"{MARKER}test_what_was_sent_to_another_leader_is_refused",),
    ),
    Mutant(
        "marker-at-a-leader-that-leaves",
        "What is to be durable before a partition moves grows on.",
        "gateway/log/partition.py",
        "        if self.is_leaving or self.check_leader_epoch(leader_epoch) is not ErrorCode.NONE:\n",
        "        if self.check_leader_epoch(leader_epoch) is not ErrorCode.NONE:\n",
        (f"{MARKER}test_what_may_pass_is_refused_so_that_it_comes_again",),
    ),
    Mutant(
        "marker-with-too-few-stores",
        "A transaction counts as ended on fewer stores than the topic asks for.",
        "gateway/log/admission.py",
        "if too_few := self._why_too_few(ACKS_ALL):",
        "if too_few := self._why_too_few(1):",
        (f"{MARKER}test_fewer_stores_than_min_insync_replicas_refuse_it",),
    ),
    Mutant(
        "marker-without-room",
        "Markers fill the window beyond its bound.",
        "gateway/log/admission.py",
        "        if not self._pending.has_room(size):\n            raise KafkaError",
        "        if not self._pending:\n            raise KafkaError",
        (f"{MARKER}test_what_may_pass_is_refused_so_that_it_comes_again",),
    ),
    Mutant(
        "marker-awaited-from-its-producer",
        "A producer is refused for minutes, as what it is to send again was its coordinator's.",
        "gateway/log/idempotence/producers.py",
        """        if header.is_control:
            return  # its coordinator sends it again
""",
        "",
        (f"{MARKER}test_an_undecided_marker_is_not_awaited_from_its_producer[marker]",),
    ),
    Mutant(
        "transaction-without-room",
        "A producer begins a transaction that nobody remembers.",
        "gateway/log/admission.py",
        "if header.is_transactional and (full := ",
        "if header.is_control and (full := ",
        (f"{MARKER}test_a_transactional_batch_without_room_is_refused_and_awaited",),
    ),
)

ABORTED_ONES = (
    Mutant(
        "aborted-list-without-the-marker-itself",
        "Who reads from an abort marker on takes the next transaction for aborted.",
        "gateway/log/transactions/aborted.py",
        "bisect_left(self._lasts, offset)",
        "bisect_left(self._lasts, offset + 1)",
        (f"{ABORTED}test_who_reads_a_range_is_told_of_these[from the marker]",),
    ),
    Mutant(
        "aborted-list-one-too-far",
        "Who reads up to a transaction's first record is told that it is aborted.",
        "gateway/log/transactions/aborted.py",
        "if self._firsts[place] < end:",
        "if self._firsts[place] <= end:",
        (f"{ABORTED}test_who_reads_a_range_is_told_of_these[before all]",),
    ),
    Mutant(
        "aborted-search-ends-too-early",
        "What was aborted in a later segment is shown.",
        "gateway/log/transactions/aborted.py",
        "if self._later_begin[place] >= end:",
        "if self._lasts[place] >= end:",
        (
            f"{ABORTED}test_every_range_of_any_log_is_told_as_by_a_plain_filter",
            f"{MEET}[an old open one behind which many end-]",
        ),
    ),
    Mutant(
        "older-open-one-forgotten-at-an-abort",
        "What is open when another one ends counts as none: what was aborted of it is shown.",
        "gateway/log/idempotence/state.py",
        "offset + 1 if later_begin is None else later_begin",
        "offset + 1",
        (
            f"{STATE}test_which_are_open_and_from_where",
            f"{MEET}[an old open one behind which many end-]",
        ),
    ),
    Mutant(
        "older-open-one-forgotten-when-read-back",
        "The same, of a segment whose list has left memory.",
        "gateway/log/transactions/aborted_replay.py",
        "row.last_offset + 1 if first_open is None else first_open",
        "row.last_offset + 1",
        (f"{ABORTED_REPLAY}test_any_rows_give_what_the_producers_state_gives",),
    ),
    Mutant(
        "aborted-list-not-sorted",
        "Clients that rely on its order show what was aborted.",
        "gateway/log/transactions/aborted_reading.py",
        "        found.sort(key=itemgetter(1))\n",
        "",
        (f"{ISOLATION}test_the_list_is_that_of_what_is_given[hot]",),
    ),
    Mutant(
        "next-segment-not-asked",
        "What was aborted in the next segment is shown.",
        "gateway/log/transactions/aborted_reading.py",
        "if segment.start_offset >= end and segment.ends_nothing_below >= end:",
        "if segment.start_offset >= end:",
        (f"{MEET}[an abort in the next segment-]",),
    ),
    Mutant(
        "left-open-segment-has-none",
        "While a partition is recovered what was aborted is shown.",
        "gateway/log/transactions/aborted_reading.py",
        """            elif segment.is_open:
                yield segment, None  # an earlier life left it open: nobody knows yet what ended in it
""",
        "",
        (
            f"{ABORTED_READING}test_what_ended_in_a_segment_that_was_left_open_is_not_known_until_it_is_recovered",
        ),
    ),
    Mutant(
        "segments-read-that-have-none",
        "Each read of an old place has the segments behind it read, too.",
        "gateway/log/transactions/aborted_reading.py",
        "    return segment.lowest_aborted == UNKNOWN or segment.lowest_aborted < end\n",
        "    return segment.lowest_aborted <= end or bool(segment)\n",
        (f"{ABORTED_READING}test_only_segments_are_read_that_may_have_some[6-7-0]",),
    ),
    Mutant(
        "segment-before-the-offset-asked",
        "Each read at the log's end reads the last closed segment's rows.",
        "gateway/log/chain.py",
        "        if first and not _ends_at_or_below(self._closed[first - 1], offset):\n",
        "        if first:\n",
        (
            f"{CHAIN}test_the_segments_from_an_offset_on[9-RO]",
            f"{ISOLATION}test_without_its_list_no_record_is_given",
        ),
    ),
    Mutant(
        "first-unstable-not-put",
        "What began before a segment and was aborted behind it is shown.",
        "gateway/log/opener.py",
        "            first_unstable=partition.producers.first_open(),\n",
        "",
        (
            f"{ABORTED_READING}test_a_closed_segment_has_its_counts_in_the_catalog",
            f"{MEET}[one over three segments-]",
        ),
    ),
    Mutant(
        "first-unstable-not-announced",
        "The same, once a catalog was rebuilt.",
        "gateway/log/announcement.py",
        """        details["first_unstable"] = segment.first_unstable\n""",
        "        pass\n",
        (f"{ABORTED_READING}test_a_rebuilt_catalog_lists_them_all",),
    ),
    Mutant(
        "counts-not-packed",
        "After a start no segment has aborted transactions.",
        "gateway/log/segment.py",
        """                **({"aborted": [self.aborted, self.lowest_aborted]} if self.aborted else {}),\n""",
        "",
        (
            f"{ABORTED_READING}test_a_segments_counts_are_packed[3-0-0]",
            f"{MEET}[one, in its segment-at the end]",
        ),
    ),
    Mutant(
        "recovered-segment-counted-for-ever",
        "Each look at a log puts the same number into the catalog again.",
        "gateway/log/transactions/aborted_reading.py",
        """        if segment.is_compacted:
            return 0, UNKNOWN  # of none are records left
        if segment.aborted == UNKNOWN:
""",
        "        if segment.aborted == UNKNOWN and not segment.is_compacted:\n",
        (f"{COMPACTION}test_of_a_compacted_segment_that_was_read_back_the_count_is_noted_once",),
    ),
    Mutant(
        "aborted-not-with-its-segment",
        "Aborted records are shown until the next start.",
        "gateway/log/partition.py",
        "            self._context.aborted.cache.add(current.aborted, aborted, "
        "partial(self._context.opener.end, self))\n",
        "            pass\n",
        (f"{MARKER}test_what_it_has_aborted_is_with_its_segment",),
    ),
    Mutant(
        "segment-grows-with-what-is-aborted",
        "A client fills the memory with aborted transactions.",
        "gateway/log/partition.py",
        "                or self._context.aborted.cache.is_full(current.aborted)\n",
        "",
        (f"{MARKER}test_a_segment_ends_that_has_very_many_aborted_transactions",),
    ),
    Mutant(
        "oldest-in-memory-stays",
        "What is asked for all the time is read from stores again and again.",
        "gateway/log/transactions/aborted_cache.py",
        "            self._closed.move_to_end(address)\n",
        "            pass\n",
        (f"{ABORTED_CACHE}test_beyond_the_bound_the_one_that_was_asked_for_longest_ago_goes",),
    ),
    Mutant(
        "open-segments-counted-for-ever",
        "After a while segments end with each aborted transaction.",
        "gateway/log/partition.py",
        "            self._context.aborted.cache.no_longer_open(opened.aborted)\n",
        "            pass\n",
        (f"{MARKER}test_what_it_has_aborted_is_with_its_segment",),
    ),
    Mutant(
        "partitions-keep-what-is-aborted",
        "A client fills the memory with a few aborted transactions in each of very many partitions.",
        "gateway/log/transactions/aborted_cache.py",
        "            self._open[of_segment]()\n",
        "            pass\n",
        (f"{ABORTED_BOUNDS}test_the_segments_end_that_have_most_where_all_together_have_too_many",),
    ),
    Mutant(
        "deleted-segments-counted-for-ever",
        "The same, once enough topics were deleted.",
        "gateway/log/partition.py",
        "        self.fail(DELETED)\n        self._count_no_longer()\n",
        "        self.fail(DELETED)\n",
        (f"{ABORTED_BOUNDS}test_what_is_deleted_counts_no_more",),
    ),
    Mutant(
        "session-goes-on-with-the-isolation-it-began-with",
        "What is idle under one level stays silent under the other.",
        "gateway/fetch/sessions.py",
        "        if body.isolation_level != session.isolation or basis is not session.basis:\n",
        "        if basis is not session.basis:\n",
        (f"{ISOLATION}test_a_session_that_asks_for_another_isolation_is_given_what_that_shows",),
    ),
    Mutant(
        "open-transactions-given-up",
        "What was open when stores were given up is shown as if it had been committed.",
        "gateway/log/recovery/one_partition.py",
        "            return await self._left_open(limit)\n",
        "            return ProducerState()\n",
        (
            (
                f"{ACCEPT_LOSS}test_transactions_of_which_it_is_not_known_how_they_ended_are_not_shown_as"
                "_committed[a b +b-p-0-producer 97 from offset 0]"
            ),
        ),
    ),
)

READERS = (
    Mutant(
        "list-for-who-reads-everything",
        "read_uncommitted does not show what was aborted.",
        "gateway/fetch/fetched_partition.py",
        "            self.aborted if committed else None,\n",
        "            self.aborted,\n",
        (f"{ISOLATION}test_without_transactions_the_list_is_empty_or_null[0-12]",),
    ),
    Mutant(
        "null-for-who-reads-what-is-committed",
        "librdkafka fails where nothing was aborted.",
        "wireproto/kafka/fetch.py",
        "        listed = _NO_LIST[flexible] if aborted is None else _EMPTY_LIST[flexible]\n",
        "        listed = _NO_LIST[flexible]\n",
        (
            f"{FETCH_BYTES}test_the_list_of_aborted_transactions[empty-12]",
            f"{ISOLATION}test_without_transactions_the_list_is_empty_or_null[1-4]",
        ),
    ),
    Mutant(
        "open-ones-from-stores",
        "read_committed shows what is open, where it is not in memory.",
        "gateway/log/cold.py",
        "for batch in contents if read_header(batch).last_offset < stable]",
        "for batch in contents]",
        (f"{ISOLATION}test_each_isolation_is_given_its_records_and_its_list[0-aborted0-cold-12]",),
    ),
    Mutant(
        "swapped-while-it-was-read",
        "What was aborted is shown to who reads while it is compacted.",
        "gateway/log/cold.py",
        """            else:
                if partition.chain.holds(segment.address):
                    return contents, aborted
""",
        """            else:
                return contents, aborted
""",
        (f"{COMPACTION}test_what_is_swapped_while_it_is_read_is_read_again_with_its_list",),
    ),
    Mutant(
        "open-ones-count-for-min-bytes",
        "Consumers ask in a loop for what is not committed yet.",
        "gateway/fetch/reading.py",
        "            wanted.ask.fetch_offset, wanted.limit, whole=wanted.whole, committed=self.committed\n",
        "            wanted.ask.fetch_offset, wanted.limit, whole=wanted.whole\n",
        (f"{ISOLATION}test_only_what_is_stable_counts_for_min_bytes",),
    ),
    Mutant(
        "session-forgets-what-is-open",
        "A consumer that reads everything hears of an open transaction only when something else comes.",
        "gateway/fetch/reading.py",
        "        return result.last_stable_offset if self.committed else result.high_watermark\n",
        "        return result.last_stable_offset\n",
        (f"{ISOLATION}test_a_session_that_reads_everything_is_given_what_is_open_in_its_turn",),
    ),
    Mutant(
        "session-busy-at-an-open-transaction",
        "A consumer that waits at an open transaction has its partition read with each Fetch.",
        "gateway/fetch/reading.py",
        "        return result.last_stable_offset if self.committed else result.high_watermark\n",
        "        return result.high_watermark\n",
        (f"{ISOLATION}test_a_session_at_an_open_transaction_costs_nothing",),
    ),
    Mutant(
        "time-of-an-open-transaction",
        "A consumer seeks to a record that it is not shown.",
        "gateway/api/list_offsets.py",
        "if found is None or found[0] >= lookup.partition.visible_end(lookup.committed):",
        "if found is None or found[0] >= lookup.partition.high_watermark:",
        (NOT_DECIDED,),
    ),
    Mutant(
        "end-of-what-is-committed",
        "A consumer waits for ever for the end that it was told.",
        "gateway/api/list_offsets.py",
        """attrgetter("last_stable_offset"))""",
        """attrgetter("high_watermark"))""",
        (f"{LIST_OFFSETS}test_both_isolations_are_answered_anew_when_a_transaction_ends",),
    ),
)

COMPACTED = (
    Mutant(
        "aborted-wins-a-key",
        "The newest committed record of a key is gone, for one that was aborted.",
        "gateway/log/compaction/reading.py",
        """            newest.upto = max(newest.upto, header.last_offset + 1)
            continue
""",
        """            newest.upto = max(newest.upto, header.last_offset + 1)
""",
        (
            f"{COMPACTION}test_what_is_left_of_one_key[the aborted one never wins]",
            f"{COMPACTION}test_what_is_aborted_goes_and_wins_no_key",
        ),
    ),
    Mutant(
        "aborted-stays",
        "What was aborted comes back: nobody knows that it was.",
        "gateway/log/compaction/reading.py",
        """            if is_last:
                empty = empty_batch(header)
""",
        """            if is_last or header.count:
                empty = batch
""",
        (f"{COMPACTION}test_what_is_aborted_goes_and_wins_no_key",),
    ),
    Mutant(
        "last-aborted-batch-gone",
        "A compacted log ends before its end.",
        "gateway/log/compaction/reading.py",
        """            if is_last:
                empty = empty_batch(header)
""",
        """            if is_last and not header.count:
                empty = empty_batch(header)
""",
        (f"{COMPACTION}test_what_is_left_of_one_key[the last one stays, empty]",),
    ),
    Mutant(
        "marker-goes-with-its-records",
        "A consumer that reads an aborted transaction never meets its end, and drops all that follows.",
        "gateway/log/compaction/transactions.py",
        "            self._has_records.discard(header.producer_id)\n            return False\n",
        "            self._has_records.discard(header.producer_id)\n",
        (f"{COMPACTION}test_a_marker_stays_until_its_time_is_over",),
    ),
    Mutant(
        "marker-stays-for-ever",
        "A log of one key grows with each transaction.",
        "gateway/log/compaction/reading.py",
        "    return batch if now_ms < horizon else None\n",
        "    return batch\n",
        (f"{COMPACTION}test_a_marker_of_nothing_gets_a_horizon_and_goes_when_that_is_over",),
    ),
    Mutant(
        "last-marker-gone",
        "A compacted log ends before its end.",
        "gateway/log/compaction/reading.py",
        """            if kept is None and is_last:
                kept = batch
            if kept""",
        "            if kept",
        (f"{COMPACTION}test_a_marker_of_nothing_gets_a_horizon_and_goes_when_that_is_over",),
    ),
    Mutant(
        "abort-lasts-beyond-its-marker",
        "The next transaction of a producer goes with the one that was aborted.",
        "gateway/log/compaction/transactions.py",
        "        self._being_aborted.discard(header.producer_id)\n",
        "",
        (f"{COMPACTION}test_what_a_walk_says_of_each_batch[the next one of a producer]",),
    ),
    Mutant(
        "walk-misses-the-first-batch",
        "An aborted transaction that begins within a batch stays.",
        "gateway/log/compaction/transactions.py",
        "self._aborted[0][1] <= header.last_offset:",
        "self._aborted[0][1] <= header.base_offset:",
        (f"{COMPACTION}test_an_aborted_transaction_may_begin_within_a_batch",),
    ),
    Mutant(
        "compacted-while-open",
        "A record that is aborted later has taken the place of a committed one.",
        "gateway/log/compaction/compactor.py",
        "if (segment.end_offset or 0) > partition.last_stable_offset:",
        "if (segment.end_offset or 0) > partition.high_watermark:",
        (f"{COMPACTION}test_an_open_transaction_stops_it[False]",),
    ),
)

MUTANTS = (*OPEN_ONES, *PRODUCERS, *MARKERS_TAKEN, *ABORTED_ONES, *READERS, *COMPACTED)
