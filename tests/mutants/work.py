"""What one client may take of the loop and of the worker threads."""

from tests.mutants.mutant import Mutant

WORK = "tests/unit/gateway/common/test_work.py::"
CLIENTS = "tests/unit/gateway/front/test_clients.py::"
SHARES = "tests/unit/gateway/common/test_shares.py::"
WORKERS = "tests/unit/gateway/common/test_workers.py::"
GROUPS = "tests/unit/gateway/groups/test_large_groups.py::"

MUTANTS = (
    Mutant(
        "turns-that-never-end",
        "A request of very many elements keeps the loop until it is done.",
        "gateway/common/work.py",
        "        elif (left < cost and left < turns.size) or (turns.waiting and not self.has_turn):\n",
        "        elif turns.waiting and not self.has_turn:\n",
        (f"{WORK}test_others_have_their_turn_while_a_large_request_is_worked_off",),
    ),
    Mutant(
        "turns-of-each-connection",
        "A client with thousands of connections has as many turns between two of everybody else.",
        "gateway/front/connection.py",
        "self._work = Work(client.turns)",
        "self._work = Work()",
        (f"{CLIENTS}test_many_busy_connections_of_one_client_keep_another_waiting_for_some_of_their_turns",),
    ),
    Mutant(
        "requests-that-begin-are-free",
        "A client with thousands of connections has as many small requests served between two of others.",
        "gateway/front/connection.py",
        "                if turns.left < SMALL_REQUESTS_OWE:\n",
        "                if turns.left < 1000 * SMALL_REQUESTS_OWE:\n",
        (f"{CLIENTS}test_many_small_requests_of_one_client_keep_another_waiting_for_some_of_them",),
    ),
    Mutant(
        "networks-without-a-bound",
        "Who has a network of IPv6 takes what all clients share by a few of its 65,536 addresses.",
        "gateway/common/shares.py",
        "        if network == client:\n",
        "        if network:\n",
        (f"{SHARES}test_a_network_gets_three_quarters_of_what_others_leave_however_many_clients_it_has",),
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
        "    if count > MAX_MEMBERS:\n",
        "    if count > MAX_MEMBERS * MAX_MEMBERS:\n",
        (f"{GROUPS}test_a_record_of_as_many_members_as_may_join_is_read_and_one_more_is_not",),
    ),
)
