"""Keys: templates such as ``LIKE#USER#{user_id}``, read both ways, and the key of one item.

A template is a bijection between its variables and the keys that it can render. What would break
that (an empty id, an id with the template's delimiter in it) is refused before anything is sent,
so an id that comes from a user never reaches another item.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from pynacount.errors import KeyTemplateError, KeyTypeError
from pynacount.steps import Item

MAX_HASH_BYTES = 2048
"""Longest partition key, in bytes of UTF-8 (AWS: "Quotas in Amazon DynamoDB")."""
MAX_RANGE_BYTES = 1024
"""Longest sort key, in bytes of UTF-8 (same source)."""

DEFAULT_DELIMITER = "#"
"""What a template without punctuation of its own keeps out of its variables."""

_MAX_BYTES_PER_CHARACTER = 4
_INT_PATTERN = r"-?[1-9][0-9]*|0"


@dataclass(frozen=True, slots=True)
class Variable:
    """One ``{name}`` or ``{name:int}`` of a template."""

    name: str
    is_int: bool = False


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """A parsed template: literal text and variables in turn."""

    text: str
    parts: tuple[str | Variable, ...]
    delimiters: str
    escape: bool
    max_bytes: int
    pattern: re.Pattern[str] = field(repr=False, compare=False)
    variables: tuple[Variable, ...] = field(repr=False, compare=False)
    names: tuple[str, ...] = field(repr=False, compare=False)
    _escapes: dict[int, str] = field(repr=False, compare=False)

    @classmethod
    def compile(
        cls, text: str, *, escape: bool = False, delimiter: str | None = None, max_bytes: int = MAX_HASH_BYTES
    ) -> KeyTemplate:
        """Parse ``text``. Raises :class:`KeyTemplateError` for one that could not be read back."""
        if not isinstance(text, str):
            raise KeyTemplateError(f"key template {text!r} must be text, such as 'POST#{{post_id}}'")
        if delimiter is not None and not isinstance(delimiter, str):
            raise KeyTemplateError(f"key template {text!r}: delimiter={delimiter!r} must be text, such as '#'")
        parts = _split(text)
        literals = "".join(part for part in parts if isinstance(part, str))
        if delimiter is None:
            delimiter = "".join(dict.fromkeys(c for c in literals if not c.isalnum())) or DEFAULT_DELIMITER
        _check_texts(text, literals, delimiter, escape, max_bytes)
        for left, between, right in zip(parts, parts[1:], (*parts[2:], ""), strict=False):
            separator = between if isinstance(between, str) and isinstance(right, Variable) else None
            adjacent = isinstance(between, Variable)
            if isinstance(left, Variable) and (
                adjacent or (separator is not None and not set(separator) & set(delimiter))
            ):
                raise KeyTemplateError(
                    f"key template {text!r}: nothing tells where {{{left.name}}} ends; put a delimiter such as "
                    f"'#' behind it"
                )
        variables = tuple(dict.fromkeys(part for part in parts if isinstance(part, Variable)))
        return cls(
            text=text,
            parts=parts,
            delimiters=delimiter,
            escape=escape,
            max_bytes=max_bytes,
            pattern=_pattern(parts, delimiter, escape),
            variables=variables,
            names=tuple(variable.name for variable in variables),
            _escapes={ord(c): "".join(f"%{byte:02X}" for byte in c.encode()) for c in delimiter + "%"},
        )

    def render(self, values: Mapping[str, Any], where: str) -> str:
        """The key for these values. ``where`` names the model and attribute for the error message."""
        key = "".join([part if type(part) is str else self._text(part, values, where) for part in self.parts])  # type: ignore[arg-type]
        return self._checked(key, where)

    def prefix(self, values: Mapping[str, Any], where: str) -> tuple[str, bool]:
        """The text up to the first variable that ``values`` lacks, and whether that is the whole key."""
        text = ""
        for part in self.parts:
            if isinstance(part, str):
                text += part
            elif part.name in values:
                text += self._text(part, values, where)
            else:
                return text, False
        return text, True

    def renamed(self, names: Mapping[str, str]) -> tuple[str | Variable, ...]:
        """The parts, with the variables under other names: the same keys, as another model speaks of them."""
        return tuple(p if isinstance(p, str) else Variable(names.get(p.name, p.name), p.is_int) for p in self.parts)

    def parse(self, key: str) -> dict[str, Any] | None:
        """The variables of a key, or None if the key does not follow the template."""
        match = self.pattern.fullmatch(key)
        if match is None:
            return None
        values: dict[str, Any] = {}
        for variable in self.variables:
            raw = match[variable.name]
            if variable.is_int:
                values[variable.name] = int(raw)
            elif not self.escape:
                values[variable.name] = raw
            else:
                values[variable.name] = unquote(raw, errors="replace")
                if values[variable.name].translate(self._escapes) != raw:
                    return None  # bytes that are no text, or a second spelling of the same id: not a key of ours
        return values

    def _text(self, variable: Variable, values: Mapping[str, Any], where: str) -> str:
        try:
            value = values[variable.name]
        except KeyError:
            raise KeyTypeError(
                f"{where}: the key {self.text!r} needs {variable.name}=..., and only "
                f"{', '.join(sorted(values)) or 'nothing'} was given"
            ) from None
        if variable.is_int:
            if type(value) is int or (isinstance(value, int) and not isinstance(value, bool)):
                return self._digits(variable, int(value), where)
            raise KeyTypeError(f"{where}: {variable.name}={value!r} must be an int: the key is {self.text!r}")
        if not isinstance(value, str):
            hint = f"; write {{{variable.name}:int}} in the template to key by numbers" if type(value) is int else ""
            raise KeyTypeError(f"{where}: {variable.name}={value!r} must be a str, not {type(value).__name__}{hint}")
        if value.isalnum() and value.isascii():
            return value
        return self._checked_id(variable, value, where)

    def _digits(self, variable: Variable, value: int, where: str) -> str:
        if value.bit_length() > self.max_bytes * 4:  # more digits than any key; Python may refuse to write them
            raise KeyTemplateError(
                f"{where}: {variable.name} is an int of {value.bit_length()} bits; DynamoDB takes keys of "
                f"{self.max_bytes} bytes"
            )
        return str(value)

    def _checked_id(self, variable: Variable, value: str, where: str) -> str:
        if not value:
            raise KeyTemplateError(f"{where}: {variable.name} is empty; an id must have at least one character")
        if self.escape:
            value = value.translate(self._escapes)
        elif found := next((c for c in value if c in self.delimiters), None):
            raise KeyTemplateError(
                f"{where}: {variable.name}={value!r} contains {found!r}, the delimiter of {self.text!r}, and could "
                f"reach another item; refuse such ids, or declare KeyAttribute({self.text!r}, escape=True) to "
                f"percent-encode them"
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise KeyTemplateError(
                f"{where}: {variable.name}={value!r} holds a lone surrogate, which UTF-8 cannot carry"
            ) from None
        return value

    def _checked(self, key: str, where: str) -> str:
        if len(key) * _MAX_BYTES_PER_CHARACTER > self.max_bytes and (size := len(key.encode())) > self.max_bytes:
            raise KeyTemplateError(
                f"{where}: the key {key[:40]!r}... is {size} bytes long; DynamoDB takes {self.max_bytes}"
            )
        return key


_Unit: TypeAlias = str | tuple[str, bool]
"""One character of a key, or one or more of a variable's: the delimiters it keeps out, and whether it is an int's."""


def common_key(one: KeyTemplate, other: KeyTemplate) -> str | None:
    """A key that both templates can make, as an example; None where there is none."""
    ours, theirs = _units(one), _units(other)
    todo: list[tuple[int, int, str]] = [(0, 0, "")]
    seen: set[tuple[int, int]] = set()
    while todo:
        i, j, text = todo.pop()
        if i == len(ours) and j == len(theirs):
            return text
        if (i, j) in seen or i == len(ours) or j == len(theirs):
            continue
        seen.add((i, j))
        character = _common_character(ours[i], theirs[j])
        if character is None:
            continue
        # Behind this character either side stays in its variable or goes on.
        for left in (i + 1, i) if not isinstance(ours[i], str) else (i + 1,):
            for right in (j + 1, j) if not isinstance(theirs[j], str) else (j + 1,):
                todo.append((left, right, text + character))
    return None


def _units(template: KeyTemplate) -> list[_Unit]:
    units: list[_Unit] = []
    for part in template.parts:
        if isinstance(part, str):
            for index in range(len(part)):
                units.append(part[index])
        else:
            units.append((template.delimiters, part.is_int))
    return units


def _common_character(one: _Unit, other: _Unit) -> str | None:
    if isinstance(one, str):
        fits = one == other if isinstance(other, str) else _takes(other, one)
        return one if fits else None
    if isinstance(other, str):
        return other if _takes(one, other) else None
    return "1" if one[1] or other[1] else "x"


def _takes(variable: tuple[str, bool], character: str) -> bool:
    delimiters, is_int = variable
    return character in "-0123456789" if is_int else character not in delimiters


@dataclass(frozen=True, slots=True)
class ItemKey:
    """The primary key of one item: its table, and the names and typed values of its key attributes."""

    table: str
    names: tuple[str, ...]
    values: tuple[tuple[str, Any], ...]

    def wire(self) -> Item:
        """The key as DynamoDB's JSON has it."""
        return {name: {kind: value} for name, (kind, value) in zip(self.names, self.values, strict=True)}

    def __str__(self) -> str:
        return " ".join(f"{name}={value!r}" for name, (_, value) in zip(self.names, self.values, strict=True))


