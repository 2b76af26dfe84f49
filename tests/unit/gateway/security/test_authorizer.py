"""Who may do what: by examples, and against a matcher that looks at every line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from gateway.security.authorizer import Authorizer, Decision, Why
from gateway.security.principal import ANONYMOUS, InvalidPrincipal, Principal, parse_principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def line(
    name: str = "orders",
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    kind: PatternType = LITERAL,
    who: str = "User:alice",
    host: str = "*",
    of: ResourceType = TOPIC,
) -> Acl:
    return Acl(of, name, kind, who, host, operation, permission)


def may(
    *acls: Acl, who: Principal = ALICE, operation: Operation = READ, name: str = "orders", host: str = HOST
) -> Decision:
    return Authorizer(acls).decide(who, host, operation, TOPIC, name)


def test_without_lines_nobody_may_or_everybody() -> None:
    assert may() == Decision(False, Why.NO_ACLS)
    everyone = Authorizer([line("others")], allow_everyone=True)
    assert everyone.decide(BOB, HOST, READ, TOPIC, "orders") == Decision(True, Why.NO_ACLS)
    # One line of the resource, whoever it is about, and nobody else may.
    assert everyone.decide(BOB, HOST, READ, TOPIC, "others") == Decision(False, Why.OTHERS_HAVE_ACLS)


def test_a_super_user_is_denied_nothing() -> None:
    authorizer = Authorizer([line(permission=DENY)], ["User:alice"])
    assert authorizer.decide(ALICE, HOST, READ, TOPIC, "orders") == Decision(True, Why.SUPER_USER)
    assert not authorizer.decide(BOB, HOST, READ, TOPIC, "orders").is_allowed


@pytest.mark.parametrize(
    ("acl", "allowed"),
    [
        (line(), True),
        (line("*"), True),
        (line("ord", kind=PREFIXED), True),
        (line("o", kind=PREFIXED), True),
        (line("orders", kind=PREFIXED), True),
        (line("orders2", kind=PREFIXED), False),
        (line("*", kind=PREFIXED), False),
        (line("ord"), False),
        (line(of=GROUP), False),
        (line(who="User:*"), True),
        (line(who="User:bob"), False),
        (line(who="Group:alice"), False),
        (line(host=HOST), True),
        (line(host="10.0.0.0/8"), False),
        (line(host="10.0.0.2"), False),
        (line(operation=Operation.ALL), True),
        (line(operation=WRITE), False),
    ],
)
def test_which_lines_count(acl: Acl, allowed: bool) -> None:
    assert may(acl).is_allowed == allowed
    assert may(line("*"), acl._replace(permission=DENY)).is_allowed != allowed


@pytest.mark.parametrize(
    ("operation", "implied"),
    [
        (READ, {DESCRIBE}),
        (WRITE, {DESCRIBE}),
        (Operation.DELETE, {DESCRIBE}),
        (Operation.ALTER, {DESCRIBE}),
        (Operation.ALTER_CONFIGS, {Operation.DESCRIBE_CONFIGS}),
        (DESCRIBE, set()),
        (Operation.CREATE, set()),
        (Operation.DESCRIBE_CONFIGS, set()),
    ],
)
def test_who_may_do_something_may_see_it(operation: Operation, implied: set[Operation]) -> None:
    allowed = {other for other in Operation if may(line(operation=operation), operation=other).is_allowed}
    assert allowed == {operation, *implied}
    # But to deny the one denies nothing else.
    lines = line(operation=Operation.ALL), line(operation=operation, permission=DENY)
    denied = {other for other in Operation if not may(*lines, operation=other).is_allowed}
    assert denied == {operation}


def test_who_may_not_see_something_may_not_by_implication() -> None:
    lines = line(operation=READ), line(operation=DESCRIBE, permission=DENY)
    assert may(*lines).is_allowed
    assert not may(*lines, operation=DESCRIBE).is_allowed


def test_nobody_in_particular_is_everybody_too() -> None:
    assert may(line(who="User:*"), who=ANONYMOUS).is_allowed
    assert not may(line(who="User:*"), line(who="User:ANONYMOUS", permission=DENY), who=ANONYMOUS).is_allowed


def test_the_cluster() -> None:
    acl = Acl(CLUSTER, CLUSTER_NAME, LITERAL, "User:alice", "*", Operation.ALTER, ALLOW)
    decided = Authorizer([acl]).decide(ALICE, HOST, Operation.ALTER, CLUSTER, CLUSTER_NAME)
    assert decided == Decision(True, Why.ACL, acl)


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "hardcode"])
ACLS = st.builds(
    line,
    NAMES,
    st.sampled_from([Operation.ALL, READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS]),
    st.sampled_from([ALLOW, DENY]),
    kind=st.sampled_from([LITERAL, PREFIXED]),
    who=st.sampled_from(["User:*", "User:alice", "User:bob"]),
    host=st.sampled_from(["*", HOST, "10.0.0.2"]),
    of=st.sampled_from([TOPIC, GROUP]),
)
OPERATIONS = st.sampled_from([READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS])


def naively(acls: list[Acl], operation: Operation, name: str) -> bool:
    """Alice at HOST, and a topic: every line is looked at."""
    of_resource = [acl for acl in acls if acl.resource_type is TOPIC and acl.matches(name)]
    about = [acl for acl in of_resource if acl.principal != "User:bob" and acl.host in {"*", HOST}]
    implying = {
        DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    denied = any(acl.permission is DENY and acl.operation in {operation, Operation.ALL} for acl in about)
    allowed = any(
        acl.permission is ALLOW and acl.operation in {operation, Operation.ALL} | implying for acl in about
    )
    return allowed and not denied


@given(st.lists(ACLS, max_size=8), OPERATIONS, st.sampled_from(["a", "ab", "abc", "abcd", "c", "*"]))
def test_it_decides_as_one_who_looks_at_every_line(acls: list[Acl], operation: Operation, name: str) -> None:
    decided = Authorizer(acls).decide(ALICE, HOST, operation, TOPIC, name)
    assert decided.is_allowed == naively(acls, operation, name)
    assert (decided.why is Why.NO_ACLS) == (
        not any(acl.resource_type is TOPIC and acl.matches(name) for acl in acls)
    )


QUESTIONS = [
    (operation, name)
    for operation in (READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS)
    for name in ("a", "ab", "abc", "abcd", "c", "*")
]


def all_answers(authorizer: Authorizer) -> list[object]:
    """Of alice at HOST; which of several lines has allowed something is all the same."""
    decided = [authorizer.decide(ALICE, HOST, operation, TOPIC, name) for operation, name in QUESTIONS]
    return [
        *((decision.is_allowed, decision.why) for decision in decided),
        *(authorizer.may_somewhere(ALICE, HOST, operation, TOPIC) for operation in (READ, WRITE)),
    ]


@given(st.lists(ACLS, max_size=6), st.lists(st.tuples(st.sets(ACLS, max_size=4), st.sets(ACLS, max_size=4))))
def test_others_that_come_of_changes_decide_as_ones_made_anew(
    first: list[Acl], changes: list[tuple[set[Acl], set[Acl]]]
) -> None:
    """Whatever is taken away, also what is not there, or added twice; and those before stay as they are."""
    lines = set(first)
    authorizers = [(Authorizer(first), frozenset(lines))]
    for removed, added in changes:
        lines = lines - removed | added
        authorizers.append((authorizers[-1][0].changed(removed, added), frozenset(lines)))
    for authorizer, its in authorizers:
        anew = Authorizer(its)
        assert all_answers(authorizer) == all_answers(anew)
        # Nor does it look for prefixes that there are no more.
        lengths = [
            {kind: found.lengths for kind, found in one._types.items() if found.lengths}
            for one in (authorizer, anew)
        ]
        assert lengths[0] == lengths[1]
        for operation, name in QUESTIONS:
            decided = authorizer.decide(ALICE, HOST, operation, TOPIC, name)
            assert decided.is_allowed == naively(list(its), operation, name)


def test_what_does_not_change_stays() -> None:
    before = Authorizer([line("others")], ["User:bob"], allow_everyone=True)
    after = before.changed([line("others")], [line("orders")])
    assert after.decide(BOB, HOST, WRITE, TOPIC, "orders") == Decision(True, Why.SUPER_USER)
    assert after.decide(ALICE, HOST, READ, TOPIC, "others") == Decision(True, Why.NO_ACLS)
    assert before.decide(ALICE, HOST, WRITE, TOPIC, "others") == Decision(False, Why.OTHERS_HAVE_ACLS)


def somewhere_naively(acls: list[Acl], operation: Operation) -> bool:
    """As `naively`: whether an allowed pattern has no denied one that covers it."""
    about = [
        acl
        for acl in acls
        if acl.resource_type is TOPIC
        and acl.principal != "User:bob"
        and acl.host in {"*", HOST}
        and acl.operation in {operation, Operation.ALL}
    ]
    denied = [acl for acl in about if acl.permission is DENY]

    def covers(one: Acl, other: Acl) -> bool:
        if one.pattern_type is PREFIXED:
            return other.name.startswith(one.name) and not (
                other.pattern_type is LITERAL and other.name == "*"
            )
        return one.name == "*" or (one.pattern_type, one.name) == (other.pattern_type, other.name)

    return any(
        not any(covers(one, acl) for one in denied) for acl in about if acl.permission is ALLOW
    ) or naively(acls, operation, "hardcode")


@given(st.lists(ACLS, max_size=8), st.sampled_from([READ, WRITE]))
def test_somewhere_is_decided_as_by_one_who_looks_at_every_pair_of_lines(
    acls: list[Acl], operation: Operation
) -> None:
    found = Authorizer(acls).may_somewhere(ALICE, HOST, operation, TOPIC)
    assert found == somewhere_naively(acls, operation)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([line("a", WRITE)], True),
        ([line("a", Operation.ALL)], True),
        ([line("a", READ)], False),
        ([line("a", WRITE, who="User:bob")], False),
        ([line("a", WRITE, host="10.0.0.2")], False),
        ([line("a", WRITE, of=GROUP)], False),
        ([line("a", WRITE), line("*", WRITE, DENY)], False),
        ([line("*", WRITE), line("*", WRITE, DENY, kind=PREFIXED)], True),
        ([line("*", WRITE), line("a", WRITE, DENY)], True),
        ([line("a", WRITE), line("a", WRITE, DENY)], False),
        ([line("ab", WRITE), line("a", WRITE, DENY, kind=PREFIXED)], False),
        ([line("a", WRITE, kind=PREFIXED), line("a", WRITE, DENY)], True),
        ([line("ab", WRITE, kind=PREFIXED), line("a", WRITE, DENY, kind=PREFIXED)], False),
        ([line("a", WRITE, kind=PREFIXED), line("ab", WRITE, DENY, kind=PREFIXED)], True),
        ([line("a", WRITE), line("b", WRITE), line("a", WRITE, DENY)], True),
    ],
)
def test_whether_there_is_a_topic_that_may_be_written(acls: list[Acl], allowed: bool) -> None:
    assert Authorizer(acls).may_somewhere(ALICE, HOST, WRITE, TOPIC) == allowed


def test_super_users_may_somewhere_and_all_where_everybody_may() -> None:
    deny = [line("*", WRITE, DENY)]
    assert Authorizer(deny, ["User:alice"]).may_somewhere(ALICE, HOST, WRITE, TOPIC)
    assert Authorizer([], allow_everyone=True).may_somewhere(ALICE, HOST, WRITE, TOPIC)


LINES = [
    line("ab"), line("*"), line("a", kind=PREFIXED), line("*", kind=PREFIXED), line("b", of=GROUP, host=HOST),
    line("ab", Operation.ALL, DENY, who="User:bob"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), [0, 1, 2, 3, 4, 5]),
        (AclFilter(GROUP), [4]),
        (AclFilter(name="ab"), [0, 5]),
        (AclFilter(TOPIC, "ab", PatternType.MATCH), [0, 1, 2, 5]),
        (AclFilter(TOPIC, "*", PatternType.MATCH), [1, 3]),
        (AclFilter(name="a", pattern_type=PREFIXED), [2]),
        (AclFilter(name="a", pattern_type=LITERAL), []),
        (AclFilter(pattern_type=PREFIXED), [2, 3]),
        (AclFilter(principal="User:bob"), [5]),
        (AclFilter(host=HOST), [4]),
        (AclFilter(host="*"), [0, 1, 2, 3, 5]),
        (AclFilter(operation=Operation.ALL), [5]),
        (AclFilter(permission=DENY), [5]),
        (AclFilter(principal="User:alice", permission=DENY), []),
    ],
)
def test_which_lines_a_filter_means(wanted: AclFilter, found: list[int]) -> None:
    assert [number for number, acl in enumerate(LINES) if wanted.means(acl)] == found


def test_principals_are_written_with_their_type() -> None:
    assert parse_principal("User:CN=a:b,O=c") == Principal("User", "CN=a:b,O=c")
    assert str(ALICE) == "User:alice"
    for text in ("", "alice", ":alice", "User:"):
        with pytest.raises(InvalidPrincipal, match="write it as User:NAME"):
            parse_principal(text)
