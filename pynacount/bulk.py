"""Many children in one call: what the caller gives is checked element by element, and each gets an answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pynacount.contributions import Contribution
from pynacount.errors import KeyTypeError, PynacountError

if TYPE_CHECKING:
    from pynacount.keys import ItemKey
    from pynacount.plan import Plan
    from pynacount.relations import CountedIn

Verb: TypeAlias = Literal["add", "discard"]
Values: TypeAlias = Mapping[str, Any]
"""What is said of one child: its variables and attributes."""

MOST_KEPT = 10_000
"""Elements of a collection that are kept as they were made to check them."""

_LABELS = {"add": "add_many", "discard": "discard_many"}


class Failed(NamedTuple):
    """An element that was refused, as it was given, and why."""

    values: Values
    error: Exception


@dataclass(frozen=True, slots=True)
class Added:
    """What came of ``add_many()``: every element is in one of the three.

    ``added`` is how many were added; ``already`` are the elements whose child was there already, and ``failed`` those
    that were refused, each with its error. Both are in the order in which their answers became known.
    """

    added: int
    already: list[Values]
    failed: list[Failed]


@dataclass(frozen=True, slots=True)
class Discarded:
    """What came of ``discard_many()``: every element is in one of the three.

    ``discarded`` is how many were deleted; ``already`` are the elements whose child was not there, and ``failed`` those
    that were refused, each with its error. Both are in the order in which their answers became known.
    """

    discarded: int
    already: list[Values]
    failed: list[Failed]


@dataclass(slots=True)
class _Tale:
    """What was told so far."""

    follow: Callable[[Contribution], None]
    done: int = 0
    already: list[Values] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def hear(self, member: Any) -> None:
        if member.error is not None:
            self.failed.append(Failed(member.asked, member.error))
        elif member.done:
            self.done += 1
            self.follow(member.intent.moved)
        else:
            self.already.append(member.asked)


@dataclass(frozen=True, slots=True)
class Bulk:
    """One call for many children of one relation.

    ``label`` is how messages speak of the set. ``child`` makes the child of an element and says whose child it must
    turn out to be, where its key does not say so. ``several_parents``: whether the elements name their parents, so
    that those of one parent are to be brought together.
    """

    label: str
    relation: CountedIn
    child: Callable[[Verb, dict[str, Any]], tuple[Any, tuple[CountedIn, ItemKey] | None]]
    several_parents: bool
    follow: Callable[[Contribution], None] = lambda moved: None

    def add(self, elements: Iterable[Values]) -> Added:
        """Add them all."""
        tale = self._perform("add", elements)
        return Added(tale.done, tale.already, tale.failed)

    def discard(self, elements: Iterable[Values]) -> Discarded:
        """Discard them all."""
        tale = self._perform("discard", elements)
        return Discarded(tale.done, tale.already, tale.failed)

    def plans(self, verb: Verb, elements: Iterable[Values]) -> list[Plan]:
        """What would be sent if each of them had something to do."""
        members = (self._member(verb, place, element) for place, element in enumerate(self._iterate(verb, elements)))
        plans: list[Plan] = self.relation.owner._plans_of_many(members, self._parent())
        return plans

    def _perform(self, verb: Verb, elements: Iterable[Values]) -> _Tale:
        tale = _Tale(self.follow)
        members = self._checked(verb, elements, tale)
        in_order = any(r.counter.bounds.limits for r in self.relation.owner._counting.relations)
        about = f"{self.label}.{_LABELS[verb]}"
        self.relation.owner._settle_many(about, members, self._parent(), tale.hear, in_order=in_order)
        return tale

    def _checked(self, verb: Verb, elements: Iterable[Values], tale: _Tale) -> Iterator[Any]:
        """The calls; those of a collection only once all of them were found to be good."""
        stream = self._iterate(verb, elements)
        if isinstance(elements, Collection):
            made = (self._member(verb, place, element) for place, element in enumerate(stream))
            if len(elements) <= MOST_KEPT:
                return iter(list(made))
            for _ in made:
                pass  # each is made anew when its turn comes
            stream = iter(elements)
        return self._members(verb, stream, tale)

    def _iterate(self, verb: Verb, elements: Iterable[Values]) -> Iterator[Values]:
        if isinstance(elements, (Mapping, str, bytes)) or not isinstance(elements, Iterable):
            raise TypeError(
                f"{self.label}.{_LABELS[verb]}({elements!r:.60}): give a list of dicts, one for each child: "
                f"[dict({self._example()}), ...]"
            )
        return iter(elements)

    def _example(self) -> str:
        known = () if self.several_parents else self.relation.from_child.values()
        return ", ".join(f"{name}=..." for name in self.relation.child_schema.variables if name not in known)

    def _parent(self) -> Callable[[Any], Hashable] | None:
        relation = self.relation
        return (lambda member: relation.parent_key(member.intent.instance)) if self.several_parents else None

    def _members(self, verb: Verb, stream: Iterator[Values], tale: _Tale) -> Iterator[Any]:
        for place, element in enumerate(stream):
            try:
                yield self._member(verb, place, element)
            except (PynacountError, ValueError, TypeError) as error:
                tale.failed.append(Failed(element, error))

    def _member(self, verb: Verb, place: int, element: Values) -> Any:
        where = f"{self.label}.{_LABELS[verb]}: element {place}"
        if not isinstance(element, Mapping):
            raise TypeError(f"{where} is {element!r:.60}; give a dict of a child's values: dict({self._example()})")
        try:
            child, of = self.child(verb, dict(element))
            member = child._member(verb, of)
        except PynacountError as error:
            raise type(error)(f"{where}: {error.msg}", error.cause) from error
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from error
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        member.asked = element
        return member


def of_a_parent_named(relation: CountedIn, label: str) -> Callable[[Verb, dict[str, Any]], tuple[Any, Any]]:
    """How a child is made of an element that names its parent too."""

    def child(verb: Verb, values: dict[str, Any]) -> tuple[Any, tuple[CountedIn, ItemKey] | None]:
        given = dict(values)
        if verb == "discard":
            allowed = {*relation.child_schema.variables, *relation.from_child.values()}
            if strange := [name for name in values if name not in allowed]:
                raise KeyTypeError(
                    f"{', '.join(strange)} is not part of a child's key or its parent's, which alone tell the child"
                )
        instance = relation.owner(**values)
        instance.key_variables()
        parent = relation.parent_key(instance)
        if parent is None:
            lacking = [name for name in relation.from_child.values() if given.get(name) is None]
            raise KeyTypeError(f"{', '.join(lacking)} is not given, so it names no parent of {label}")
        return instance, None if relation.is_told_by_key else (relation, parent)

    return child
