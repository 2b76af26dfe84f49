"""The coordinator of transactions: epochs, what is durable, markers."""

from tests.mutants.mutant import Mutant

UNIT = "tests/unit/gateway/transactions/"
MACHINE = f"{UNIT}test_machine.py::"
ENDING = f"{UNIT}test_ending.py::"
COORDINATOR = f"{UNIT}test_coordinator.py::"
MARKERS = f"{UNIT}test_markers.py::"
AFTER_LOSS = f"{UNIT}test_after_loss.py::"
FENCING = f"{UNIT}test_fencing.py::"
LOST_END = f"{UNIT}test_lost_end.py::"
JOURNAL = f"{UNIT}test_journal.py::"

MUTANTS = (
    Mutant(
        "after-a-loss-producers-go-on",
        "A producer commits the part of a transaction that its coordinator has not lost.",
        "gateway/transactions/coordinator.py",
        "        if deadline is None:\n",
        "        if deadline is not None:\n",
        (f"{FENCING}test_an_open_transaction_is_aborted_and_its_producer_fenced",),
    ),
    Mutant(
        "after-a-loss-an-end-is-answered-once-more",
        "A producer is told that a transaction is committed which an accepted loss has aborted.",
        "gateway/transactions/lost_end.py",
        "TransactionState.EMPTY if known.is_at_rest else",
        "known.state if known.is_at_rest else",
        (f"{LOST_END}test_at_rest",),
    ),
    Mutant(
        "after-a-loss-a-refused-marker-is-waited-for",
        "An id is stuck in PrepareCommit after an accepted loss, since a later transaction is open.",
        "gateway/transactions/markers.py",
        "        elif error is ErrorCode.INVALID_PRODUCER_EPOCH and ending.may_be_old:\n",
        "        elif error is ErrorCode.INVALID_PRODUCER_EPOCH and not ending:\n",
        (f"{FENCING}test_what_is_decided_is_committed_where_it_is_open",),
    ),
    Mutant(
        "a-second-loss-hides-the-first-one",
        "A transaction that has lost a part is committed.",
        "gateway/transactions/after_loss.py",
        "        if left is not None and left is not lost:\n",
        "        if left is not None and left is lost:\n",
        (f"{AFTER_LOSS}test_what_a_second_loss_finds_does_not_hide_what_the_first_one_has_lost",),
    ),
    Mutant(
        "fenced-by-an-append-that-failed",
        "A producer is fenced though the log knows nothing of it, and an outage uses up all epochs.",
        "gateway/transactions/machine.py",
        "        self.pending = None\n\n    def _decided",
        "        self.metadata, self.pending = self.pending.metadata, None\n\n    def _decided",
        (f"{MACHINE}test_an_append_that_fails_fences_nobody_and_uses_no_epoch",),
    ),
    Mutant(
        "answered-while-something-is-on-its-way",
        "Two producers get the same epoch.",
        "gateway/transactions/machine.py",
        "        if self.pending is not None:\n            return BUSY\n        version =",
        "        if self.metadata is None and self.pending is not None:\n            return BUSY\n"
        "        version =",
        (f"{MACHINE}test_while_something_is_on_its_way_others_are_to_ask_again",),
    ),
    Mutant(
        "no-other-producer-id-after-the-last-epoch",
        "A producer at its last epoch gets the coordinator's own, and hangs.",
        "gateway/transactions/ending.py",
        "    if known.is_exhausted:\n",
        "    if known.is_exhausted and state is TransactionState.PREPARE_COMMIT:\n",
        (f"{ENDING}test_a_fence_rotates_the_producer_id_too",),
    ),
    Mutant(
        "answered-before-it-is-durable",
        "A committed transaction is aborted after a crash.",
        "gateway/transactions/coordinator.py",
        "            await self.journal.durable(entered.pending)\n",
        "            await trio.lowlevel.checkpoint()\n",
        (f"{COORDINATOR}test_nobody_is_answered_before_it_is_durable_and_others_ask_again_meanwhile",),
    ),
    Mutant(
        "markers-not-resumed",
        "After a restart a transaction never ends, and its readers wait for ever.",
        "gateway/transactions/coordinator.py",
        "                one.begin_to_end(metadata)\n",
        "                pass\n",
        (f"{COORDINATOR}test_a_load_resumes_markers_and_their_number_does_not_go_back",),
    ),
    Mutant(
        "a-marker-without-its-number",
        "A marker that comes late ends the producer's next transaction.",
        "gateway/transactions/served.py",
        "            self.number = self.partition.next_offset + 1\n",
        "            self.number = 1\n",
        (f"{COORDINATOR}test_a_load_resumes_markers_and_their_number_does_not_go_back",),
    ),
    Mutant(
        "markers-tried-once",
        "A transaction whose partition moves while it ends stays open there.",
        "gateway/transactions/markers.py",
        "        elif error in GIVES_UP:\n",
        "        elif error:\n",
        (f"{MARKERS}test_errors_that_may_pass_are_tried_again_after_a_short_pause",),
    ),
    Mutant(
        "deleted-by-a-late-view",
        "A partition that this gateway does not see yet gets no marker.",
        "gateway/transactions/markers.py",
        "            line.missing_since = now\n",
        "            line.missing_since = -1e9\n",
        (f"{MARKERS}test_a_topic_that_this_gateway_sees_late_gets_its_marker",),
    ),
    Mutant(
        "too-large-to-end",
        "A transaction whose record is just small enough can neither be committed nor aborted.",
        "gateway/transactions/journal.py",
        "            size += ENDING_BYTES\n",
        "            pass\n",
        (f"{JOURNAL}test_a_transaction_that_is_too_large_is_refused_while_it_can_still_end",),
    ),
    Mutant(
        "the-last-epoch-is-forgotten",
        "A producer is fenced by a failover, if the answer to its InitProducerId was lost in it.",
        "gateway/transactions/records.py",
        "        (_LAST_EPOCH_TAG, _INT16, metadata.last_producer_epoch, NO_EPOCH),\n",
        "",
        (f"{COORDINATOR}test_a_producer_whose_answer_was_lost_with_its_coordinator_is_not_fenced",),
    ),
)
