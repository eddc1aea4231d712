"""Where the markers of ``once=`` tokens are: key templates, by default made from those of the counter's item."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.errors import DeclarationError, KeyTemplateError
from pynacount.keys import ItemKey, KeyTemplate, Variable
from pynacount.protocols.marking import AMOUNTS, COUNTER, Marker
from pynacount.schema import KeyPart, KeySchema

VARIABLE = "once"
"""The variable of a marker's key that takes the token."""
DEFAULT_DAYS = 30.0
DEFAULT_EXPIRES = "expires"
_SECONDS_A_DAY = 86_400


def clock() -> float:
    """Epoch seconds, by this machine's clock."""
    return time.time()


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one counter: their keys in its table, and how long they live."""

    label: str
    schema: KeySchema
    templates: tuple[KeyTemplate, ...]
    days: float
    expires_name: str

    @classmethod
    def of(
        cls, label: str, attr_name: str, schema: KeySchema, given: Sequence[str], days: float, expires_name: str
    ) -> Markers:
        """Compile the templates; without any given, one that puts each token in a partition of its own.

        Raises :class:`DeclarationError` and :class:`KeyTemplateError` for those that cannot be a key of the table.
        """
        parts = [part for part in (schema.hash, schema.range) if part is not None]
        for part in parts:
            if part.attribute.attr_type != "S":
                raise DeclarationError(
                    f"{label}: once= keeps a marker in table {schema.table}, whose key {part.attr_name} is a number "
                    f"and cannot hold a token; use compare_and_set() instead"
                )
        texts = tuple(given) or _default(parts, attr_name)
        if len(texts) != len(parts):
            raise DeclarationError(
                f"{label}: once_key={texts!r} must have one template for each key attribute of table {schema.table}, "
                f"{', '.join(part.attr_name for part in parts)}"
            )
        templates = tuple(
            KeyTemplate.compile(text, escape=True, delimiter=_delimiters(text), max_bytes=part.max_bytes)
            for text, part in zip(texts, parts, strict=True)
        )
        named = {name for template in templates for name in template.names}
        if strange := named - {*schema.variables, VARIABLE}:
            raise DeclarationError(
                f"{label}: once_key={texts!r} has {', '.join(sorted(strange))}, which is no key variable; it can have "
                f"{', '.join((*schema.variables, VARIABLE))}"
            )
        if VARIABLE not in named or VARIABLE in schema.variables:
            raise DeclarationError(
                f"{label}: once_key={texts!r} must have the variable {{{VARIABLE}}}, which takes the token"
                + (", and the model's own key must not" if VARIABLE in schema.variables else "")
            )
        if expires_name in (*schema.names, COUNTER, AMOUNTS):
            raise DeclarationError(
                f"{label}: once_expires={expires_name!r} is taken by another attribute of the marker"
            )
        return cls(label, schema, templates, days, expires_name)

    def may_be(self, key: ItemKey) -> bool:
        """Whether a key can be that of a marker."""
        return key.names == self.schema.names and all(
            kind == "S" and template.pattern.fullmatch(value) is not None
            for template, (kind, value) in zip(self.templates, key.values, strict=True)
        )

    def marker(self, token: str, variables: Mapping[str, Any]) -> Marker:
        """The marker for a token, on the item that these key variables name.

        Raises :class:`KeyTemplateError` for a token that cannot be part of a key.
        """
        if not isinstance(token, str) or not token:
            raise KeyTemplateError(
                f"{self.label}: once={token!r} must be a text that names what is counted, such as 'order-17'"
            )
        where = f"{self.label}, the marker of once={token[:40]!r}"
        values = {**variables, VARIABLE: token}
        keys = tuple(("S", template.render(values, where)) for template in self.templates)
        now = int(clock())
        return Marker(
            token=token,
            key=ItemKey(self.schema.table, self.schema.names, keys),
            expires_name=self.expires_name,
            now=now,
            expires=now + int(self.days * _SECONDS_A_DAY),
        )


def _default(parts: Sequence[KeyPart], attr_name: str) -> tuple[str, ...]:
    """``ONCE#{once}``; and as the sort key, or behind it where there is none, what is counted in."""
    own = [_text(part) for part in parts]
    counter = "#".join((*own, attr_name.replace("{", "{{").replace("}", "}}")))
    token = f"ONCE#{{{VARIABLE}}}"
    return (f"{token}#{counter}",) if len(parts) == 1 else (token, counter)


def _text(part: KeyPart) -> str:
    return f"{{{part.name}}}" if part.template is None else part.template.text


def _delimiters(text: str) -> str:
    """The punctuation of a template, less the percent sign, with which values are escaped."""
    literals = "".join(part for part in KeyTemplate.compile(text).parts if not isinstance(part, Variable))
    return "".join(dict.fromkeys(c for c in literals if not c.isalnum() and c != "%")) or "#"
