"""A transaction as data: what will be written, under which guards, before anything is sent.

A plan can be shown (:meth:`Plan.request`), priced (:meth:`Plan.cost`) and compared in a test without a
database. Each write says who *claims* it: whoever put a guard on it also reads what its failure means.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from pynacount.amounts import Amount, negative, plus, stored_amount
from pynacount.errors import PlanError
from pynacount.expressions import (
    ZERO,
    Absent,
    Action,
    Add,
    Bound,
    Exists,
    Given,
    GivenAction,
    Guard,
    Increase,
    Names,
    Raise,
    Remove,
    Same,
    Set,
    condition_text,
    update_text,
)
from pynacount.keys import ItemKey
from pynacount.sizes import Cost, item_size, write_units
from pynacount.steps import Item, Send

MAX_TRANSACTION_ITEMS = 100
"""Most actions of one ``TransactWriteItems`` (AWS: its API reference; it was 25 until 2022)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Guards on a write, and by whom: ``by`` reads the refusal when one of them does not hold."""

    guards: tuple[Guard, ...]
    by: Any


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole item."""

    key: ItemKey
    item: Item
    claims: tuple[Claim, ...]

    def request(self) -> dict[str, Any]:
        """The argument of boto3's ``put_item``."""
        return {"TableName": self.key.table, "Item": self.item, **_fragment((), self.claims)}

    def size(self, known: int) -> int:
        """Bytes of the item as it will be."""
        return max(item_size(self.item), known)


@dataclass(frozen=True, slots=True)
class Update:
    """Change attributes of an item."""

    key: ItemKey
    actions: tuple[Action, ...]
    claims: tuple[Claim, ...]

    def request(self) -> dict[str, Any]:
        """The argument of boto3's ``update_item``."""
        return {"TableName": self.key.table, "Key": self.key.wire(), **_fragment(self.actions, self.claims)}

    def size(self, known: int) -> int:
        """Bytes of the item, as far as the plan knows it, or ``known`` where that is more."""
        item = self.key.wire()
        item.update({a.name: a.value for a in self.actions if isinstance(a, Set)})
        item.update({a.name: {"N": str(a.amount)} for a in self.actions if isinstance(a, (Add, Increase))})
        item.update({a.name: {"N": str(a.first)} for a in self.actions if isinstance(a, Raise)})
        return max(item_size(item), known)


@dataclass(frozen=True, slots=True)
class _OfKey:
    key: ItemKey
    claims: tuple[Claim, ...]

    def request(self) -> dict[str, Any]:
        """The argument of boto3's ``delete_item``, or of a transaction's ``ConditionCheck``."""
        return {"TableName": self.key.table, "Key": self.key.wire(), **_fragment((), self.claims)}

    def size(self, known: int) -> int:
        """Bytes of the item, as far as the plan knows it, or ``known`` where that is more."""
        return max(item_size(self.key.wire()), known)


class Delete(_OfKey):
    """Delete an item."""

    __slots__ = ()


class Check(_OfKey):
    """Write nothing, but let the transaction pass only under guards."""

    __slots__ = ()


Write: TypeAlias = Put | Update | Delete | Check

