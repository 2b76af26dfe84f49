"""What a store takes, seals, acknowledges and copies, and what a writer and a recovery count."""

from tests.mutants.mutant import Mutant

CATCH_UP = "tests/unit/mesh/protocol/test_catch_up.py::"
COPY = "tests/unit/mesh/protocol/test_copy.py::"
INGEST = "tests/unit/mesh/protocol/test_ingest.py::"
OPENING = "tests/unit/mesh/protocol/test_opening.py::"
RECOVERY = "tests/unit/mesh/protocol/test_recovery.py::"
SCRUBBING = "tests/unit/mesh/protocol/test_scrubbing.py::"
WRITER = "tests/unit/mesh/protocol/test_writer.py::"

MUTANTS = (
    Mutant(
        "close-does-not-note-the-lack",
        "The same, for a member that hears the end and has less.",
        "mesh/protocol/segments.py",
        "        self.queue.latest.unfinished[state.address] = state.accepted < end\n",
        "",
        (f"{COPY}test_what_a_start_must_look_at_is_noted_and_struck_out",),
    ),
    Mutant(
        "close-does-not-cut-the-disk",
        "What a recovery left out is back with the store's next start.",
        "mesh/protocol/segments.py",
        "            self.queue.latest.truncations.append(cut)\n",
        "",
        (f"{INGEST}test_close_cuts_what_lies_behind_the_end_and_says_what_is_missing",),
    ),
    Mutant(
        "older-epoch-opened",
        "A gateway that was taken for dead opens segments beside its successor: offsets are given twice.",
        "mesh/protocol/segments.py",
        "segment.epoch < self.addresses.highest_epoch(segment.log)[0] or self._is_of",
        "self._is_of",
        (f"{INGEST}test_which_announcements_are_taken",),
    ),
    Mutant(
        "same-epoch-of-another-life-opened",
        "Two catalogs write one log under the same epoch, and nobody notices.",
        "mesh/protocol/segments.py",
        "[0] or self._is_of_another_life(segment):",
        "[0]:",
        (f"{INGEST}test_which_announcements_are_taken",),
    ),
    Mutant(
        "sealed-segment-opened-again",
        "The old writer goes on after a recovery has decided the end.",
        "mesh/protocol/segments.py",
        "        if state.phase is not Phase.NATIVE:\n            return AddressStatus(segment",
        "        if state.phase > Phase.SEALED:\n            return AddressStatus(segment",
        (f"{INGEST}test_an_unknown_address_can_be_sealed_and_stays_so",),
    ),
    Mutant(
        "seal-not-on-the-disk",
        "A store that restarts after its SEAL takes records behind the end that was decided.",
        "mesh/protocol/segments.py",
        """        self.queue.latest.metas[state.address] = state.pack_meta()
        self.queue.latest.sealing = True
""",
        "        self.queue.latest.sealing = True\n",
        (f"{INGEST}test_a_meta_is_written_as_it_was_when_it_changed",),
    ),
    Mutant(
        "another-clusters-segment-opened",
        "A gateway with another cluster's catalog writes onto this cluster's disks.",
        "mesh/protocol/segments.py",
        """            return AddressStatus(segment.address, STATUS_FOREIGN_CLUSTER, -1)
        state = self.addresses.state(segment.address, segment.subject)
""",
        "            pass\n        state = self.addresses.state(segment.address, segment.subject)\n",
        (f"{INGEST}test_which_announcements_are_taken",),
    ),
    Mutant(
        "deleted-segment-copied-back",
        "A late COPY brings back what was deleted.",
        "mesh/protocol/segments.py",
        "            state.phase is Phase.DELETED\n            or (state",
        "            (state",
        (f"{COPY}test_a_copy_changes_nothing_of_what_was_deleted",),
    ),
    Mutant(
        "request-answered-before-earlier-records",
        "A seal tells a head before the records under it are durable.",
        "mesh/protocol/commit_queue.py",
        "        behind = self._taken + len(self.records)\n",
        "        behind = self._taken\n",
        (f"{INGEST}test_a_request_waits_for_every_record_that_came_before_it",),
    ),
    Mutant(
        "acknowledged-what-waits",
        "An acknowledgement covers records that wait for the next commit.",
        "mesh/protocol/ingest.py",
        "self.incarnation, state.subject, state.head, self._nonce)",
        "self.incarnation, state.subject, state.accepted, self._nonce)",
        (f"{INGEST}test_what_comes_while_a_commit_is_on_its_way_is_acknowledged_with_the_next",),
    ),
    Mutant(
        "unannounced-records-count",
        "A store that never had the announcement counts towards w, and a recovery does not ask it.",
        "mesh/protocol/ingest.py",
        "UNANNOUNCED + self.incarnation, state",
        "self.incarnation, state",
        (f"{INGEST}test_native_addresses_are_kept_without_rows_and_never_parsed_and_count_for_no_segment",),
    ),
    Mutant(
        "sealed-address-takes-records",
        "A sealed member's answer grows stale: what it takes from the old writer is cut off.",
        "mesh/protocol/ingest.py",
        "        if state.phase >= Phase.SEALED:\n            self._fenced",
        "        if state.phase >= Phase.CLOSED:\n            self._fenced",
        (f"{INGEST}test_a_seal_counts_the_records_before_it_and_none_after",),
    ),
    Mutant(
        "records-with-holes-taken",
        "A store has a later record without those before it, and says that it has all.",
        "mesh/protocol/ingest.py",
        "        elif sequence == expected:\n",
        "        elif sequence >= expected:\n",
        (f"{INGEST}test_a_gap_is_asked_for_again_with_back_off_until_it_is_filled",),
    ),
    Mutant(
        "copies-with-holes-taken",
        "The same, for records from another store.",
        "mesh/protocol/ingest.py",
        "state.announcement is None or sequence != state.accepted + 1:",
        "state.announcement is None or sequence <= state.accepted:",
        (f"{COPY}test_records_are_copied_in_order_and_only_while_there_is_room",),
    ),
    Mutant(
        "copied-beyond-the-end",
        "A member keeps records behind the end that was agreed on.",
        "mesh/protocol/ingest.py",
        "        if sequence > end:\n            return Taken.UNWANTED\n",
        "",
        (f"{COPY}test_an_unknown_segment_is_sealed_with_its_announcement_and_copied_to_its_end",),
    ),
    Mutant(
        "copy-not-checked",
        "A flipped bit on one disk, or on the way, spreads to a good one.",
        "mesh/protocol/copying.py",
        """    header = check_stored(content)
    if not fits_epoch(announcement, header.leader_epoch):
        raise corrupt(f"leader epoch {header.leader_epoch} in a segment of epoch {announcement.epoch}")
    if header.leader_epoch <""",
        """    header = __import__("wireproto.records.header", fromlist=["_"]).read_header(content)
    if not fits_epoch(announcement, header.leader_epoch):
        raise corrupt(f"leader epoch {header.leader_epoch} in a segment of epoch {announcement.epoch}")
    if header.leader_epoch <""",
        (f"{COPY}test_a_bad_copy_is_counted_with_its_source_and_changes_nothing",),
    ),
    Mutant(
        "copies-acknowledged",
        "What a recovery had copied counts for the writer that was cut off; the end may lie before it.",
        "mesh/protocol/answering.py",
        "state.phase < Phase.SEALED or (state.phase is Phase.SEALED and state.wanted == NO_END)",
        "state.phase <= Phase.SEALED",
        (f"{COPY}test_an_unknown_segment_is_sealed_with_its_announcement_and_copied_to_its_end",),
    ),
    Mutant(
        "half-a-segment-said-to-be-whole",
        "A member that lacks records is never told to copy them: one disk less than counted.",
        "mesh/protocol/answering.py",
        "answer_id == ids.CLOSED and is_unfinished(state)",
        "answer_id == ids.CLOSED and not state",
        (f"{INGEST}test_close_cuts_what_lies_behind_the_end_and_says_what_is_missing",),
    ),
    Mutant(
        "unknown-segment-sealed-as-empty",
        "A wiped store counts as one that holds nothing, and what it acknowledged is cut off.",
        "mesh/protocol/answering.py",
        "answer_id == ids.SEALED and state.announcement is None and",
        "answer_id == ids.SEALED and not state and",
        (f"{INGEST}test_an_unknown_address_can_be_sealed_and_stays_so",),
    ),
    Mutant(
        "copy-confirmed-before-it-is-durable",
        "A tail counts on w stores of which one has it in memory.",
        "mesh/protocol/answering.py",
        "    if state.head >= end and state.phase",
        "    if state.accepted >= end and state.phase",
        (f"{COPY}test_what_comes_while_an_answer_is_on_its_way_to_the_disk_is_not_in_that_answer",),
    ),
    Mutant(
        "open-needs-w-only",
        "Two lives may each open a segment of one log on stores that never meet.",
        "mesh/protocol/opening.py",
        "return max(self.w, len(self.members) - self.w + 1)",
        "return self.w",
        (f"{OPENING}test_never_both_and_always_one_once_all_have_answered",),
    ),
    Mutant(
        "wiped-member-counts",
        "A member that lost what it had confirmed takes part in the decision on the end.",
        "mesh/protocol/recovery.py",
        """        elif member in self._confirmed:
            self._refused[member] = None
            return
""",
        "",
        (f"{RECOVERY}test_a_member_that_confirmed_and_never_heard_of_it_does_not_count",),
    ),
    Mutant(
        "n-w-answers-are-enough",
        "A recovery decides without a store that acknowledged, and cuts what that has.",
        "mesh/protocol/recovery.py",
        "return min(len(self.members) - self.w + 1, self._left)",
        "return min(max(1, len(self.members) - self.w), self._left)",
        (f"{RECOVERY}test_enough_answers_decide_and_fewer_do_not",),
    ),
    Mutant(
        "lowest-head-is-the-end",
        "What w stores acknowledged is cut off because one of the others has less.",
        "mesh/protocol/recovery.py",
        "        member = max(self._heads,",
        "        member = min(self._heads,",
        (f"{RECOVERY}test_enough_answers_decide_and_fewer_do_not",),
    ),
    Mutant(
        "end-changes-with-later-answers",
        "The end in the catalog is another than that which members copied.",
        "mesh/protocol/recovery.py",
        "        if self._end is None:\n",
        "        if self.decidable:\n",
        (f"{RECOVERY}test_enough_answers_decide_and_fewer_do_not",),
    ),
    Mutant(
        "tail-not-copied",
        "A recovered tail is on one disk, and is shown.",
        "mesh/protocol/recovery.py",
        "return self.end()[0] < 0 or len(self.holders()) >= min(self.w, self._left)",
        "return self.end()[0] < 0 or len(self.holders()) >= 1",
        (f"{RECOVERY}test_once_decided_the_end_stays_and_who_lacks_something_copies_it",),
    ),
    Mutant(
        "peers-never-asked",
        "A store that missed what the producer no longer keeps never gets it.",
        "mesh/protocol/gaps.py",
        "        return behind > 0 and behind % 2 == 1",
        "        return False",
        (f"{CATCH_UP}test_the_writer_is_asked_first_and_the_members_when_it_gave_nothing_twice",),
    ),
    Mutant(
        "silent-segment-never-looked-at",
        "A store that was away while nothing was written never learns what it lacks.",
        "mesh/protocol/gaps.py",
        "                    lagging.setdefault(state.address, (state, -1))\n",
        "                    pass\n",
        (f"{CATCH_UP}test_a_silent_open_address_is_looked_at_now_and_then",),
    ),
    Mutant(
        "bad-copy-not-asked-for-again",
        "After one bad copy the good one of another store is never taken.",
        "mesh/protocol/catch_up.py",
        "                    copied.put_back(front.first, front.last)\n",
        "",
        (f"{CATCH_UP}test_a_bad_copy_is_asked_of_another_source_and_not_of_that_one",),
    ),
    Mutant(
        "committed-at-the-highest-head",
        "A batch counts as soon as one store fewer than w has it.",
        "mesh/protocol/writer.py",
        "sorted(self._heads.values(), reverse=True)[self.w - 1]",
        "sorted(self._heads.values(), reverse=True)[self.w - 2]",
        (f"{WRITER}test_committed_is_what_w_members_have",),
    ),
    Mutant(
        "strangers-acknowledge",
        "A store counts that is no member, and that no recovery will ask.",
        "mesh/protocol/writer.py",
        "        head = self._heads.get(member)\n",
        "        head = self._heads.get(member, -1)\n",
        (f"{WRITER}test_acknowledgements_that_do_not_count",),
    ),
    Mutant(
        "acknowledged-before-it-was-published",
        "A store's claim of records that nobody sent moves the high watermark.",
        "mesh/protocol/writer.py",
        "head is None or sequence >= self.next_sequence or self.state",
        "head is None or self.state",
        (f"{WRITER}test_acknowledgements_that_do_not_count",),
    ),
    Mutant(
        "mended-from-any-copy",
        "Of two copies that differ one is taken, the wrong one perhaps, over the damaged one.",
        "mesh/protocol/scrubbing.py",
        "        if len(set(self._digests.values())) > 1:\n",
        "        if not self._digests and self._sources:\n",
        (f"{SCRUBBING}test_what_is_damaged_here_is_taken_only_where_nobody_contradicts",),
    ),
    Mutant(
        "taken-records-not-compared",
        "A store that gives other records than it told the digest of has them written over a good place.",
        "mesh/protocol/scrubbing.py",
        "        if digest and digest == self._digests[source]:\n",
        "        if digest:\n",
        (f"{SCRUBBING}test_what_has_not_the_digest_that_was_told_is_not_taken",),
    ),
)
