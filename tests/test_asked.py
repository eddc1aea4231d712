"""What a pass over a table is asked for is checked at the call, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pynacount.errors import DeclarationError
from pynacount.keys import ItemKey
from pynacount.tallies import Audited, audit, migrate, repair
from pynacount.testing import record_requests
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
