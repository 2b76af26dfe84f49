"""What one client may take of the loop and of the worker threads."""

from tests.mutants.mutant import Mutant

WORK = "tests/unit/gateway/common/test_work.py::"
WORKERS = "tests/unit/gateway/common/test_workers.py::"
GROUPS = "tests/unit/gateway/groups/test_large_groups.py::"

MUTANTS = (
    Mutant(
        "turns-that-never-end",
        "A request of very many elements keeps the loop until it is done.",
        "gateway/common/work.py",
        "        elif (left < cost and left < TURN) or (turns.waiting and not self.has_turn):\n",
        "        elif turns.waiting and not self.has_turn:\n",
        (f"{WORK}test_others_have_their_turn_while_a_large_request_is_worked_off",),
    ),
    Mutant(
        "last-thread-for-one-client",
        "One client's batches hold all places, and everybody else waits for them.",
        "gateway/common/workers.py",
        "return self._running[network_of(client)] < self.threads - 1",
        "return self._running[network_of(client)] < self.threads",
        (f"{WORKERS}test_one_client_never_holds_the_last_thread",),
    ),
    Mutant(
        "members-of-a-record-without-bound",
        "A record of a million members keeps the loop for as long as it takes to be rid of them.",
        "gateway/groups/records.py",
        "        if count > MAX_MEMBERS:\n",
        "        if count > MAX_MEMBERS * MAX_MEMBERS:\n",
        (f"{GROUPS}test_a_record_of_as_many_members_as_may_join_is_read_and_one_more_is_not",),
    ),
)
