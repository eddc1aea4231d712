"""What a pass over a table is asked for is checked at the call, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pynacount.errors import DeclarationError
from pynacount.keys import ItemKey
from pynacount.tallies import Audited, audit, migrate, repair, reshard
from pynacount.testing import record_requests
from social import Post
from video import Stats

Tables = Callable[..., None]

PASSES: dict[str, Callable[..., Any]] = {
    "audit": audit,
    "migrate": migrate,
    "repair": lambda counters, **options: repair(counters, [row()], **options),
}


def row() -> Audited:
    key = ItemKey("Video", ("PK", "SK"), (("S", "VID#v1"), ("S", "STATS#TOTAL")))
    return Audited("Stats.plays", key, "drifted", 4, 0, wrong=True)


WHOLE = [0, -1, 1.5, True, "2"]
RATES = [0, -1, float("nan"), "5", True]


class TestNumbers:
    @pytest.mark.parametrize(
        ("verb", "option", "values"),
        [
            ("audit", "workers", WHOLE),
            ("audit", "sample", WHOLE),
            ("audit", "segments", [*WHOLE, 1_000_001]),
            ("audit", "rcu_per_second", RATES),
            ("migrate", "workers", WHOLE),
            ("migrate", "limit", WHOLE),
            ("migrate", "segments", [*WHOLE, 1_000_001]),
            ("migrate", "rcu_per_second", RATES),
            ("migrate", "wcu_per_second", RATES),
            ("repair", "workers", WHOLE),
        ],
    )
    def test_what_a_pass_cannot_go_by_is_named_at_the_call(self, verb: str, option: str, values: list[Any]) -> None:
        for value in values:
            with pytest.raises(ValueError, match=rf"tallies\.{verb}\({option}={value!r}\)"):
                PASSES[verb]([Post.like_tally], **{option: value})

    @pytest.mark.parametrize("verb", ["audit", "migrate"])
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"by": "x"}, 'write "scan" or "query"'),
            ({"segment": 0}, "say of how many, by segments="),
            ({"segments": 2, "segment": 2}, "from 0 to 1"),
            ({"segments": 2, "segment": -1}, "from 0 to 1"),
        ],
    )
    def test_a_segment_is_one_of_those_that_there_are(self, verb: str, options: dict[str, Any], said: str) -> None:
        with pytest.raises(ValueError, match=said):
            PASSES[verb]([Post.like_tally], **options)

    @pytest.mark.parametrize("options", [{"sample": 5, "segments": 2}, {"refs": [], "sample": 5}])
    def test_what_contradicts_each_other_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"leave .*segments and segment out"):
            audit([Post.like_tally], **options)


class TestPlainCounters:
    @pytest.mark.parametrize("verb", PASSES)
    def test_a_plain_counter_is_refused_and_keeps_its_number(self, verb: str, tables: Tables) -> None:
        tables(Stats)
        stats = Stats.ref(video_id="v1")
        Stats.plays.increment(stats, 4)
        with record_requests() as sent, pytest.raises(DeclarationError, match=r"no CountedIn names Stats\.plays"):
            PASSES[verb]([Stats.plays])
        assert (len(sent), Stats.plays.value(stats)) == (0, 4)

    def test_an_audit_of_named_items_is_refused_too(self) -> None:
        with pytest.raises(DeclarationError, match=r"tallies\.audit\(\) would count children"):
            audit([Stats.plays], refs=[Stats.ref(video_id="v1")])


@pytest.mark.parametrize("verb", ["audit", "migrate", "repair", "reshard"])
@pytest.mark.parametrize("given", [3, [3], "Post.like_tally", Post.like_tally, [Post]])
def test_what_is_no_list_of_counters_is_refused_at_the_call(verb: str, given: Any) -> None:
    passes = {**PASSES, "reshard": lambda counters: reshard(counters, 2)}
    with pytest.raises(DeclarationError, match=rf"tallies\.{verb}\(.*give a list of counters"):
        passes[verb](given)