_TRANSACT_NAMES = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}
_OPERATIONS = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of one logical operation, none of them sent yet.

    ``reads`` are the sizes in bytes of the items that the operation reads beside, each by a consistent ``GetItem``.
    ``needs_token``: whether a write that stands alone is sent as a transaction all the same, because its caller is
    told whether it was the one who did it, and only a token tells that after a lost answer. ``returns``: what a plain
    write gives back, its ``ReturnValues``; a transaction gives back nothing.
    """

    writes: tuple[Write, ...]
    reads: tuple[int, ...] = ()
    needs_token: bool = False
    returns: str = ""

    @property
    def operation(self) -> str:
        """``TransactWriteItems``; or, for one write alone, the plain operation, at half the price."""
        if len(self.writes) == 1 and not self.needs_token and not isinstance(self.writes[0], Check):
            return _OPERATIONS[type(self.writes[0])]
        return "TransactWriteItems"

    def request(self) -> dict[str, Any]:
        """The exact argument of boto3's ``transact_write_items`` (or of :attr:`operation`, for one write alone).

        The ``ClientRequestToken`` is added when it is sent: one for each logical operation. The request is the
        caller's own to change.
        """
        return copy.deepcopy(self._request())

    def _request(self) -> dict[str, Any]:
        if self.operation != "TransactWriteItems":
            request = self.writes[0].request()
            return {**request, "ReturnValues": self.returns} if self.returns else request
        return {"TransactItems": [{_TRANSACT_NAMES[type(write)]: write.request()} for write in self.writes]}

    def send(self) -> Send:
        """The step that commits this plan."""
        return Send(self.operation, self._request())

    def cost(self, stored: Mapping[ItemKey, int] | None = None) -> Cost:
        """What the plan consumes, in capacity units, when it succeeds at its first try.

        2 write units for each started KB of each item in a transaction, 1 for a write alone. DynamoDB charges an
        update for the larger of the item before and after: ``stored`` gives the sizes in bytes of the items as they
        are; an item not in it is priced by what the plan itself says of it, which is at least one unit.
        """
        known = stored or {}
        in_transaction = self.operation == "TransactWriteItems"
        wcu = sum(write_units(w.size(known.get(w.key, 0)), in_transaction=in_transaction) for w in self.writes)
        return Cost(wcu=wcu, rcu=sum(max(1, -(-size // 4096)) for size in self.reads), items=len(self.writes))


def build(writes: Iterable[Write], reads: tuple[int, ...] = (), needs_token: bool = False) -> Plan:
    """A plan of these writes, those that meet on one item merged: a transaction may not touch an item twice.

    Raises :class:`PlanError` where two cannot be merged, and past the 100 items of a transaction.
    """
    merged: dict[ItemKey, Write] = {}
    for write in writes:
        other = merged.get(write.key)
        merged[write.key] = write if other is None else _merge(other, write)
    if len(merged) > MAX_TRANSACTION_ITEMS:
        raise PlanError(
            f"the transaction writes or checks {len(merged)} items, parents included; DynamoDB takes "
            f"{MAX_TRANSACTION_ITEMS}. Split it into several transactions"
        )
    return Plan(tuple(merged.values()), reads, needs_token)


def _merge(first: Write, second: Write) -> Write:
    claims = first.claims + second.claims
    match first, second:
        case (Put(), Check()):
            return _put_checked(first, second)
        case (Check(), Put()):
            return _put_checked(second, first)
        case (Check(), (Put() | Update() | Delete() | Check())):
            return replace(second, claims=claims)
        case ((Put() | Update() | Delete()), Check()):
            return replace(first, claims=claims)
        case (Update(), Update()):
            _refuse_bounded_twice(first, second)
            return replace(first, actions=_merge_actions(first, second), claims=claims)
        case (Put(), Update()):
            return _put_counted(first, second)
        case (Update(), Put()):
            return _put_counted(second, first)
        case (Delete(), Update()):
            return _delete_counted(first, second)
        case (Update(), Delete()):
            return _delete_counted(second, first)
    raise PlanError(
        f"two writes of the item {first.key} of table {first.key.table} in one transaction cannot be merged "
        f"({type(first).__name__} and {type(second).__name__}); write it once"
    )


def _merge_actions(first: Update, second: Update) -> tuple[Action, ...]:
    adds: dict[str, Amount] = {}
    others: dict[Any, Action] = {}
    for action in first.actions + second.actions:
        if isinstance(action, Add):
            adds[action.name] = plus(adds.get(action.name, 0), action.amount)
            continue
        name = _path(action)
        if isinstance(action, Raise) and isinstance(others.get(name), Raise):
            continue  # once is enough
        for other in (*others, *adds):
            _refuse_twice(name, other, first.key)
        others[name] = action
    for name in adds:
        for other in others:
            _refuse_twice(name, other, first.key)
    return (*others.values(), *(Add(name, total) for name, total in adds.items() if total))


def _refuse_bounded_twice(first: Update, second: Update) -> None:
    """Each of two moves may be within a bound, and both together past it."""
    ours, theirs = (
        {(g.name, g.operator) for claim in write.claims for g in claim.guards if isinstance(g, Bound)}
        for write in (first, second)
    )
    for name, _ in ours & theirs:
        raise PlanError(
            f"{name} of the item {first.key} has a bound, and is moved twice in one transaction; move it once"
        )


def _path(action: Action) -> str:
    return str(action.action.values[0]).replace("'", "") if isinstance(action, GivenAction) else action.name


def _refuse_twice(one: str, other: str, key: ItemKey) -> None:
    """DynamoDB refuses an expression in which two paths overlap."""
    if one == other or one.startswith((f"{other}.", f"{other}[")) or other.startswith((f"{one}.", f"{one}[")):
        raise PlanError(f"{one} of the item {key} is written twice in one transaction; write it once")


def _put_checked(put: Put, check: Check) -> Put:
    """What the new item itself fulfils need not be asked of the old one."""
    kept = tuple(
        claim
        for claim in check.claims
        if not all(not isinstance(guard, Given) and guard.holds(put.item) for guard in claim.guards)
    )
    return replace(put, claims=put.claims + kept)


def _put_counted(put: Put, update: Update) -> Put:
    """A parent that is born in the transaction that counts in it: the sum goes into its first write."""
    item = dict(put.item)
    for claim in update.claims:
        for guard in claim.guards:
            if isinstance(guard, Bound) and guard.name in item and not guard.holds(item):
                tally = next(tally for tally in claim.by.tallies if tally.attr_name == guard.name)
                raise tally.bounds.refuse(tally.label, put.key, 0, claim.by.moved[tally])
    for action in update.actions:
        if isinstance(action, Remove) and action.name not in item:
            continue
        if not isinstance(action, Add):
            raise PlanError(
                f"the item {put.key} is saved and updated in one transaction; save it once, with all values"
            )
        if action.name not in item:
            raise PlanError(
                f"the item {put.key} is created without its counter {action.name}, so nothing can be counted in it in "
                f"the same transaction; save it first"
            )
        item[action.name] = {"N": str(plus(stored_amount(item[action.name]["N"]), action.amount))}
    return Put(put.key, item, put.claims)


def _delete_counted(delete: Delete, update: Update) -> Delete:
    """A parent that goes in the transaction that takes its last children: they must be all it counted."""
    moved = {action.name: action.amount for action in update.actions if isinstance(action, Add)}
    if len(moved) != len(update.actions):
        raise PlanError(f"the item {delete.key} is deleted and updated in one transaction; only delete it")
    claims = []
    for claim in delete.claims:
        guards: list[Guard] = []
        for guard in claim.guards:
            if isinstance(guard, Same) and guard.value == ZERO and guard.name in moved:
                guard = Same(guard.name, {"N": str(negative(moved[guard.name]))})
            guards.append(guard)
        claims.append(replace(claim, guards=tuple(guards)))
    return Delete(delete.key, tuple(claims))


def _fragment(actions: tuple[Action, ...], claims: tuple[Claim, ...]) -> dict[str, Any]:
    guards = claims[0].guards if len(claims) == 1 else tuple(guard for claim in claims for guard in claim.guards)
    for part in guards:
        if type(part) is not Exists and type(part) is not Absent:
            return _written(actions, guards)
    for action in actions:
        if type(action) is not Add:
            return _written(actions, guards)
    return _written_once(actions, guards)


def _written(actions: tuple[Action, ...], guards: tuple[Guard, ...]) -> dict[str, Any]:
    names = Names()
    request: dict[str, Any] = {}
    if actions:
        request["UpdateExpression"] = update_text(actions, names)
    if guards:
        request["ConditionExpression"] = condition_text(dict.fromkeys(guards), names)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return {**request, **names.request()}


# What does not vary with the item (a like's own guard, a parent's "+1 where it is seeded") is written out once.
_written_once = lru_cache(maxsize=1024)(_written)
