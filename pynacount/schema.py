"""The keys of one model, compiled once for each class: from variables to a key and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pynamodb.attributes import Attribute, NumberAttribute, UnicodeAttribute

from pynacount.amounts import Amount, amount, stored_amount
from pynacount.errors import CounterTypeError, KeyTemplateError, KeyTypeError
from pynacount.keys import ItemKey, KeyTemplate


@dataclass(frozen=True, slots=True)
class KeyPart:
    """The partition key or the sort key of a model: a template, or a plain attribute that is its own variable."""

    name: str
    attribute: Attribute[Any]
    template: KeyTemplate | None
    max_bytes: int
    where: str
    attr_name: str
    variables: tuple[str, ...]

    @classmethod
    def of(
        cls, name: str, attribute: Attribute[Any], template: KeyTemplate | None, max_bytes: int, model: str
    ) -> KeyPart:
        """Compile the key attribute ``name`` of ``model``."""
        variables = (name,) if template is None else template.names
        return cls(name, attribute, template, max_bytes, f"{model}.{name}", attribute.attr_name, variables)

    @property
    def identity(self) -> tuple[str, str | None]:
        """What two models share whose items have the same keys: the attribute's name in the table, the template."""
        return self.attr_name, None if self.template is None else self.template.text

    def value(self, variables: Mapping[str, Any]) -> Any:
        """The value of the key attribute, as the model holds it."""
        if self.template is not None:
            return self.template.render(variables, self.where)
        try:
            return self._plain(variables[self.name])
        except KeyError:
            raise KeyTypeError(f"{self.where}: the key needs {self.name}=...") from None

    def typed(self, value: Any) -> tuple[str, Any]:
        """The value's DynamoDB type and serialized form."""
        if self.template is not None:
            return "S", value
        if isinstance(self.attribute, NumberAttribute):
            return self.attribute.attr_type, str(self._number(value))  # 5 and 5.0 are one key
        return self.attribute.attr_type, self.attribute.serialize(value)

    def read(self, value: Any) -> dict[str, Any]:
        """The variables of a key value that the model holds. Raises :class:`KeyTemplateError` for a strange one."""
        if self.template is None:
            return {self.name: self._plain(value)}
        found = self.template.parse(value) if isinstance(value, str) else None
        if found is None:
            raise KeyTemplateError(f"{self.where}: the key {value!r} does not follow {self.template.text!r}")
        return found

    def _number(self, value: Any) -> Amount:
        try:
            return amount(value, self.where)
        except CounterTypeError as error:
            raise KeyTemplateError(f"{self.where}: {value!r} is no key value: {error.msg}") from None

    def _plain(self, value: Any) -> Any:
        if isinstance(self.attribute, NumberAttribute):
            return self._number(value)
        if value is None:
            raise KeyTypeError(f"{self.where}: {value!r} is no key value")
        if self.attribute.attr_type != "S" or not isinstance(self.attribute, UnicodeAttribute):
            return value  # checked by the attribute's own serialize()
        if not isinstance(value, str):
            raise KeyTypeError(f"{self.where}: the key must be a str, not {value!r}")
        if not value:
            raise KeyTemplateError(f"{self.where}: the key must be a str of at least one character, not {value!r}")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise KeyTemplateError(
                f"{self.where}: {value!r} holds a lone surrogate, which UTF-8 cannot carry"
            ) from None
        if size > self.max_bytes:
            raise KeyTemplateError(f"{self.where}: the key is {size} bytes long; DynamoDB takes {self.max_bytes}")
        return value


@dataclass(frozen=True, slots=True)
class KeySchema:
    """Both keys of a model and its table.

    ``refuse``: where a part is a plain attribute, and so can be any text, raises :class:`KeyTemplateError` for a key
    that is kept for an item of the library's own.
    """

    table: str
    hash: KeyPart
    range: KeyPart | None
    names: tuple[str, ...]
    variables: tuple[str, ...]
    refuse: Callable[[ItemKey], None] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        table: str,
        hash_part: KeyPart,
        range_part: KeyPart | None,
        refuse: Callable[[ItemKey], None] | None = None,
    ) -> KeySchema:
        """Compile the two parts."""
        parts = (hash_part,) if range_part is None else (hash_part, range_part)
        return cls(
            table=table,
            hash=hash_part,
            range=range_part,
            names=tuple(part.attr_name for part in parts),
            variables=tuple(dict.fromkeys(name for part in parts for name in part.variables)),
            refuse=refuse if any(part.template is None for part in parts) else None,
        )

    @property
    def guard_name(self) -> str:
        """The key attribute whose presence says that the item exists: the sort key where there is one."""
        return self.names[-1]

    @property
    def fixed_range(self) -> tuple[tuple[str, Any], ...] | None:
        """The sort key's typed value where all items have the same; empty without a sort key; None where it varies."""
        if self.range is None:
            return ()
        return None if self.range.variables else (self.range.typed(self.range.value({})),)

    def key(self, variables: Mapping[str, Any]) -> ItemKey:
        """The key of the item that these variables name."""
        return self.key_of_values(
            self.hash.value(variables), None if self.range is None else self.range.value(variables)
        )

    def key_of_values(self, hash_value: Any, range_value: Any) -> ItemKey:
        """The key of the item with these values of the key attributes."""
        values = (self.hash.typed(hash_value),)
        key = ItemKey(
            self.table, self.names, values if self.range is None else (*values, self.range.typed(range_value))
        )
        if self.refuse is not None:
            self.refuse(key)
        return key

    def read_key(self, key: ItemKey) -> dict[str, Any]:
        """The variables of the item with this key."""
        values = [stored_amount(value) if kind == "N" else value for kind, value in key.values]
        return self.read(values[0], values[1] if len(values) > 1 else None)

    def read(self, hash_value: Any, range_value: Any) -> dict[str, Any]:
        """The variables of an item with these key values."""
        variables = self.hash.read(hash_value)
        if self.range is not None:
            for name, value in self.range.read(range_value).items():
                if variables.setdefault(name, value) != value:
                    raise KeyTemplateError(
                        f"{self.range.where}: the keys {hash_value!r} and {range_value!r} disagree on {name}"
                    )
        if self.refuse is not None:
            self.key_of_values(hash_value, range_value)
        return variables
