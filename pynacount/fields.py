"""The attributes that an application declares: key templates and counters."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pynamodb.attributes import Attribute, UnicodeAttribute
from pynamodb.constants import NUMBER
from pynamodb.exceptions import PynamoDBException
from typing_extensions import Self

from pynacount import idempotency
from pynacount.amounts import Amount, amount, negative, stored_amount
from pynacount.bounds import NO_BOUNDS, Bounds
from pynacount.contributions import MARKS, Missing, OnDelete, Source, Tally
from pynacount.errors import CounterTypeError, DeclarationError, OutcomeUnknown, UncountedWrite
from pynacount.grouping.gathering import LINES, Terms, call_in_group
from pynacount.keys import MAX_HASH_BYTES, MAX_RANGE_BYTES, ItemKey, KeyTemplate
from pynacount.markers import DEFAULT_DAYS, DEFAULT_EXPIRES, Markers
from pynacount.plain import (
    ADDS_AGAIN,
    ONCE_AGAIN,
    SETS_AGAIN,
    comparison_of,
    follow,
    increment_of,
    marker_of,
)
from pynacount.plan import Plan
from pynacount.pool import DEFAULT_WORKERS, Incremented, amounts_of, check_workers, refuse_twice, run_each
from pynacount.protocols.comparing import compare_and_set
from pynacount.protocols.incrementing import Increment, PlainItem, Style, increment, read_moved
from pynacount.protocols.incrementing_shards import increment_in_shard, plan_in_shard
from pynacount.protocols.marking import increment_once, plan_once
from pynacount.protocols.reading import read_attributes, read_tallies, read_tally
from pynacount.protocols.repairing import Repair, check_repairable, repair, repair_by_revision
from pynacount.protocols.resharding import Resharded, reshard
from pynacount.protocols.seeding import seed
from pynacount.protocols.summing import MOST_SUMMED, send_summed
from pynacount.refs import Ref
from pynacount.shards import MAX_SHARDS, taken_shards
from pynacount.steps import Item, Protocol

if TYPE_CHECKING:
    from pynacount.model import CountedModel
    from pynacount.relations import CountedIn

R = TypeVar("R", bound="CountedModel")

DEFAULT_LAZY_SEED_LIMIT = 10_000
"""Children that a writer counts on its way: about one megabyte of likes, one page of a query."""
DEFAULT_SETTLE = 1.0
"""Seconds after which a committed transaction is taken to be visible to queries (AWS speaks of milliseconds)."""
MAX_GROUP_COMMIT = 1000
"""Milliseconds: the longest that a call may be made to wait for others."""

_MISSING = ("seed", "zero", "defer")
_ON_DELETE = ("restrict", "cascade", "leave")


class KeyAttribute(UnicodeAttribute):
    """A key made from a template: ``KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")``.

    The template's variables become constructor arguments and read-only properties of the model. ``{n:int}``
    takes ints, ``{n}`` strings.

    :param template: literal text and ``{variables}``.
    :param escape: percent-encode the delimiter in values, instead of refusing values that contain it.
    :param delimiter: the characters that values must not contain; by default the punctuation of the template.
    :raises KeyTemplateError: for a template that could not be read back.
    """

    def __init__(
        self,
        template: str,
        *,
        hash_key: bool = False,
        range_key: bool = False,
        attr_name: str | None = None,
        escape: bool = False,
        delimiter: str | None = None,
    ) -> None:
        if hash_key == range_key:
            raise DeclarationError(
                f"KeyAttribute({template!r}) is either the hash key or the range key: pass hash_key=True or "
                f"range_key=True"
            )
        super().__init__(hash_key=hash_key, range_key=range_key, attr_name=attr_name)
        self.max_bytes = MAX_HASH_BYTES if hash_key else MAX_RANGE_BYTES
        self.template = KeyTemplate.compile(text=template, escape=escape, delimiter=delimiter, max_bytes=self.max_bytes)

    def __set__(self, instance: Any, value: str | None) -> None:
        super().__set__(instance, value)
        instance.__dict__.pop("_key_variables", None)  # they are read from the key, once


@dataclass(frozen=True, slots=True)
class StoredTally:
    """A tally on its way from the table into an instance: the only value that a counter can be set to."""

    number: Amount


class CounterField(Attribute[int]):
    """A number on a parent item that says how much its children count for.

    Present means exact; on an instance it reads as ``int`` (``Decimal`` for fractional amounts), or None while it is
    not seeded. It is moved by children alone: assigning to it raises :class:`UncountedWrite`.
    One that no :class:`CountedIn` names is a plain counter, moved by :meth:`increment` and :meth:`compare_and_set`.

    :param attr_name: the attribute's name in the table, as for any PynamoDB attribute.
    :param missing: what a write does with a parent that has no tally: ``"seed"`` counts its children first;
        ``"zero"`` starts from 0, for a table that is known to hold no uncounted children; ``"defer"`` writes the child
        uncounted and leaves the counting for later, while old code that does not count is still running.
    :param on_delete: what ``delete()`` of a parent does about its children: ``"restrict"`` refuses while there are
        any, ``"cascade"`` deletes them first, ``"leave"`` leaves them.
    :param lazy_seed_limit: the most children that a writer counts on its way; past it, ``CounterNotSeeded``.
    :param settle: seconds after which a committed transaction is taken to be visible to queries.
    :param revision: the name of an attribute that every counted write of the parent raises. With it a parent can be
        repaired without holding up its writers, if a count can be finished between two of them.
    :param minimum: the least that the number may become; a write that would take it below raises
        :class:`CounterBoundError`. Seeding and repair state what is there, and are not held to it.
    :param maximum: the most that it may become.
    :param shards: over how many sibling items the number of a new parent is spread, 1 to 99; 1 is none: the number is
        on the parent itself. Parents that are there already keep the number of shards that they have; ``pynacount
        reshard`` changes it. Not with bounds, nor with a ``revision``.
    :param once_key: for ``increment(once=...)``: the key templates of the markers, the sort key's second; by default
        ``ONCE#{once}`` and the item's own keys with the counter's attribute. ``{once}`` is the token; the model's key
        variables can be used too.
    :param once_days: the days for which a marker lives, and its token is known.
    :param once_expires: the marker's attribute that says until when, in epoch seconds: the table's TTL attribute.
    :param group_commit: milliseconds, above 0 and up to 1000: calls of this process's threads that arrive for one item
        within that time share one request. Each waits so much longer, and gets its own answer.
    """

    attr_type = NUMBER
    null = True

    def __init__(
        self,
        attr_name: str | None = None,
        *,
        missing: Missing = "seed",
        on_delete: OnDelete = "restrict",
        lazy_seed_limit: int = DEFAULT_LAZY_SEED_LIMIT,
        settle: float = DEFAULT_SETTLE,
        revision: str | None = None,
        minimum: float | Decimal | None = None,
        maximum: float | Decimal | None = None,
        shards: int = 1,
        once_key: str | tuple[str, ...] = (),
        once_days: float = DEFAULT_DAYS,
        once_expires: str = DEFAULT_EXPIRES,
        group_commit: float | None = None,
    ) -> None:
        if attr_name is not None and (not isinstance(attr_name, str) or not attr_name):
            raise DeclarationError(f"CounterField({attr_name!r}): attr_name must be the name of an attribute")
        _one_of("missing", missing, _MISSING)
        _one_of("on_delete", on_delete, _ON_DELETE)
        if isinstance(lazy_seed_limit, bool) or not isinstance(lazy_seed_limit, int) or lazy_seed_limit < 0:
            raise DeclarationError(f"CounterField(lazy_seed_limit={lazy_seed_limit!r}) must be an int of 0 or more")
        if isinstance(settle, bool) or not isinstance(settle, (int, float)) or not 0 <= settle < math.inf:
            raise DeclarationError(f"CounterField(settle={settle!r}) must be a number of seconds, 0 or more")
        if revision is not None and (not isinstance(revision, str) or not revision):
            raise DeclarationError(f"CounterField(revision={revision!r}) must be the name of an attribute")
        if missing == "zero" and on_delete == "leave":
            raise DeclarationError(
                'CounterField(missing="zero", on_delete="leave"): a parent that comes again would start from 0 beside '
                'the children that were left; declare missing="seed"'
            )
        _check_once(once_key, once_days, once_expires)
        _check_group_commit(group_commit)
        super().__init__(attr_name=attr_name, null=True)
        self.group_commit = group_commit
        self.bounds = _bounds(minimum, maximum)
        _check_shards(shards, bounded=self.bounds != NO_BOUNDS, revised=revision is not None)
        self.shards = shards
        self.once_key = (once_key,) if isinstance(once_key, str) else tuple(once_key)
        self.once_days = float(once_days)
        self.once_expires = once_expires
        self._markers: Markers | None = None
        self.missing: Missing = missing
        self.on_delete: OnDelete = on_delete
        self.lazy_seed_limit = lazy_seed_limit
        self.settle = settle
        self.revision = revision
        self.owner: Any = None
        self.name = ""
        self.relations: list[CountedIn] = []
        self.origin: CounterField | None = None
        self.in_a_set = False
        self._tally: Tally | None = None

    def __set_name__(self, owner: type[Any], name: str) -> None:
        super().__set_name__(owner, name)
        self.owner, self.name = owner, name

    def copy_for(self, owner: type[Any]) -> CounterField:
        """The same counter, speaking of a subclass: its table, its keys."""
        twin = copy.copy(self)
        twin.attr_path = list(self.attr_path)
        twin.owner, twin.relations, twin.origin, twin._tally, twin._markers = owner, [], self, None, None
        return twin

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, instance: None, owner: Any) -> Self: ...

        @overload
        def __get__(self, instance: Any, owner: Any) -> int | None: ...

        def __get__(self, instance: Any, owner: Any) -> Self | int | None: ...

    else:

        def __get__(self, instance, owner):
            value = super().__get__(instance, owner)
            if value is None and self.missing == "zero" and not self.is_elsewhere(instance):
                return 0
            return value

    def __set__(self, instance: Any, value: StoredTally) -> None:  # type: ignore[override]
        if not isinstance(value, StoredTally):
            raise UncountedWrite(f"{self.label} cannot be assigned: {self.way_out()}")
        super().__set__(instance, value.number)  # type: ignore[arg-type]

    def is_elsewhere(self, instance: Any) -> bool:
        """Whether the number is in shards, as far as an instance tells; its item alone does not show it then."""
        return f"{self.attr_name}Shards" in (getattr(instance, "_stored_item", None) or ())

    def show_elsewhere(self, instance: Any) -> None:
        """An instance shows no number from now on: it is in shards."""
        instance.attribute_values.pop(self.name, None)
        if instance._stored_item is not None and not self.is_elsewhere(instance):
            mark = {f"{self.attr_name}Shards": {NUMBER: str(self.shards)}}
            instance._stored_item = {**instance._stored_item, **mark}

    def serialize(self, value: Any) -> Any:
        """The number as DynamoDB's JSON has it."""
        return str(value)

    def deserialize(self, value: Any) -> Any:
        """The stored number, marked as such."""
        return StoredTally(stored_amount(value))

    def get_value(self, value: dict[str, Any]) -> Any:
        """The stored number's text. Raises :class:`CounterTypeError` where something else is stored."""
        if NUMBER not in value:
            raise CounterTypeError(f"{self.label} is stored as {value!r}, which is no number")
        return value[NUMBER]

    @property
    def label(self) -> str:
        """How messages speak of this counter: ``Post.like_tally``."""
        return f"{self.owner.__name__}.{self.name}" if self.owner is not None else self.name or "a counter"

    @property
    def counted_relations(self) -> list[CountedIn]:
        """The relations that count in this tally; a model and its subclass over the same items share them."""
        return self.root().relations

    def root(self) -> CounterField:
        """The counter of the first model over the same items: of this one, or of a base with its table and its keys."""
        origin = self.origin
        if origin is None or not self.owner._counting.has_items_of(origin.owner._counting):
            return self
        return origin.root()

    @property
    def is_counted(self) -> bool:
        """Whether children are counted in it; else it is a plain counter."""
        return self.in_a_set or bool(self.counted_relations)

    @property
    def is_streamed(self) -> bool:
        """Whether it is kept from the stream of its children's table, and not by the transactions that write them."""
        return any(relation.by == "stream" for relation in self.counted_relations)

    @property
    def own_names(self) -> tuple[str, ...]:
        """The attributes on the parent, beside the tally, that are the library's to write."""
        marks = tuple(self.attr_name + mark for mark in MARKS)
        return marks if self.revision is None else (*marks, self.revision)

    @property
    def options(self) -> tuple[Any, ...]:
        """What two models over the same items must declare alike; ``"defer"`` and ``"seed"`` may meet in a rollout."""
        return (self.missing == "zero", self.on_delete, self.revision, self.bounds)

    def way_out(self) -> str:
        """What to do instead of writing the number."""
        if self.is_streamed:
            return (
                f"its children's stream alone moves it; save or delete children, and where it is absent or wrong, "
                f"pynacount audit {self.tally.target} says what counts it"
            )
        if self.is_counted:
            return "its children alone move it; add or remove children, or call seed(ref) where it is absent"
        return f"move it in one write, by {self.label}.increment(ref) or compare_and_set(ref, expected, new)"

    @property
    def tally(self) -> Tally:
        """The declaration, compiled."""
        if self._tally is None:
            schema = self.owner._counting.schema
            module = self.owner.__module__
            self._tally = Tally(
                label=self.label,
                attr_name=self.attr_name,
                hash_name=schema.names[0],
                missing=self.missing,
                on_delete=self.on_delete,
                lazy_seed_limit=self.lazy_seed_limit,
                settle=self.settle,
                revision=self.revision,
                closes=any(c.on_delete == "cascade" for c in self.owner._counting.counters.values()),
                target=f"{module}:{self.label}",
                sources=self.sources,
                bounds=self.bounds,
                shards=self.shards,
            )
        return self._tally

    @property
    def markers(self) -> Markers:
        """Where the markers of its ``once=`` tokens are, compiled. Raises :class:`DeclarationError`."""
        schema = self.owner._counting.schema
        if self._markers is None or self._markers.schema is not schema:
            markers = Markers.of(self.label, self.attr_name, schema, self.once_key, self.once_days, self.once_expires)
            self.owner._counting.check_markers(markers)
            self._markers = markers
        return self._markers

    def sources(self) -> tuple[Source, ...]:
        """Where this counter's children are found. Raises :class:`DeclarationError` for a child never declared."""
        return tuple(relation.source() for relation in self.places())

    def places(self) -> tuple[CountedIn, ...]:
        """The relations that count in this tally, one for each place: a model and its subclass have the same children.

        Raises :class:`DeclarationError` for a child never declared.
        """
        self.owner._counting.check_sets()
        places: dict[Any, CountedIn] = {}
        for relation in self.counted_relations:
            places.setdefault((relation.place(), relation.name), relation)
        return tuple(places.values())

    def value(self, ref: CountedModel, *, consistent_read: bool = False) -> int | None:
        """The tally by one ``GetItem``; None while it is not seeded.

        Raises :class:`ParentMissing` where there is no such parent. A plain counter is None where it was never moved,
        also where there is no item yet.
        """
        key = self.owner._counting.key_of(ref)
        if not self.is_counted:
            return self._plain_value(key, consistent_read)
        found: Any = self.owner._counting.driver(self.label).run(read_tally(self.tally, key, consistent_read))
        return found  # type: ignore[no-any-return]  # an int, but for fractional amounts

    def values(self, refs: Iterable[R], *, consistent_read: bool = False) -> dict[R, int | None]:
        """The tallies of many parents, by as few ``BatchGetItem`` as possible (100 keys each).

        Keyed by the refs as given. None where a tally is not seeded; a parent that does not exist is left out.
        """
        keys = {ref: self.owner._counting.key_of(ref) for ref in refs}
        found: dict[Any, Any] = self.owner._counting.driver(self.label, renew=True).run(
            read_tallies(self.tally, list(keys.values()), consistent_read, plain=not self.is_counted)
        )
        return {ref: found[key] for ref, key in keys.items() if key in found}

    def _plain_value(self, key: ItemKey, consistent_read: bool) -> int | None:
        driver, tally = self.owner._counting.driver(self.label), self.tally
        item: Item | None = None
        if tally.shards == 1:
            names = [self.attr_name, tally.shards_name]
            item = driver.run(read_attributes(key, names, consistent_read=consistent_read))
        found: Any
        if tally.shards > 1 or tally.shards_name in (item or {}):
            found = driver.run(read_tally(tally, key, consistent_read, plain=True))
        else:
            found = PlainItem(self.label, key).number(tally, item)
        return 0 if found is None and self.missing == "zero" else found

    def increment(
        self,
        ref: CountedModel,
        by: float | Decimal = 1,
        *,
        once: str | None = None,
        also: Mapping[str, float | Decimal] | None = None,
        set: Mapping[str, Any] | None = None,
        style: Style = "add",
    ) -> int:
        """Move a plain counter, in one write and without reading it; return it as it is then.

        Of a counter in shards, one shard is moved, and the sum of all is read afterwards.
        An item or an attribute that is not there starts from 0. (An item that is a child, or that children are counted
        in, must be there.) A write whose answer was lost is sent again, so that it is counted **at least once**.

        :param by: the amount, not 0.
        :param once: a token of the caller's own, such as an order's id: counted exactly once for that token, for as
            long as its marker lives. Marker and counter are written in one transaction; the number that is returned is
            read after it. A token that was counted before is not counted again: the number is returned all the same.
        :param also: other plain counters of the item that are moved in the same write, by name; each by its amount.
        :param set: attributes of the item that are set in the same write, by name; None removes one.
        :param style: how the expression says it: ``"add"``, or ``"set"`` with ``if_not_exists``.

        Raises :class:`CounterBoundError` where it would take a counter past a bound, with nothing written;
        :class:`TokenReused` for a token that came with another amount; :class:`UncountedWrite` for a counter that
        children are counted in; :class:`OutcomeUnknown` where it may or may not have been counted;
        :class:`CounterContention`, :class:`CounterTypeError`, :class:`KeyTemplateError`.
        """
        move = increment_of(self, ref, by, style, set, also, "increment")
        return self._move(ref, move, once)

    def decrement(
        self,
        ref: CountedModel,
        by: float | Decimal = 1,
        *,
        once: str | None = None,
        also: Mapping[str, float | Decimal] | None = None,
        set: Mapping[str, Any] | None = None,
        style: Style = "add",
    ) -> int:
        """As :meth:`increment`, but ``by`` is taken off. The amounts in ``also`` are added, as there."""
        move = increment_of(self, ref, _taken_off(f"{self.label}.decrement", by), style, set, also, "decrement")
        return self._move(ref, move, once)

    def increment_many(
        self,
        refs: Iterable[R] | Mapping[R, float | Decimal],
        by: float | Decimal = 1,
        *,
        once: str | None = None,
        workers: int = DEFAULT_WORKERS,
    ) -> Incremented[R]:
        """Increment the plain counters of many items at once: an :meth:`increment` for each, in a few threads.

        DynamoDB has no batch increment, so each is a write of its own, with the whole of ``Meta.counted_deadline``.
        One that is refused does not keep the others from being counted; see :class:`Incremented`.

        :param refs: refs or instances, or a dict of them and amounts; no item twice.
        :param by: the amount for each; not beside a dict, which has them.
        :param once: as for :meth:`increment`; the token counts once for each ref.
        :param workers: how many requests are under way at once. Threads are started for two refs or more, and have
            ended when it returns; with ``workers=1`` there are none.

        Raises, before anything is sent, what is wrong with the call: :class:`UncountedWrite` for a counter that
        children are counted in, :class:`CounterTypeError` for an amount, ``ValueError`` for an item that comes twice
        and for ``by`` beside a dict.
        """
        about = f"{self.label}.increment_many"
        check_workers(workers, about)
        calls: dict[R, Callable[[], int]] = {}
        keys: dict[R, ItemKey] = {}
        for ref, amount_ in amounts_of(refs, by, about).items():
            move = increment_of(self, ref, amount_, "add", None, None, "increment_many")
            if once is not None:
                marker_of(self, ref, once)  # a token that cannot be a key is told now
            calls[ref] = partial(self._move, ref, move, once)
            keys[ref] = move.item.key
        refuse_twice(keys, about)
        return run_each(calls, workers)

    def compare_and_set(self, ref: CountedModel, expected: float | Decimal | None, new: float | Decimal) -> bool:
        """Set a plain counter to ``new`` if it is ``expected`` (None: if it is absent); whether it was.

        False: it is something else, and nothing was written. It goes under a token, so that the answer is true also
        where the first try's was lost. Raises :class:`CounterBoundError` where ``new`` is past the bound that it moves
        towards, and else what :meth:`increment` raises.
        """
        comparison = comparison_of(self, ref, expected, new)
        about = comparison.item.about
        done: bool = self.owner._counting.driver(about, again=SETS_AGAIN).run(compare_and_set(comparison))
        if done and not isinstance(ref, Ref):
            self.__set__(ref, StoredTally(comparison.new))
        return done

    def plan_increment(
        self,
        ref: CountedModel,
        by: float | Decimal = 1,
        *,
        once: str | None = None,
        also: Mapping[str, float | Decimal] | None = None,
        set: Mapping[str, Any] | None = None,
        style: Style = "add",
    ) -> Plan:
        """What ``increment()`` would send, as data; ``by`` is negative for a decrement. Nothing is sent."""
        move = increment_of(self, ref, by, style, set, also, "increment")
        marker = None if once is None else marker_of(self, ref, once)
        if self.shards > 1:
            taken = taken_shards(self.tally, move.item.key)
            return plan_in_shard(move, self.tally, marker, taken if taken > 1 else self.shards)
        return move.plan() if marker is None else plan_once(move, marker)

    def plan_compare_and_set(self, ref: CountedModel, expected: float | Decimal | None, new: float | Decimal) -> Plan:
        """What ``compare_and_set()`` would send, as data; nothing is sent."""
        return comparison_of(self, ref, expected, new).plan()

    def _move(self, of: CountedModel, move: Increment, once: str | None) -> int:
        counting, about = self.owner._counting, move.item.about
        request = idempotency.current.get() if once is None else None
        if request is not None and all(kind == "S" for kind, _ in move.item.key.values):  # where a marker can be kept
            number = self._move(of, move, request.token((self.label, move.item.key)))
            request.finish((self.label, move.item.key))
            return number
        if once is None and self.shards == 1 and self.group_commit is not None and _is_plain_move(move):
            found = self._move_in_group(move, self.group_commit)
        elif once is None and self.shards == 1:
            found = counting.driver(about, again=ADDS_AGAIN).run(increment(move))
        else:
            marker = None if once is None else marker_of(self, of, once)
            if self.shards > 1:
                again = ADDS_AGAIN if marker is None else ONCE_AGAIN
                counting.driver(about, again=again).run(increment_in_shard(move, self.tally, marker))
            elif marker is not None:
                counting.driver(about, again=ONCE_AGAIN).run(increment_once(move, marker))
            try:
                found = counting.driver(about).run(self._read_moved(move))
            except PynamoDBException as error:
                told = f"for once={once!r}, " if once is not None else ""
                raise OutcomeUnknown(
                    f"{about}: it is counted, {told}but the number could not be read afterwards ({error.msg}). "
                    f"{ADDS_AGAIN if once is None else ONCE_AGAIN}",
                    error,
                ) from error
        follow(self, of, move, found)
        moved: Any = move.item.number(self.tally, found)
        return 0 if moved is None else moved  # None: gone again, where it is read afterwards

    def _read_moved(self, move: Increment) -> Protocol[Item]:
        """What the increment wrote, as it is now, by a consistent read; of shards, their sum."""
        if self.shards == 1:
            return (yield from read_moved(move))
        number = yield from read_tally(self.tally, move.item.key, True, plain=True)
        return {} if number is None else {self.attr_name: {NUMBER: str(number)}}

    def _move_in_group(self, move: Increment, milliseconds: float) -> Item:
        driver = self.owner._counting.driver(move.item.about, again=ADDS_AGAIN)
        terms = Terms(milliseconds / 1000, driver.deadline, MOST_SUMMED, move.item.about, ADDS_AGAIN)
        of = (driver.connection, move.item.key, self.attr_name)
        found: Item = call_in_group(LINES, of, move, terms, lambda group: send_summed(driver, group))
        return found

    def seed(self, ref: CountedModel) -> int:
        """Count the parent's children and set the tally, if it is absent; return the tally.

        Safe at any time, by any number of callers at once. Costs the read units of all the children.
        Raises :class:`ParentMissing` where there is no such parent, or it is being deleted;
        :class:`CounterNotSeeded` where only a scan would find the children: ``pynacount migrate`` makes it;
        :class:`DeclarationError` for a plain counter.
        """
        self.refuse_plain(f"{self.label}.seed()")
        self._refuse_streamed("seed")
        found: Any = self.owner._counting.driver(f"{self.label}.seed", renew=True).run(
            seed(self.tally, self.owner._counting.key_of(ref))
        )
        return found  # type: ignore[no-any-return]

    def _refuse_streamed(self, verb: str) -> None:
        if self.is_streamed:
            raise DeclarationError(
                f"{self.label}.{verb}(): it is kept from a stream, and a count alone does not say which records are in "
                f"it; call pynacount.streams.seed(), or pynacount migrate {self.tally.target}"
            )

    def refuse_plain(self, about: str) -> None:
        """Raise :class:`DeclarationError` where no children are known that could be counted."""
        if not self.is_counted:
            raise DeclarationError(
                f"{about} would count children, and no CountedIn names {self.label}: as a plain "
                f"counter it would become 0. If it has children, import their module first"
            )

    def reshard(self, ref: CountedModel, to: int) -> Resharded:
        """Bring one parent's tally into ``to`` shards (1: onto the parent itself); return how many it had, and has.

        Safe at any time, by any number of callers at once; nobody waits, and nothing is counted anew. A parent without
        a tally is left as it is (None). The parent keeps its number of shards whatever is declared.
        Raises :class:`ParentMissing`; :class:`CounterContention` where a number could not be moved because it never
        stood still; :class:`DeclarationError` for a counter that cannot be in shards.
        """
        self.check_reshard(to)
        driver = self.owner._counting.driver(f"{self.label}.reshard", renew=True)
        done: Resharded = driver.run(
            reshard(self.tally, self.owner._counting.key_of(ref), to, plain=not self.is_counted)
        )
        return done

    def check_reshard(self, to: int) -> None:
        """Raise :class:`DeclarationError` where the counter cannot be in so many shards."""
        about = f"{self.label}.reshard(to={to!r})"
        if isinstance(to, bool) or not isinstance(to, int) or not 1 <= to <= MAX_SHARDS:
            raise DeclarationError(f"{about} must be given an int from 1 to {MAX_SHARDS}")
        if to == 1:
            return
        why = (
            "is kept from a stream and not declared in shards (declare CounterField(shards=...) and deploy that)"
            if self.is_streamed and self.shards == 1
            else "has a minimum or a maximum, and no write knows the sum of all shards"
            if self.bounds != NO_BOUNDS
            else "has a revision, which is on the parent"
            if self.revision is not None
            else 'is declared missing="zero", and a shard that is not there says nothing of its parent'
            if self.missing == "zero" and self.is_counted and not self.is_streamed
            else ""
        )
        if why:
            raise DeclarationError(f"{about}: the counter {why}; it cannot be in shards")
        self.owner._counting.check_shards(self)

    def repair(self, ref: CountedModel, *, fence: bool = False) -> Repair:
        """Count the parent's children anew and set the tally, whatever it says now; return what was and is.

        Safe at any time, by any number of callers at once. The tally is taken away in one write (a *fence*), its old
        value kept aside for readers, and the parent is seeded: writers of this parent wait for the count, or help with
        it. Where the counter has a ``revision``, the number is set without a fence, if no child came or went
        meanwhile; ``fence=True`` asks for the fence all the same.
        Raises :class:`ParentMissing` and :class:`CounterNotSeeded` as :meth:`seed` does, and has written nothing then;
        :class:`CounterContention` where children came and went throughout each of several counts by revision.
        """
        self.refuse_plain(f"{self.label}.repair()")
        self._refuse_streamed("repair")
        check_repairable(self.tally, fence=self.revision is None or fence)
        key = self.owner._counting.key_of(ref)
        by_revision = self.revision is not None and not fence
        protocol = repair_by_revision(self.tally, key) if by_revision else repair(self.tally, key)
        done: Repair = self.owner._counting.driver(f"{self.label}.repair", renew=True).run(protocol)
        return done


