"""Levels of features: which gateways may be in a cluster at the same time."""

from tests.mutants.mutant import Mutant

FILE = "gateway/cluster/features.py"
ALIVE = "tests/unit/gateway/cluster/test_alive.py::"
FEATURES = "tests/unit/gateway/cluster/test_features.py::"
AT_THAT_MOMENT = f"{FEATURES}test_of_a_raise_and_a_gateway_that_comes_at_that_moment_one_sees_the_other"
FROM_BEFORE = f"{FEATURES}test_a_gateway_of_a_release_from_before_that_comes_at_that_moment_is_seen"

MUTANTS = (
    Mutant(
        "level-raised-behind-a-registration",
        "A gateway that registers while a level is raised takes part, and cannot do it.",
        FILE,
        "unchanged(self._catalog, [keys.FEATURES, keys.REGISTERED, keys.CLUSTER])",
        "unchanged(self._catalog, [keys.FEATURES, keys.CLUSTER])",
        (f"{AT_THAT_MOMENT}[the gateway]",),
    ),
    Mutant(
        "registered-by-older-levels",
        "A gateway takes part by levels that it has read before they were raised.",
        FILE,
        "[self.compare(), *unchanged(self._catalog, puts)]",
        "unchanged(self._catalog, puts)",
        (f"{AT_THAT_MOMENT}[the level]",),
    ),
    Mutant(
        "level-raised-before-the-format",
        "A release from before there were levels starts while one is raised, and takes part.",
        FILE,
        "if is_new and await self._raise_format():",
        "if is_new and False:",
        (FROM_BEFORE,),
    ),
    Mutant(
        "what-was-said-in-an-earlier-life",
        "A gateway that is an older release now counts as what it was.",
        FILE,
        'records[number].life not in ("", life)',
        "False",
        (f"{FEATURES}test_all_that_were_not_removed_count_and_those_that_are_gone_are_told", FROM_BEFORE),
    ),
    Mutant(
        "place-taken-by-older-levels",
        "A gateway takes a place by levels that were raised meanwhile.",
        "gateway/cluster/alive.py",
        "            *unchanged(self._catalog, [keys.FEATURES]),\n",
        "",
        (f"{ALIVE}test_levels_that_change_while_the_place_is_taken_are_looked_at_again",),
    ),
)
