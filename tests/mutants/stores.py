"""What a store has on its disk, reads from it, mends, and gives up."""

from tests.mutants.mutant import Mutant

COMMITTER = "tests/unit/mesh/store/test_committer.py::"
DB = "tests/unit/mesh/store/test_db.py::"
DB_LOG = "tests/unit/mesh/store/test_db_log.py::"
MESH_SCRUB = "tests/mesh/test_scrub.py::"
BATCH_READS = "tests/unit/mesh/store/test_batches.py::"
RANGES = "tests/unit/mesh/store/test_ranges.py::"
SCRUB = "tests/unit/mesh/store/test_scrub.py::"
VERIFY = "tests/unit/mesh/store/test_verify.py::"
KEEPER = "tests/unit/mesh/store/write_ahead/test_keeper.py::"
KILLED = "tests/unit/mesh/store/write_ahead/test_killed.py::"
LOG_CUT = "tests/unit/mesh/store/test_log_cut.py::"
POWER_LOSS = (
    "tests/unit/mesh/store/write_ahead/test_power_loss.py::test_what_was_fsynced_outlives_power_losses"
)

MUTANTS = (
    Mutant(
        "reported-before-the-fsync",
        "A batch is acknowledged that a power loss takes.",
        "mesh/store/committer.py",
        """                self._flush()
                crash_points.reach("after-fsync")
                if commit.sealing:
                    crash_points.reach("during-seal")
                crash_points.reach("before-ack")
                self._report(commit, None)
""",
        """                self._report(commit, None)
                self._flush()
                crash_points.reach("after-fsync")
                if commit.sealing:
                    crash_points.reach("during-seal")
                crash_points.reach("before-ack")
""",
        (f"{COMMITTER}test_each_is_reported_after_its_own_fsync",),
    ),
    Mutant(
        "never-fsynced",
        "The same, and no fsync ever follows.",
        "mesh/store/committer.py",
        "                commit = following\n                self._flush()\n",
        "                commit = following\n",
        (f"{COMMITTER}test_each_is_reported_after_its_own_fsync",),
    ),
    Mutant(
        "failed-fsync-reported-as-done",
        "A disk that fails its fsync (EIO) keeps nothing, and its store acknowledges.",
        "mesh/store/committer.py",
        "        self._database.flush()\n",
        """        try:
            self._database.flush()
        except StoreFailed:
            pass
""",
        (f"{COMMITTER}test_an_fsync_that_fails_is_reported_and_nothing_after_it",),
    ),
    Mutant(
        "log-flushed-and-not-fsynced",
        "What was acknowledged is in the page cache alone.",
        "mesh/store/write_ahead/files.py",
        "            os.fdatasync(self.descriptor)\n",
        "            pass\n",
        (f"{DB_LOG}test_a_flush_is_an_fsync",),
    ),
    Mutant(
        "damaged-log-ends-in-silence",
        "One flipped bit in a store's log takes every fsynced record after it, and nobody is told.",
        "mesh/store/write_ahead/judging.py",
        '        kind = "corrupt"\n',
        '        kind = "torn"\n',
        (f"{DB_LOG}test_a_log_that_is_damaged_in_the_middle_is_not_opened",),
    ),
    Mutant(
        "log-written-over-before-it-is-in-tables",
        "A power loss takes what was acknowledged a moment ago, once the store has been busy.",
        "mesh/store/write_ahead/keeper.py",
        "            self._flush()\n",
        "",
        (f"{KEEPER}test_a_file_is_free_after_a_flush_that_began_when_it_was_full",),
    ),
    Mutant(
        "full-file-left-out-of-the-fsync",
        "The same, for what lies in the file that has just become full.",
        "mesh/store/write_ahead/log.py",
        "                self._left.popitem()[0].fsync()\n",
        "                self._left.popitem()\n",
        (POWER_LOSS,),
    ),
    Mutant(
        "what-a-file-had-before-counts",
        "A start brings back what an earlier one had cut off, under numbers that are given to others.",
        "mesh/store/write_ahead/log.py",
        "os.urandom(SALT_BYTES)",
        "bytes(SALT_BYTES)",
        (POWER_LOSS,),
    ),
    Mutant(
        "loss-of-the-log-unnoticed-after-a-kill",
        "With --fsync never, the last records of a log that is gone are missed by nobody.",
        "mesh/store/committer.py",
        "        self._database.count_written()\n",
        "",
        (f"{KILLED}test_a_log_of_another_boot_may_lack_what_was_not_fsynced",),
    ),
    Mutant(
        "store-forgets-epochs",
        "After a store's restart a gateway that was fenced writes again, beside its successor.",
        "mesh/store/changes.py",
        "        put(keys.epoch_key(log), pack_epoch(epoch, life))\n",
        "        pass\n",
        (f"{DB}test_an_epoch_is_kept_with_the_life_that_announced_it",),
    ),
    Mutant(
        "cut-leaves-the-head",
        "After a restart a member of a closed segment claims records that the recovery had left out.",
        "mesh/store/changes.py",
        "    batch.put(keys.head_key(state.address), pack_head(head, row, running_max, state.subject))\n",
        "",
        (f"{DB}test_a_truncation_leaves_the_row_of_its_end_wherever_that_was",),
    ),
    Mutant(
        "cut-leaves-the-records",
        "Records that a recovery left out stay on the disk, under sequences that are given to others.",
        "mesh/store/changes.py",
        "        batch.delete_range(prefix + first, keys.prefix_end(prefix))\n",
        "        pass\n",
        (f"{DB}test_a_truncation_leaves_the_row_of_its_end_wherever_that_was",),
    ),
    Mutant(
        "lack-not-remembered",
        "A store that lacks records of a closed segment does not go on copying them after its restart.",
        "mesh/store/changes.py",
        "is_there=is_unfinished)",
        "is_there=False)",
        (f"{DB}test_what_a_segment_lacks_is_remembered_until_it_is_here",),
    ),
    Mutant(
        "missing-records-left-out",
        "A reader gets less than there is, without an error.",
        "mesh/store/ranges.py",
        "    if len(whole) != len(values):\n",
        "    if values and not whole:\n",
        (f"{RANGES}test_a_range_with_something_missing_is_corrupt_and_never_shorter",),
    ),
    Mutant(
        "batch-not-compared-with-its-row",
        "A batch whose base offset or length a disk has changed goes to readers.",
        "mesh/store/batches.py",
        "return header.leader_epoch if told ==",
        "return header.leader_epoch if told or told ==",
        (f"{BATCH_READS}test_every_bit_of_a_header_counts",),
    ),
    Mutant(
        "damaged-epoch-taken-for-an-older-one",
        "After one damaged batch a segment is read the slow way until the store's restart.",
        "mesh/store/batches.py",
        """        contents = ranges.read_all(database, address, first, len(rows))
        if None not in epochs:
            self._learn(address)
""",
        """        if None not in epochs:
            self._learn(address)
        contents = ranges.read_all(database, address, first, len(rows))
""",
        (f"{BATCH_READS}test_a_bit_that_a_blob_file_loses_is_no_batch[15]",),
    ),
    Mutant(
        "search-begins-one-too-late",
        "A consumer that asks for an offset within a batch is given the one after it.",
        "mesh/store/ranges.py",
        "row.last_offset >= target)",
        "row.base_offset >= target)",
        (f"{RANGES}test_every_offset_is_found_in_the_batch_that_holds_it_or_the_next_one",),
    ),
    Mutant(
        "damage-is-served",
        "A reader is given records that a scrub knows to be damaged.",
        "mesh/store/scrub.py",
        "            if self.damage.mark(state.address, one):\n",
        "            if one.why:\n",
        (f"{SCRUB}test_damage_is_told_and_the_rest_goes_on",),
    ),
    Mutant(
        "copies-not-compared",
        "Two stores have different records, each good for itself, and nobody is told.",
        "mesh/store/scrub.py",
        "        if decided.verdict is not Verdict.DIFFERS or",
        "        if decided.verdict is not Verdict.NO_COPY or",
        (f"{MESH_SCRUB}test_stores_that_differ_and_are_good_for_themselves_are_told_and_left_alone",),
    ),
    Mutant(
        "damage-not-mended",
        "What one disk has lost stays lost there until a second one fails.",
        "mesh/store/scrub.py",
        "        for one in bad:\n            await self._mend(state, one)\n",
        "",
        (f"{SCRUB}test_damage_is_told_and_the_rest_goes_on",),
    ),
    Mutant(
        "mended-without-a-look",
        "A disk that does not keep what was written again is believed.",
        "mesh/store/mender.py",
        "        if digest != digest_of(taken.contents):\n",
        "        if not digest:\n",
        (f"{SCRUB}test_what_was_written_again_is_believed_only_when_it_reads_back",),
    ),
    Mutant(
        "row-not-compared",
        "A damaged row is taken for good: searches by offset and time go wrong.",
        "mesh/store/checking.py",
        "        elif row != self._row:\n",
        "        elif not row:\n",
        (f"{VERIFY}test_damage_is_named_and_the_rest_is_read",),
    ),
    Mutant(
        "cut-names-too-little",
        "An operator accepts a loss of which a part was not named: closed segments with records missing.",
        "mesh/store/log_cut.py",
        "(state.phase is Phase.CLOSED and not is_unfinished(state))",
        "state.phase is Phase.CLOSED",
        (f"{LOG_CUT}test_a_closed_segment_that_lacks_something_then_is_named",),
    ),
    Mutant(
        "cut-does-not-see-what-is-whole-behind",
        "The same, for what lies in the log behind the damaged place.",
        "mesh/store/write_ahead/reading.py",
        "        position = content.find(salt, position + 1)\n",
        "        position = -1\n",
        (f"{LOG_CUT}test_what_is_named_is_what_goes",),
    ),
)
