"""The application's own writes and the counting, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from typing_extensions import Self

from pynacount.connections import connection_for
from pynacount.errors import PlanError
from pynacount.model import CountedModel
from pynacount.plan import Plan
from pynacount.refs import Ref
from pynacount.writing.discarding import Discard
from pynacount.writing.editing import Edit, Verify
from pynacount.writing.intents import Intent
from pynacount.writing.performing import perform, plan_of
from pynacount.writing.saving import Save


class Transaction:
    """Collects writes and commits them together when its block ends without an exception.

    All of them, the counting included, are written, or none is. Writes that meet on one item are merged.
    """

    def __init__(self) -> None:
        self._intents: list[Intent] = []
        self._first: Any = None
        self._over = False

    def save(self, item: CountedModel, condition: Condition | None = None) -> None:
        """Save an instance: create it, counted, or write what changed since it was loaded.

        A condition or a version that did not hold raises ``PutError`` at the end of the block.
        """
        _refuse_strange(item, "save")
        self._add(item, Save(item, condition))

    def delete(self, item: CountedModel, condition: Condition | None = None) -> None:
        """Delete an instance's item, and take it out of the tallies that it counts in.

        A condition or a version that did not hold raises ``DeleteError`` at the end of the block.
        """
        _refuse_strange(item, "delete")
        cascades = [c.label for c in item._counting.counters.values() if c.on_delete == "cascade" and c.is_counted]
        if cascades:
            raise PlanError(
                f"{cascades[0]} is deleted with its children, which one transaction cannot hold; call delete() on the "
                f"{type(item).__name__} itself"
            )
        self._add(item, Discard(item, condition))

    def update(self, item: CountedModel, actions: Sequence[Action], condition: Condition | None = None) -> None:
        """Update actions on an instance's item, which must exist. The instance itself does not follow.

        Raises :class:`UncountedWrite` for a tally or for what the item counts by; at the end of the block
        ``UpdateError`` for a condition or a version that did not hold.
        """
        _refuse_strange(item, "update")
        if not actions:
            raise TypeError("tx.update() needs at least one action")
        self._add(item, Edit(item, actions, condition, True))

    def check(self, item: CountedModel, condition: Condition) -> None:
        """Let the transaction pass only if the condition holds for the item; an instance or a ``ref``.

        If it does not, :class:`CheckFailed` is raised at the end of the block.
        """
        _refuse_strange(item, "check")
        model: Any = _model_of(item)
        self._add(item, Verify(model.__name__, model._counting.key_of(item), condition))

    def plan(self) -> Plan:
        """What would be sent now, as data. Raises :class:`PlanError` for what one transaction cannot take."""
        return plan_of(self._intents)

    def _add(self, item: Any, intent: Intent) -> None:
        if self._over:
            raise RuntimeError("this transaction is over: write to it inside of 'with transaction() as tx:'")
        model = _model_of(item)
        self._first = self._first or model
        if model is not self._first:
            _refuse_two_places(self._first, model)
        self._intents.append(intent)

    def __enter__(self) -> Self:
        self._over = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        intents, self._intents, self._over = self._intents, [], True
        if kind is None and intents:
            self._first._counting.driver("transaction").run(perform(intents))


def transaction() -> Transaction:
    """A transaction, as a context manager: ``with transaction() as tx: tx.save(order); tx.save(like)``.

    A transaction inside of another's block is one of its own, and commits at its own end.
    Raises, at the end of the block and with nothing written, what the same calls would raise alone:
    :class:`AlreadyCounted`, :class:`ParentMissing` and so on; :class:`PlanError` past 100 items.
    """
    return Transaction()


def _model_of(item: Any) -> Any:
    return item._model if isinstance(item, Ref) else type(item)


def _refuse_two_places(first: Any, model: Any) -> None:
    ours, theirs = (connection_for(m.Meta) for m in (first, model))
    if (ours.region, ours.host) != (theirs.region, theirs.host):
        raise PlanError(
            f"{model.__name__} and {first.__name__} cannot be written in one transaction: their Meta names different "
            f"regions or hosts ({theirs.host or theirs.region}, {ours.host or ours.region})"
        )
    if _credentials(first) != _credentials(model):
        raise PlanError(
            f"{model.__name__} and {first.__name__} cannot be written in one transaction: their Meta gives different "
            f"credentials"
        )


def _credentials(model: Any) -> tuple[Any, ...]:
    return tuple(getattr(model.Meta, f"aws_{name}", None) for name in ("access_key_id", "secret_access_key"))


def _refuse_strange(item: Any, verb: str) -> None:
    if not isinstance(item, (CountedModel, Ref)):
        raise TypeError(
            f"tx.{verb}({item!r}): give an instance of a CountedModel; one that declares no counters takes part in a "
            f"transaction as well"
        )
    if isinstance(item, Ref) and verb != "check":
        raise TypeError(f"tx.{verb}({item!r}): give an instance, {item._model.__name__}(...), not a ref")
