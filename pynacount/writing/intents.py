"""What one write intends: the item's own write, and what it does to the tallies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.attributes import VersionAttribute
from pynamodb.exceptions import PutError, PynamoDBException
from pynamodb.expressions.condition import Condition

from pynacount.commit import REFUSED
from pynacount.contributions import NOTHING, Contribution, Tally, difference
from pynacount.expressions import Given, Guard, Same
from pynacount.keys import ItemKey
from pynacount.plan import Plan, Write
from pynacount.steps import Item, Protocol


@dataclass(frozen=True, slots=True)
class NeedsSeed:
    """An answer to a refusal: seed this tally, then send the same plan again.

    ``away``: take it away instead, with its shards, for children that are written uncounted.
    """

    tally: Tally
    key: ItemKey
    away: bool = False


class Intent:
    """One item's write.

    ``before`` and ``after`` are what the item counts for, then and now; ``needs_token`` as in :class:`Plan`.
    """

    key: ItemKey
    before: Contribution = NOTHING
    after: Contribution = NOTHING
    needs_token = False

    def read(self) -> Protocol[None]:
        """What must be read before the write can be planned."""
        return
        yield  # a protocol of no steps

    def write(self) -> Write | None:
        """The item's own write; None where nothing of it changes."""
        raise NotImplementedError

    def look(self) -> Protocol[None]:
        """What must be read anew, after a refusal, before the write is planned again."""
        return
        yield  # a protocol of no steps

    def siblings(self) -> Sequence[Write]:
        """What is written with the item, in any case: the shards of its own tallies."""
        return ()

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """One of this intent's guards did not hold: raise the answer, or change the intent to be planned anew."""
        raise NotImplementedError

    def landed(self, plan: Plan) -> None:
        """The plan was committed."""

    @property
    def moved(self) -> Contribution:
        """What the write did to the tallies."""
        return difference(self.before, self.after)


class ModelIntent(Intent):
    """What saving, editing and deleting a model's instance have in common."""

    operation: type[PynamoDBException] = PutError
    operation_name = "PutItem"

    def __init__(self, instance: Any, condition: Condition | None, add_version_condition: bool) -> None:
        self.instance = instance
        self.counting = instance._counting
        self.schema = self.counting.schema
        instance.key_variables()  # an item of another model, found by a query, must not be written as one of this
        self.key: ItemKey = self.counting.key_of(instance)
        self.given: tuple[Guard, ...] = () if condition is None else (Given(condition),)
        version = self.counting.version
        self.version: VersionAttribute | None = version
        self.version_guard: tuple[Guard, ...] = ()
        if version is not None and add_version_condition:
            value = instance.attribute_values.get(self.counting.version_name)
            self.version_guard = (Same(version.attr_name, None if value is None else {"N": str(value)}),)

    @property
    def ends_its_own_guard(self) -> bool:
        """Whether a second try could be refused because of the first, and so must go under a token."""
        return bool(self.given or self.version_guard)

    @property
    def about(self) -> str:
        """How messages speak of the item."""
        return f"{type(self.instance).__name__} {self.key}"

    def next_version(self) -> dict[str, str]:
        """The version that this write gives the item."""
        assert self.version is not None
        return {"N": str((self.instance.attribute_values.get(self.counting.version_name) or 0) + 1)}

    def failed(self, guard: Guard | None) -> PynamoDBException:
        """PynamoDB's own error for its own condition or version, with the code it is known by."""
        what = "its version moved on" if guard in self.version_guard else "its condition did not hold"
        message = f"{self.about} was not written: {what}; read it again and decide anew"
        error: Any = {"Error": {"Code": REFUSED, "Message": message}}
        cause = ClientError(error, self.operation_name)
        return self.operation(message, cause)