def _split(text: str) -> tuple[str | Variable, ...]:
    parts: list[str | Variable] = []
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise KeyTemplateError(f"key template {text!r}: {error}") from error
    for literal, name, spec, conversion in fields:
        if literal and parts and isinstance(parts[-1], str):
            parts[-1] += literal  # the two sides of a doubled brace
        elif literal:
            parts.append(literal)
        if name is None:
            continue
        if not name.isidentifier() or conversion or spec not in ("", "int"):
            raise KeyTemplateError(
                f"key template {text!r}: write {{name}} or {{name:int}}, with a name that is a Python identifier"
            )
        parts.append(Variable(name, is_int=spec == "int"))
    if not parts:
        raise KeyTemplateError("a key template must not be empty: DynamoDB has no empty keys")
    kinds: dict[str, bool] = {}
    for part in parts:
        if isinstance(part, Variable) and kinds.setdefault(part.name, part.is_int) != part.is_int:
            raise KeyTemplateError(f"key template {text!r}: {part.name} is an int in one place and a str in another")
    return tuple(parts)


def _check_texts(text: str, literals: str, delimiter: str, escape: bool, max_bytes: int) -> None:
    try:
        size = len(literals.encode())
        delimiter.encode()
    except UnicodeEncodeError:
        raise KeyTemplateError(f"key template {text!r} holds a lone surrogate, which UTF-8 cannot carry") from None
    if size > max_bytes:
        raise KeyTemplateError(f"key template {text[:40]!r}... is {size} bytes long; DynamoDB takes {max_bytes}")
    if found := next((c for c in delimiter if c.isalnum()), None):
        raise KeyTemplateError(f"key template {text!r}: {found!r} cannot be a delimiter; use punctuation such as '#'")
    if escape and "%" in delimiter:
        raise KeyTemplateError(
            f"key template {text!r}: '%' cannot be a delimiter together with escape=True, which writes a '%' of its "
            f"own; use other punctuation such as '#'"
        )


def _pattern(parts: tuple[str | Variable, ...], delimiters: str, escape: bool) -> re.Pattern[str]:
    word = f"[^{re.escape(delimiters)}]+" if delimiters else ".+"
    seen: set[str] = set()
    pattern = ""
    for part in parts:
        if isinstance(part, str):
            pattern += re.escape(part)
        elif part.name in seen:
            pattern += f"(?P={part.name})"
        else:
            seen.add(part.name)
            pattern += f"(?P<{part.name}>{_INT_PATTERN if part.is_int else word})"
    return re.compile(pattern, re.DOTALL)
