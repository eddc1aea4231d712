"""Seeding the parents of a counter that is kept by markers: all of them by one scan of the children's tables."""

from __future__ import annotations

from collections.abc import Iterator

from pynacount.contributions import Target
from pynacount.keys import ItemKey
from pynacount.protocols.seeding import missing, stored
from pynacount.protocols.spreading import made_whole
from pynacount.streams.consuming import marking_of
from pynacount.streams.fenced import FencedStream
from pynacount.streams.finding import Finder, new_token
from pynacount.streams.marked_seeding import Census, begin, finish, pass_over, take_away
from pynacount.streams.moves import ByRelation
from pynacount.streams.reading import Stream, stream_arn, streams_client
from pynacount.tallies.results import Seeded


class MarkedSeeder(Finder):
    """Seeds the parents of one counter together, in one pass: see :mod:`~pynacount.streams.marked_seeding`."""

    together = None

    def seed(self, keys: list[ItemKey], anew: bool = False) -> Iterator[Seeded]:
        """Seed some parents."""
        token = new_token()
        streams = self._streams(token)
        begun: list[Target] = []
        for key in keys:
            if anew:
                self._driver(key).run(take_away(self._spot(key)))
            item = self._driver(key).run(begin(self._spot(key), token))
            if item is None:
                begun.append((self.tally, key))
            elif not item:
                yield Seeded(self.tally.label, key, "gone", message=missing(self.tally.label, key))
            else:
                whole = self._driver(key).run(made_whole(self.tally, key, item))
                yield Seeded(self.tally.label, key, "seeded", stored(self.tally, key, whole or {}))
        if begun:
            yield from self._count(begun, token, streams)

    def _count(self, begun: list[Target], token: str, streams: list[FencedStream]) -> Iterator[Seeded]:
        census = Census([ByRelation(relation) for relation in self.relations], frozenset(begun))
        try:
            for stream in streams:
                for change in stream.up_to_now():
                    census.pass_by(change)
            passed = {target: self._pass_over(census, target, token) for target in begun}
            for relation in {relation.child_schema.table: relation for relation in self.relations}.values():
                table, names = relation.child_schema.table, relation.child_schema.names
                driver = relation.owner._counting.driver(relation.label)
                for item in self._scan(driver, table, self._wanted(table)):
                    census.take(table, names, item)
            for stream in streams:
                for change in stream.up_to_now():
                    census.wind_back(change)
        finally:
            for stream in streams:
                stream.clear()
        totals = census.totals()
        for target in begun:
            key = target[1]
            number = self._driver(key).run(finish(self._spot(key), token, totals[target])) if passed[target] else None
            if number is None:
                yield Seeded(self.tally.label, key, "failed", message=self._went_on(key))
            else:
                yield Seeded(self.tally.label, key, "seeded", number)

    def _pass_over(self, census: Census, target: Target, token: str) -> bool:
        upto = {source: mark for (of, source), mark in census.marks.items() if of == target}
        done: bool = self._driver(target[1]).run(
            pass_over(self._spot(target[1]), token, upto, marking_of(self.counter, target))
        )
        return done

    def _went_on(self, key: ItemKey) -> str:
        return (
            f"{self.tally.label} of {key}: its records were counted while it was seeded; nothing was set. Stop the "
            f"consumer of the stream for the time (disable its event source mapping) and run it again"
        )

    def _wanted(self, table: str) -> tuple[str, ...]:
        here = [relation for relation in self.relations if relation.child_schema.table == table]
        return tuple(dict.fromkeys(n for r in here for n in (*r.child_schema.names, *r.read_attributes)))

    def _streams(self, token: str) -> list[FencedStream]:
        """The streams of the children's tables, from their oldest records on."""
        found: list[FencedStream] = []
        for relation in {relation.child_schema.table: relation for relation in self.relations}.values():
            meta, schema = relation.owner.Meta, relation.child_schema
            stream = Stream(streams_client(meta), stream_arn(meta, schema.table), "TRIM_HORIZON")
            driver = relation.owner._counting.driver(f"seeding {self.tally.label}", renew=True)
            fenced = FencedStream(self.tally.label, schema, stream, driver, token)
            fenced.check()
            found.append(fenced)
        return found
