"""Update actions of the application's own, and conditions on items that it does not write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.exceptions import UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Value
from pynamodb.expressions.update import Action as PynamodbAction
from pynamodb.expressions.update import AddAction, RemoveAction, SetAction

from pynacount.amounts import Amount, stored_amount
from pynacount.bounds import NO_BOUNDS
from pynacount.errors import CheckFailed, NotCounted, ParentMissing, UncountedWrite
from pynacount.expressions import Action, Add, Given, GivenAction, Guard, Same, Set
from pynacount.keys import ItemKey
from pynacount.plan import Check, Claim, Plan, Update, Write
from pynacount.protocols.incrementing import PlainItem
from pynacount.steps import Item
from pynacount.writing.intents import Intent, ModelIntent, NeedsSeed

ONE = {"N": "1"}


class Edit(ModelIntent):
    """Update actions of the application's own, on an item that must exist."""

    operation = UpdateError
    operation_name = "UpdateItem"

    def __init__(
        self, instance: Any, actions: Sequence[PynamodbAction], condition: Condition | None, add_version_condition: bool
    ) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.actions = tuple(actions)
        self.needs_token = self.ends_its_own_guard or self.version is not None or not all(map(_repeatable, actions))
        self.bounds: dict[Guard, tuple[Any, Amount]] = {}
        for action in actions:
            self._refuse_uncounted(action)

    def _refuse_uncounted(self, action: PynamodbAction) -> None:
        name = action.values[0].path[0].partition("[")[0]  # type: ignore[attr-defined]
        model = type(self.instance)
        for field_ in self.counting.counters.values():
            if (name == field_.attr_name and field_.is_counted) or name in field_.own_names:
                raise UncountedWrite(f"{field_.label} cannot be written by update(): {field_.way_out()}")
            if name == field_.attr_name and field_.bounds != NO_BOUNDS:
                self._keep_in_bounds(field_, action)
        if name in self.counting.read_attributes:
            raise UncountedWrite(
                f"{model.__name__} counts by {name}, so update() would change the count behind its back; get() the "
                f"item, assign to it and save() it"
            )

    def _keep_in_bounds(self, counter: Any, action: PynamodbAction) -> None:
        """A plain counter with bounds: what is added to it is guarded as in ``increment()``."""
        value: Any = action.values[1] if isinstance(action, AddAction) else None
        number = value.values[0].get("N") if isinstance(value, Value) else None
        if number is None:
            raise UncountedWrite(
                f"{counter.label} has bounds, which update() keeps for {counter.name}.add(<a number>) alone; "
                f"{counter.way_out()}"
            )
        by = stored_amount(number)
        for guard in counter.bounds.guards(counter.attr_name, by, from_zero=True):
            self.bounds[guard] = (counter, by)

    def write(self) -> Write | None:
        """The Update, the version with it."""
        actions: list[Action] = [GivenAction(action) for action in self.actions]
        if self.version is not None:
            guard = self.version_guard[0] if self.version_guard else None
            new = isinstance(guard, Same) and guard.value is None
            actions.append(Set(self.version.attr_name, ONE) if new else Add(self.version.attr_name, 1))
        guards = (self.counting.exists_guard, *self.bounds, *self.version_guard, *self.given)
        return Update(self.key, tuple(actions), (Claim(guards, self),))

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """Tell the answers apart."""
        if item is not None and guard in self.bounds:
            counter, by = self.bounds[guard]
            value = PlainItem(self.about, self.key).number(counter.tally, item)
            raise counter.bounds.refuse(counter.label, self.key, value, by)
        if item is not None:
            raise self.failed(guard)
        if self.counting.is_child:
            raise NotCounted(f"{self.about} is not there; save() it first, so that it is counted")
        raise ParentMissing(f"{self.about} does not exist; save() it first")

    def landed(self, plan: Plan) -> None:
        """The version in memory follows."""
        if self.version is not None:
            self.instance.update_local_version_attribute()


def _repeatable(action: PynamodbAction) -> bool:
    """Whether doing it twice is doing it once: a constant put into an attribute, or an attribute removed."""
    path, *values = action.values
    if "[" in str(path):  # an element of a list: a second try meets another one there
        return False
    return isinstance(action, RemoveAction) or (isinstance(action, SetAction) and isinstance(values[0], Value))


class Verify(Intent):
    """A condition on an item that the transaction does not write."""

    def __init__(self, about: str, key: ItemKey, condition: Condition) -> None:
        self.about = about
        self.key = key
        self.guard = Given(condition)

    def write(self) -> Write | None:
        """A condition check."""
        return Check(self.key, (Claim((self.guard,), self),))

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """The application's condition did not hold."""
        message = f"the transaction's check of {self.about} {self.key} did not hold; nothing was written"
        cause = ClientError(
            {"Error": {"Code": "ConditionalCheckFailedException", "Message": message}}, "TransactWriteItems"
        )
        raise CheckFailed(message, cause)
