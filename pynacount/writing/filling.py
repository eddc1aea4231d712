"""A stream of calls, put into as few transactions as they fit in.

Three things keep the transactions few and full. Those that a refused try showed not to be at fault are kept until they
fill a transaction of their own. Once a refusal showed children that are there already, those that follow are read
ahead, which costs a fraction of a refused try, until none of a hundred was there. And a second call for a child that is
under way waits for the first one's answer. However long the stream, only some hundreds of its calls are held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynacount import marks
from pynacount.commit import Driver
from pynacount.errors import CounterContention, PynacountError
from pynacount.keys import ItemKey
from pynacount.plan import MAX_TRANSACTION_ITEMS, Plan
from pynacount.protocols.batches import BATCH_GET_LIMIT, read_items
from pynacount.steps import Protocol
from pynacount.writing.discarding import Discard
from pynacount.writing.many import Group, Member, attempt
from pynacount.writing.parents import Known
from pynacount.writing.performing import plan_of

MOST_REPEATED = 1_000
"""Calls for children that are under way already, held at once."""
WINDOW = 10_000
"""Calls that are looked at together where their parents differ."""


def by_parent(members: Iterable[Member], parent: Callable[[Member], Hashable]) -> Iterator[Member]:
    """The same calls; those for one parent side by side, as far as they lie within one window."""
    stream = iter(members)
    while window := list(islice(stream, WINDOW)):
        parents: dict[Hashable, list[Member]] = {}
        for member in window:
            parents.setdefault(parent(member), []).append(member)
        for of_one in parents.values():
            yield from of_one


def groups_of(members: Iterable[Member]) -> Iterator[list[Member]]:
    """The groups in which these would be sent if none of the children were there yet; repeated calls left out."""
    group = Group()
    seen: set[ItemKey] = set()
    for member in members:
        if member.key in seen:
            continue
        seen.add(member.key)
        if not group.take(member):
            yield group.members
            group = Group()
            group.take(member)
    if group.members:
        yield group.members


def plans_of(members: Iterable[Member]) -> list[Plan]:
    """The transactions of these calls, as data."""
    return [plan_of([member.intent for member in group]) for group in groups_of(members)]


def settle_all(driver: Driver, calls: Iterable[Member], told: Callable[[Any], None], *, in_order: bool) -> None:
    """Settle every call of a stream, and tell of each once it is. Each transaction has the driver's whole deadline.

    ``in_order``: whether earlier calls must not be overtaken, as where there may not be room for all.
    Raises, beside what the stream itself does, what no retry mends: no rights, no table.
    """
    _Filling(driver, calls, told, in_order).run()


class _Filling:
    def __init__(self, driver: Driver, calls: Iterable[Member], told: Callable[[Member], None], in_order: bool) -> None:
        self.driver = driver
        self.stream = iter(calls)
        self.told = told
        self.in_order = in_order
        self.known = Known()
        self.fresh: list[Member] = []
        self.cleared: list[Member] = []
        self.repeated: dict[ItemKey, list[Member]] = {}
        self.held = 0
        self.reads_ahead = False
        self.may_read = True
        self.over = False

    def run(self) -> None:
        while group := self._next_group():
            self._send(group)
            self.reads_ahead = self.reads_ahead or any(member.done is False for member in group)
            still_open = [member for member in group if member.is_open]
            self.cleared = still_open + self.cleared
            for member in group:
                if not member.is_open:
                    self._settled(member)

    def _next_group(self) -> list[Member]:
        self._read_on()
        if self.in_order or self.over:
            pile = [*self.cleared, *self.fresh]
        elif not self.fresh or _fills_a_group(self.cleared):
            pile = self.cleared
        else:
            pile = self.fresh
        group = Group()
        for member in pile:
            if not group.take(member):
                break
        taken = {id(member) for member in group.members}
        self.cleared = [member for member in self.cleared if id(member) not in taken]
        self.fresh = [member for member in self.fresh if id(member) not in taken]
        return group.members

    def _read_on(self) -> None:
        """Take calls from the stream, until there are enough for a transaction."""
        while not self.over and len(self.fresh) < MAX_TRANSACTION_ITEMS and self.held < MOST_REPEATED:
            chunk = list(islice(self.stream, BATCH_GET_LIMIT))
            self.over = len(chunk) < BATCH_GET_LIMIT
            first: list[Member] = []
            for member in chunk:
                if member.key in self.repeated:
                    self.repeated[member.key].append(member)
                    self.held += 1
                else:
                    self.repeated[member.key] = []
                    first.append(member)
            if first and self.may_read and (self.reads_ahead or any(_must_read(member) for member in first)):
                self._read(first)
            for member in first:
                if member.is_open:
                    self.fresh.append(member)
                else:
                    self._settled(member)

    def _read(self, members: Sequence[Member]) -> None:
        """Read them together. Where that fails they go on unread: then each is read alone, or a refusal tells."""
        try:
            self.driver.run(_read_ahead(members))
            self.reads_ahead = any(not member.is_open for member in members)
        except PynacountError:
            self.reads_ahead = False  # the table is busy
        except PynamoDBException:
            self.may_read = False  # no right to BatchGetItem

    def _send(self, group: list[Member]) -> None:
        self.known.birth_mark = marks.birth_mark()
        try:
            self.driver.run(attempt(group, self.known))
        except CounterContention as error:
            shares = _by_parents(member for member in group if member.is_open)
            if len(shares) == 1:
                _fail(group, error)
                return
            for share in shares:  # what one busy parent met is not the others' to suffer
                self._send(share)
        except PynacountError as error:
            _fail(group, error)

    def _settled(self, member: Member) -> None:
        """Tell of it, and of those that asked for the same child after it."""
        self.told(member)
        later = self.repeated.pop(member.key)
        while later:
            follower = later.pop(0)
            self.held -= 1
            if member.done is None:  # refused: the next one may fare better
                self.repeated[follower.key] = later
                self.fresh.insert(0, follower)
                return
            follower.done = False
            self.told(follower)


def _fills_a_group(members: Iterable[Member]) -> bool:
    group = Group()
    return not all(group.take(member) for member in members) or len(group.keys) == MAX_TRANSACTION_ITEMS


def _must_read(member: Member) -> bool:
    """Whether it is not known what the child counts for, until it is read."""
    return isinstance(member.intent, Discard) and member.intent.reads_first and not member.is_read


def _read_ahead(members: Sequence[Member]) -> Protocol[None]:
    """Settle those whose child is there already, or is not there to be discarded."""
    table = members[0].key.table
    whole = any(_must_read(member) for member in members)
    found = yield from read_items(
        [member.key for member in members], {} if whole else {table: ()}, consistent_read=True
    )
    for member in members:
        item = found.get(member.key)
        if not isinstance(member.intent, Discard):
            member.done = None if item is None else False
        elif item is None:
            member.done = False
        elif whole:
            member.is_read = True
            try:
                member.intent.found(item)
            except PynacountError as error:
                member.fail(error)


def _by_parents(members: Iterable[Member]) -> list[list[Member]]:
    shares: dict[Hashable, list[Member]] = {}
    for member in members:
        shares.setdefault(frozenset(member.parents), []).append(member)
    return list(shares.values())


def _fail(members: Iterable[Member], error: PynacountError) -> None:
    for member in members:
        if member.is_open:
            member.error = error
