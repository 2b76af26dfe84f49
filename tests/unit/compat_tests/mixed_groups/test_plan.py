"""What is planned for mixed groups."""

from __future__ import annotations

from mixed_groups.plan import MOST_MEMBERS, Action, Plan


def drawn(seed: int) -> tuple[list[float], list[Action]]:
    plan, members, actions = Plan(seed, ["one", "two", "three"], 8.0), dict[str, bool](), list[Action]()
    kills = plan.kills(300.0, 3)
    for number in range(300):
        action = plan.next(members)
        actions.append(action)
        if action.what == "start":
            members[f"{action.whom}-{number}"] = False
        elif action.what == "stop":
            members[action.whom] = True
        elif action.what != "wait":
            del members[action.whom]
        assert len(members) <= MOST_MEMBERS
        if number % 7 == 0:
            members = dict.fromkeys(members, False)
    return kills, actions


def test_a_plan_is_the_same_for_a_seed_and_has_everything_in_it() -> None:
    kills, actions = drawn(5)
    assert drawn(5) == (kills, actions)
    assert drawn(6) != (kills, actions)
    assert [int(kill // 100) for kill in kills] == [0, 1, 2]
    assert [one.whom for one in actions[:3]] == ["one", "two", "three"]
    assert {one.what for one in actions} >= {"start", "leave", "kill", "stop"}
    assert {one.seconds > 8.0 for one in actions if one.what == "stop"} == {True, False}