def _is_plain_move(move: Increment) -> bool:
    """Whether nothing else is moved or set in the same write."""
    return len(move.moves) == 1 and not move.settings


def _check_shards(shards: Any, *, bounded: bool, revised: bool) -> None:
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
        raise DeclarationError(
            f"CounterField(shards={shards!r}) must be an int from 1 to {MAX_SHARDS}: with the parent, all shards are "
            f"written in one transaction, which takes 100 items"
        )
    if shards > 1 and bounded:
        raise DeclarationError(
            f"CounterField(shards={shards}) cannot have a minimum or a maximum: no write knows the sum of all shards"
        )
    if shards > 1 and revised:
        raise DeclarationError(
            f"CounterField(shards={shards}, revision=...): a revision is on the parent, where all writers would meet "
            f"again; leave it out, and repair by a fence"
        )


def _taken_off(about: str, by: float | Decimal) -> Amount:
    return negative(amount(by, about))


def _bounds(minimum: Any, maximum: Any) -> Bounds:
    if minimum is None and maximum is None:
        return NO_BOUNDS
    found: list[Amount | None] = []
    for name, given in (("minimum", minimum), ("maximum", maximum)):
        try:
            found.append(None if given is None else amount(given, f"CounterField({name}=...)"))
        except CounterTypeError as error:
            raise DeclarationError(error.msg) from None
    least, most = found
    if least is not None and most is not None and least > most:
        raise DeclarationError(f"CounterField(minimum={minimum!r}, maximum={maximum!r}): the minimum is the greater")
    return Bounds(least, most)


