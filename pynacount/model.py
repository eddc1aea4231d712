"""The base class of an application's models: PynamoDB's own, with counting."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from pynamodb.constants import NUMBER
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.models import BatchWrite, MetaModel, Model
from typing_extensions import Self

from pynacount.bulk import Verb
from pynacount.contributions import Contribution
from pynacount.declaration import Counting
from pynacount.errors import CounterTypeError, DeclarationError, KeyTemplateError, KeyTypeError, UncountedWrite
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.plan import Plan
from pynacount.refs import Ref
from pynacount.relations import CountedIn, CountedSet
from pynacount.steps import Item
from pynacount.writing.deleting import cascades_of, delete
from pynacount.writing.discarding import Discard
from pynacount.writing.editing import Edit
from pynacount.writing.filling import by_parent, plans_of, settle_all
from pynacount.writing.grouped import commit
from pynacount.writing.many import Member
from pynacount.writing.performing import perform, plan_of, update
from pynacount.writing.saving import Save

_M = TypeVar("_M", bound="CountedModel")


class KeyVariable:
    """A read-only property: one variable of the item's key."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        variables = instance.key_variables()
        if self.name not in variables:  # a subclass declared other keys
            raise AttributeError(f"{type(instance).__name__} has no key variable {self.name!r}")
        return variables[self.name]

    def __set__(self, instance: Any, value: object) -> None:
        raise AttributeError(
            f"{type(instance).__name__}.{self.name} is part of the key and cannot be assigned; save a new item instead"
        )


class CountedModelMeta(MetaModel):
    """Gives each class counters, relations and sets that speak of it, and compiles its declaration."""

    def __init__(
        self, name: str, bases: tuple[type, ...], namespace: dict[str, Any], discriminator: Any = None
    ) -> None:
        seen = set(namespace)
        copies: dict[str, Any] = {}
        for base in self.__mro__[1:]:
            for attribute, value in vars(base).items():
                if attribute not in seen and isinstance(value, (CounterField, CountedIn, CountedSet)):
                    copies[attribute] = value
                seen.add(attribute)
        # Counters first: a relation that counts in its own model points to the copy.
        for attribute, value in sorted(copies.items(), key=lambda pair: not isinstance(pair[1], CounterField)):
            type.__setattr__(self, attribute, value.copy_for(self))
        super().__init__(name, bases, namespace, discriminator)
        counting = Counting(self)
        type.__setattr__(self, "_counting", counting)
        counting.compile()
        for variable in counting.variables:
            if variable not in self.get_attributes():  # type: ignore[attr-defined]
                _refuse_hidden(self, variable)
                type.__setattr__(self, variable, KeyVariable(variable))


def _refuse_hidden(model: type, variable: str) -> None:
    hidden = getattr(model, variable, None)
    if variable in _ARGUMENTS or (hidden is not None and not isinstance(hidden, KeyVariable)):
        raise DeclarationError(
            f"{model.__name__}: the key variable {variable!r} would hide {model.__name__}.{variable}; give it another "
            f"name, such as {{{model.__name__.lower()}_{variable}}}"
        )


@contextmanager
def _naming_the_item(model: Any, data: Item) -> Iterator[None]:
    try:
        yield
    except CounterTypeError as error:
        shown = " ".join(f"{part.attr_name}={data.get(part.attr_name)}" for part in model._counting.parts)
        raise CounterTypeError(
            f"{error.msg} (item {shown}); remove the attribute, and it is seeded from the children that are there"
        ) from None


_ARGUMENTS = frozenset({"self", "cls", "hash_key", "range_key", "consistent_read", "attributes_to_get"})
"""Names that the constructor and ``get()`` take for themselves."""


class CountedModel(Model, metaclass=CountedModelMeta):
    """A PynamoDB model whose items count, or are counted in.

    The variables of its key templates are constructor arguments: ``Post(post_id="a91f")``. PynamoDB's own
    ``Post("POST#a91f", "META")`` means the same.
    """

    _counting: ClassVar[Counting]

    if TYPE_CHECKING:
        Meta: Any  # PynamoDB's type for it asks for every setting, also for those with a default

    def __init__(
        self, hash_key: Any = None, range_key: Any = None, _user_instantiated: bool = True, **attributes: Any
    ) -> None:
        self._stored_item: Item | None = None
        if not _user_instantiated:
            super().__init__(hash_key, range_key, _user_instantiated=False, **attributes)
            return
        counting = self._counting
        variables = {name: attributes.pop(name) for name in counting.variables if name in attributes}
        try:
            super().__init__(hash_key, range_key, **attributes)
        except ValueError as error:
            if isinstance(error, KeyTemplateError) or not str(error).startswith("Attribute "):
                raise
            known = ", ".join(counting.variables) or "none"
            raise KeyTypeError(f"{type(self).__name__}: {error}; its key variables are {known}") from None
        self._set_keys(variables)

    def _set_keys(self, variables: dict[str, Any]) -> None:
        counting = self._counting
        values = self.attribute_values
        complete = True
        for part in counting.parts:
            given = values.get(part.name)
            if part.template is None:
                complete = complete and given is not None
                if given is not None:
                    part.read(given)
            elif given is not None:
                for name, value in part.read(given).items():
                    if variables.setdefault(name, value) != value:
                        raise KeyTemplateError(
                            f"{part.where}: the key {given!r} and {name}={variables[name]!r} contradict each other"
                        )
            elif all(name in variables for name in part.variables) or (variables and part.variables):
                values[part.name] = part.value(variables)
            else:
                complete = False
        attributes = self.get_attributes()
        for name in counting.variables:
            if name in attributes and name in variables:
                setattr(self, name, variables[name])  # a variable that the item stores as an attribute too
        if complete:
            for part in counting.parts:
                if part.template is None:
                    variables[part.name] = values[part.name]
            self.__dict__["_key_variables"] = variables

    def key_variables(self) -> dict[str, Any]:
        """The variables that make up the key. Raises :class:`KeyTemplateError` for a key that is not of this model."""
        found: dict[str, Any] | None = self.__dict__.get("_key_variables")
        if found is None:
            counting = self._counting
            counting.check_keys_read(self)
            schema = counting.schema
            values = self.attribute_values
            found = schema.read(
                values.get(schema.hash.name), None if schema.range is None else values.get(schema.range.name)
            )
            self.__dict__["_key_variables"] = found
        return found

    # -- reading

    @classmethod
    def ref(cls, hash_key: Any = None, range_key: Any = None, **variables: Any) -> Self:
        """A handle on an item: nothing is read. It has the model's sets, and its key variables.

        It is typed as the model, so that editors know its sets; any other attribute raises ``AttributeError``.
        Raises :class:`KeyTemplateError` for ids that cannot be a key.
        """
        counting = cls._counting
        if hash_key is not None:
            instance = cls(hash_key, range_key, **variables)
            return cast("Self", Ref(cls, counting.key_of(instance), instance.key_variables()))
        schema = counting.schema
        key = schema.key(variables)
        if len(variables) > len(schema.variables):
            strange = sorted(variables.keys() - set(schema.variables))
            raise KeyTypeError(
                f"{cls.__name__}.ref: {', '.join(strange)} is no key variable; it has {schema.variables}"
            )
        return cast("Self", Ref(cls, key, variables))

    @classmethod
    def get(
        cls,
        hash_key: Any = None,
        range_key: Any = None,
        consistent_read: bool = False,
        attributes_to_get: Sequence[str] | None = None,
        **variables: Any,
    ) -> Self:
        """One item, by its variables (``Post.get(post_id="a91f")``) or, as in PynamoDB, by its keys.

        Raises the model's ``DoesNotExist``, and :class:`KeyTemplateError` for ids that cannot be a key.
        """
        counting = cls._counting
        if variables or hash_key is None:
            values = cls(hash_key, range_key, **variables).attribute_values
            hash_key, range_key = ([values.get(part.name) for part in counting.parts] + [None])[:2]
        elif range_key is None:
            range_key = counting.constant_range
        return super().get(hash_key, range_key, consistent_read, attributes_to_get)

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        """An instance of a raw item. Raises :class:`CounterTypeError` for a tally that is no number."""
        with _naming_the_item(cls, data):
            instance = super().from_raw_data(data)
        instance._stored_item = data
        instance._show_tallies(data)
        return instance

    def deserialize(self, attribute_values: dict[str, dict[str, Any]]) -> None:
        """Take over a raw item that was just read."""
        with _naming_the_item(type(self), attribute_values):
            super().deserialize(attribute_values)
        self._stored_item = attribute_values
        self._show_tallies(attribute_values)
        self.__dict__.pop("_key_variables", None)

    def _show_tallies(self, data: Item) -> None:
        """During a repair, readers see the number that it is repaired from; of one in shards, an item shows none."""
        for counter in self._counting.counters.values():
            if f"{counter.attr_name}Shards" in data:
                self.attribute_values.pop(counter.name, None)
                continue
            kept = data.get(f"{counter.attr_name}Was", {}).get(NUMBER)
            if kept is not None and counter.attr_name not in data:
                counter.__set__(self, counter.deserialize(kept))

    def refresh(self, consistent_read: bool = False) -> None:
        """PynamoDB's refresh. Raises :class:`KeyTemplateError` where the key is not whole, or not of this model."""
        self.key_variables()
        super().refresh(consistent_read)

    # -- writing

    def save(self, condition: Condition | None = None, *, add_version_condition: bool = True) -> dict[str, Any]:
        """Create the item, or write what changed since it was loaded; a tally is never written.

        A new child is counted; if it is there already, :class:`AlreadyCounted`. A new parent starts at 0; over an
        existing item it keeps the tally. Edits of what a child counts by move the tallies.
        Raises :class:`ParentMissing`, :class:`NotCounted` (an edited child was deleted), :class:`CounterBoundError`
        (a counter's ``minimum`` or ``maximum``), ``PutError`` where ``condition`` or the version did not hold, and what
        :mod:`pynacount.errors` says of deadlines.
        """
        intent = Save(self, condition, add_version_condition)
        if self._counting.window and intent.stored is None and condition is None:
            commit(intent, f"{type(self).__name__}.save")
            return {}
        return self._counting.driver(f"{type(self).__name__}.save").run(perform([intent]))

    def delete(self, condition: Condition | None = None, *, add_version_condition: bool = True) -> dict[str, Any]:
        """Delete the item, and take it out of the tallies that it counts in.

        A child that is not there raises :class:`NotCounted`; a parent that is not there counts as deleted. A condition
        or a version that did not hold raises ``DeleteError``. A parent follows its counters' ``on_delete``: under
        ``restrict`` :class:`ParentNotEmpty`; a cascade that was interrupted goes on where it stopped.
        """
        if self._counting.window and condition is None and not cascades_of(self._counting):
            commit(Discard(self, None, add_version_condition), f"{type(self).__name__}.delete")
            return {}
        protocol = delete(self, condition, add_version_condition)
        return self._counting.driver(f"{type(self).__name__}.delete", renew=True).run(protocol)

    def update(
        self, actions: Sequence[Action], condition: Condition | None = None, *, add_version_condition: bool = True
    ) -> dict[str, Any]:
        """PynamoDB's update, on an item that must exist.

        What could not be sent twice (an ``add``, a condition, a version) goes as a transaction of its own, at twice
        the write units, so that a retry never does it twice.

        Raises :class:`UncountedWrite` for an action on a tally, or on an attribute that the item counts by;
        :class:`ParentMissing` for an item that is not there (:class:`NotCounted` for a child); ``UpdateError`` for a
        condition or a version that did not hold.
        """
        if not isinstance(actions, (list, tuple)) or not actions:
            raise TypeError("the value of `actions` is expected to be a non-empty list or tuple")
        intent = Edit(self, actions, condition, add_version_condition)
        data = self._counting.driver(f"{type(self).__name__}.update").run(update(intent))
        if "Attributes" in data:
            self.deserialize(data["Attributes"])
        return data

    @classmethod
    def batch_write(cls: type[_M], auto_commit: bool = True) -> BatchWrite[_M]:
        """Refused for a model that counts or is counted: a batch write has no conditions and no transaction."""
        if cls._counting.is_child or cls._counting.counters:
            raise UncountedWrite(
                f"{cls.__name__}.batch_write() would write behind the counting's back; save and delete the items "
                f"one by one or in a transaction()"
            )
        return super().batch_write(auto_commit)

    def get_save_kwargs_from_instance(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """PynamoDB's ``TransactWrite`` asks here; refused for what must be counted."""
        self._refuse_foreign_transaction()
        return super().get_save_kwargs_from_instance(*args, **kwargs)

    def get_update_kwargs_from_instance(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """PynamoDB's ``TransactWrite`` asks here; refused for what must be counted."""
        self._refuse_foreign_transaction()
        return super().get_update_kwargs_from_instance(*args, **kwargs)

    def get_delete_kwargs_from_instance(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """PynamoDB's ``TransactWrite`` asks here; refused for what must be counted."""
        self._refuse_foreign_transaction()
        return super().get_delete_kwargs_from_instance(*args, **kwargs)

    def _refuse_foreign_transaction(self) -> None:
        if self._counting.is_child or self._counting.counters:
            raise UncountedWrite(
                f"PynamoDB's TransactWrite would write this {type(self).__name__} uncounted; use pynacount's: "
                f"with transaction() as tx: ..."
            )

    def plan_save(self) -> Plan:
        """What ``save()`` would send, as data; nothing is sent."""
        return plan_of([Save(self)])

    def plan_delete(self) -> Plan:
        """What ``delete()`` would send, as data; nothing is sent.

        Where what it counts for varies and it was not loaded, ``delete()`` reads it first; the plan goes by the
        instance's own attributes. Of an item whose tallies are in shards it reads each first; the plan takes them to be
        in as many as were last met, or are declared, and empty.
        """
        intent = Discard(self)
        looks = intent.supposed()
        return plan_of([intent], reads=(0,) * (looks + intent.reads_first))

    def _create(self) -> Contribution:
        intent = Save(self)
        if self._counting.window:
            commit(intent, f"{type(self).__name__}.save")
            return intent.moved
        self._counting.driver(f"{type(self).__name__}.save").run(perform([intent]))
        return intent.moved

    def _discard(self, of: tuple[CountedIn, ItemKey] | None) -> Contribution:
        intent = Discard(self, add_version_condition=False, of=of)
        if self._counting.window:
            commit(intent, f"{type(self).__name__}.delete")
            return intent.moved
        self._counting.driver(f"{type(self).__name__}.delete").run(perform([intent]))
        return intent.moved

    def _member(self, verb: Verb, of: tuple[CountedIn, ItemKey] | None) -> Member:
        if verb == "add":
            return Member(Save(self))
        return Member(Discard(self, add_version_condition=False, of=of))

    @classmethod
    def _settle_many(
        cls,
        about: str,
        members: Iterable[Member],
        parent: Callable[[Member], Hashable] | None,
        told: Callable[[Member], None],
        *,
        in_order: bool,
    ) -> None:
        calls = members if parent is None else by_parent(members, parent)
        settle_all(cls._counting.driver(about), calls, told, in_order=in_order)

    @classmethod
    def _plans_of_many(cls, members: Iterable[Member], parent: Callable[[Member], Hashable] | None) -> list[Plan]:
        return plans_of(members if parent is None else by_parent(members, parent))


def _forget_pynamodb_connections(model: Any = CountedModel) -> None:
    """PynamoDB keeps a connection for each model, and a forked child would share its sockets with its parent."""
    for subclass in model.__subclasses__():
        if "_connection" in vars(subclass):
            subclass._connection = None
        _forget_pynamodb_connections(subclass)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_forget_pynamodb_connections)