def _check_once(key: Any, days: Any, expires: Any) -> None:
    texts = (key,) if isinstance(key, str) else key
    if not isinstance(texts, (tuple, list)) or not all(isinstance(text, str) for text in texts) or len(texts) > 2:
        raise DeclarationError(
            f"CounterField(once_key={key!r}) must be the template of a key, or two of them, as in "
            f'("ONCE#{{once}}", "STOCK")'
        )
    if isinstance(days, bool) or not isinstance(days, (int, float)) or not 0 < days < float("inf"):
        raise DeclarationError(f"CounterField(once_days={days!r}) must be a number of days above 0")
    if not isinstance(expires, str) or not expires:
        raise DeclarationError(f"CounterField(once_expires={expires!r}) must be the name of an attribute")


def _check_group_commit(milliseconds: Any) -> None:
    if milliseconds is None:
        return
    number = isinstance(milliseconds, (int, float)) and not isinstance(milliseconds, bool)
    if not number or not 0 < milliseconds <= MAX_GROUP_COMMIT:
        raise DeclarationError(
            f"CounterField(group_commit={milliseconds!r}) must be a number of milliseconds above 0 and up to "
            f"{MAX_GROUP_COMMIT}; each call waits that long for others. 5 is much already"
        )


def _one_of(name: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise DeclarationError(f"CounterField({name}={value!r}) is not known; write one of {', '.join(choices)}")
