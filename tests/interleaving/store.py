"""A small immutable DynamoDB: a request makes a new store and an answer.

Late visibility. DynamoDB does not show the writes of one transaction to a Query at one instant, though GetItem,
conditions and writes see them together. So a committed transaction leaves each of its Puts and Deletes behind a
*veil*: a Query goes on seeing the item as it was until :meth:`Store.reveal` shows the change. One item's changes
show in the order in which they were made (a later version never turns back into an earlier one); the changes of
different items show in any order. A single-item write shows at once, and lifts the veil of its item.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pynacount.steps import Answer, Item, Reason, Refusal, Send

from . import expressions
from .expressions import Condition, Scope, Unsupported, Update
from .values import Frozen, Value, freeze_item, freeze_value, thaw_item, thaw_value
from .wire import READ_TRANSACTION, TRANSACTION, is_write, writes_of

Key: TypeAlias = tuple[str, tuple[Value, ...]]
"""Table name, then the values of its key attributes."""

Veils: TypeAlias = Callable[[str, Item], bool]
"""Whether a transaction's write of this kind (``Put``...), to the item with this key, shows late."""

REFUSED = "ConditionalCheckFailed"
INVALID = "ValidationError"
MOST_ACTIONS = 100
_EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)


def puts_and_deletes(kind: str, key: Item) -> bool:
    """The usual veil: children are put and deleted, and an Update is the parent's tally."""
    return kind in ("Put", "Delete")


def everything(kind: str, key: Item) -> bool:
    """A veil over Updates too: for sharded tallies and children whose amount changes, which are read by Query."""
    return True


def nothing(kind: str, key: Item) -> bool:
    """No veil: a table in which a transaction shows at one instant."""
    return False


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a request, read and checked."""

    kind: str
    key: Key
    scope: Scope
    item: Frozen | None = None
    condition: Condition | None = None
    update: Update | None = None
    returns: str = "NONE"
    tells_refused_item: bool = False
    veiled: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """A GetItem or a Query, read and checked; a Query has no key but a partition and a prefix."""

    table: str
    scope: Scope
    key: Key | None = None
    partition: Value | None = None
    prefix: Value | None = None
    between: tuple[Value, Value] | None = None
    start: Key | None = None
    limit: int | None = None
    forward: bool = True
    counts_only: bool = False
    filter: Condition | None = None
    projection: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that has been read once and can be run on any store of the same tables."""

    operation: str
    writes: tuple[Write, ...] = ()
    read: Read | None = None
    together: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A version of an item that no Query has seen yet, and who waits for it to be seen."""

    item: Frozen | None
    awaited_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Veil:
    """An item as a Query sees it, and the versions that it will see later, the true one last."""

    seen: Frozen | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Tables at one moment. Never changed: its mappings are replaced, not written to."""

    schemas: Mapping[str, tuple[str, ...]] = field(compare=False)
    rows: Mapping[Key, Frozen] = field(default_factory=dict)
    veil: Mapping[Key, Veil] = field(default_factory=dict)
    tokens: frozenset[Hashable] = frozenset()
    page_size: int = field(default=1, compare=False)
    veils: Veils = field(default=puts_and_deletes, compare=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Looked up in sets far more often than made: hash once.
        content = (frozenset(self.rows.items()), frozenset(self.veil.items()), self.tokens)
        object.__setattr__(self, "_hash", hash(content))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(
        cls,
        schemas: Mapping[str, tuple[str, ...]],
        items: Mapping[str, Iterable[Mapping[str, Mapping[str, Any]]]] | None = None,
        *,
        page_size: int = 1,
        veils: Veils = puts_and_deletes,
    ) -> Store:
        """Tables by name (with their key attributes, hash key first) and the items in them, all visible."""
        empty = cls(schemas, page_size=page_size, veils=veils)
        rows = {empty._key(table, item): freeze_item(item) for table, some in (items or {}).items() for item in some}
        return replace(empty, rows=rows)

    # What a test asks.

    def get(self, table: str, *key: str) -> Item | None:
        """The item with this key (strings), as GetItem would return it."""
        row = self.rows.get((table, tuple(("S", part) for part in key)))
        return None if row is None else thaw_item(row)

    def number(self, attribute: str, table: str, *key: str) -> int | None:
        """A whole number in an item; None if the item or the attribute is missing."""
        value = (self.get(table, *key) or {}).get(attribute)
        return None if value is None else int(value["N"])

    def items(self, table: str, partition: str | None = None, prefix: str = "") -> list[Item]:
        """The true items of a table or partition, in the order of their keys, without any veil."""
        chosen = [
            key
            for key in self.rows
            if key[0] == table
            and (partition is None or key[1][0][1] == partition)
            and (not prefix or key[1][1][1].startswith(prefix))
        ]
        return [thaw_item(self.rows[key]) for key in sorted(chosen, key=_order)]

    # What the search does.

    def send(self, send: Send, token: Hashable = None) -> tuple[Store, Answer]:
        """Execute one request; the store is as it was if the answer is a refusal."""
        return self.run(self.prepare(send), token)

    def run(self, prepared: Prepared, token: Hashable = None) -> tuple[Store, Answer]:
        """Execute a prepared request. A transaction whose ``token`` is committed succeeds without running."""
        if prepared.read is not None:
            return self, self._get(prepared.read) if prepared.read.key else self._query(prepared.read)
        if prepared.operation == READ_TRANSACTION:
            return self, {"Responses": [self._get(read) for read in prepared.together]}
        if prepared.operation == TRANSACTION:
            return self._transact(prepared.writes, token)
        return self._single(prepared.writes[0])

    def forget(self, token: Callable[[Hashable], bool]) -> Store:
        """Without the tokens that nobody can send again, so that stores that act alike are equal."""
        kept = frozenset(each for each in self.tokens if not token(each))
        return self if kept == self.tokens else replace(self, tokens=kept)

    def reveal(self, key: Key) -> Store:
        """The oldest hidden change of an item becomes visible."""
        veil = dict(self.veil)
        first, *later = veil.pop(key).changes
        if later:
            veil[key] = Veil(first.item, tuple(later))
        return replace(self, veil=veil)

    def reveal_all(self) -> Store:
        """Everything becomes visible."""
        return replace(self, veil={}) if self.veil else self

    def await_visibility(self, who: str) -> Store:
        """``who`` begins to wait for all that is hidden at this moment."""
        if not self.veil:
            return self
        veil = {
            key: Veil(hidden.seen, tuple(replace(each, awaited_by=each.awaited_by | {who}) for each in hidden.changes))
            for key, hidden in self.veil.items()
        }
        return replace(self, veil=veil)

    def is_awaited_by(self, who: str) -> bool:
        """Whether something that ``who`` waits for is still hidden."""
        return any(who in change.awaited_by for hidden in self.veil.values() for change in hidden.changes)

    def stop_awaiting(self, who: str) -> Store:
        """``who`` has crashed and waits no more."""
        if not self.is_awaited_by(who):
            return self
        veil = {
            key: Veil(hidden.seen, tuple(replace(each, awaited_by=each.awaited_by - {who}) for each in hidden.changes))
            for key, hidden in self.veil.items()
        }
        return replace(self, veil=veil)

    # Reading a request.

    def _key(self, table: str, item: Mapping[str, Mapping[str, Any]]) -> Key:
        if table not in self.schemas:
            raise Unsupported(f"no table {table}")
        try:
            return table, tuple(freeze_value(item[name]) for name in self.schemas[table])
        except KeyError as missing:
            raise Unsupported(f"key attribute {missing} is missing from {item}") from None

    def _thaw_key(self, key: Key) -> Item:
        return {name: thaw_value(value) for name, value in zip(self.schemas[key[0]], key[1], strict=True)}

    def _exact_key(self, table: str, key: Mapping[str, Mapping[str, Any]]) -> Key:
        found = self._key(table, key)
        if len(key) != len(found[1]):
            raise Unsupported(f"{key} is not a key of {table}")
        return found

    def prepare(self, send: Send) -> Prepared:
        """Read a request; :class:`Unsupported` if DynamoDB would find it malformed, or if it is not modelled."""
        if send.operation in ("GetItem", "Query"):
            _check_placeholders(send.request)
            read = self._prepare_get if send.operation == "GetItem" else self._prepare_query
            return Prepared(send.operation, read=read(send.request))
        if send.operation == READ_TRANSACTION:
            gets = [action["Get"] for action in send.request["TransactItems"]]
            for get in gets:
                _check_placeholders(get)
            return Prepared(send.operation, together=tuple(self._prepare_get(get) for get in gets))
        if not is_write(send):
            raise Unsupported(send.operation)
        in_transaction = send.operation == TRANSACTION
        writes = tuple(self._prepare_write(kind, body, in_transaction) for kind, body in writes_of(send))
        if len({write.key for write in writes}) != len(writes):
            raise Unsupported("a transaction must not write one item twice")
        if not 0 < len(writes) <= MOST_ACTIONS:
            raise Unsupported(f"a transaction of {len(writes)} writes")
        return Prepared(send.operation, writes)

    def _prepare_write(self, kind: str, body: Mapping[str, Any], in_transaction: bool) -> Write:
        _check_placeholders(body)
        table = body["TableName"]
        key = self._key(table, body["Item"]) if kind == "Put" else self._exact_key(table, body["Key"])
        condition, scope = _condition(body, "ConditionExpression"), _scope(body)
        update = None
        if kind == "Update":
            update = expressions.parse_update(body.get("UpdateExpression", ""))
            written = expressions.targets(update, scope)
            if len(set(written)) != len(written) or set(written) & set(self.schemas[table]):
                raise Unsupported(f"update of {written}: an attribute twice, or of the key")
        elif kind == "ConditionCheck":
            if condition is None:
                raise Unsupported("a ConditionCheck without a condition")
        elif kind not in ("Put", "Delete"):
            raise Unsupported(kind)
        return Write(
            kind=kind,
            key=key,
            scope=scope,
            item=freeze_item(body["Item"]) if kind == "Put" else None,
            condition=condition,
            update=update,
            returns=body.get("ReturnValues", "NONE"),
            tells_refused_item=body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD",
            veiled=in_transaction and self.veils(kind, self._thaw_key(key)),
        )

    def _prepare_get(self, body: Mapping[str, Any]) -> Read:
        table, scope = body["TableName"], _scope(body)
        return Read(table, scope, key=self._exact_key(table, body["Key"]), projection=_projection(body, scope))

    def _prepare_query(self, body: Mapping[str, Any]) -> Read:
        table, scope = body["TableName"], _scope(body)
        if "IndexName" in body:
            raise Unsupported("a Query of an index")
        partition, prefix, between = _key_condition(self.schemas[table], body["KeyConditionExpression"], scope)
        start = body.get("ExclusiveStartKey")
        return Read(
            table,
            scope,
            partition=partition,
            prefix=prefix,
            between=between,
            start=self._exact_key(table, start) if start else None,
            limit=body.get("Limit"),
            forward=body.get("ScanIndexForward", True),
            counts_only=body.get("Select") == "COUNT",
            filter=_condition(body, "FilterExpression"),
            projection=_projection(body, scope),
        )

    # Running it.

    def _get(self, read: Read) -> Answer:
        assert read.key is not None
        row = self.rows.get(read.key)
        return {} if row is None else {"Item": _project(row, read.projection)}

    def _visible(self, key: Key) -> Frozen | None:
        hidden = self.veil.get(key)
        return hidden.seen if hidden is not None else self.rows.get(key)

    def _query(self, read: Read) -> Answer:
        chosen = [
            key
            for key in self.rows.keys() | self.veil.keys()
            if key[0] == read.table
            and key[1][0] == read.partition
            and (read.prefix is None or key[1][1][1].startswith(read.prefix[1]))
            and (read.between is None or read.between[0][1] <= key[1][1][1] <= read.between[1][1])
            and self._visible(key) is not None
        ]
        chosen.sort(key=_order, reverse=not read.forward)
        if read.start is not None:
            start = _order(read.start)
            chosen = [key for key in chosen if (_order(key) > start if read.forward else _order(key) < start)]
        size = min(self.page_size, read.limit or self.page_size)
        page, found = chosen[:size], []
        for key in page:
            row = self._visible(key)
            if row is not None and (read.filter is None or expressions.holds(read.filter, dict(row), read.scope)):
                found.append(row)
        answer: dict[str, Any] = {"Count": len(found), "ScannedCount": len(page)}
        if not read.counts_only:
            answer["Items"] = [_project(row, read.projection) for row in found]
        if len(page) == size:
            # As DynamoDB does: a full page does not know that it is the last, and the next may be empty.
            answer["LastEvaluatedKey"] = self._thaw_key(page[-1])
        return answer

    def _try(self, write: Write) -> tuple[Frozen | None, Reason | None]:
        """The item after one write, or why it is refused."""
        row = self.rows.get(write.key)
        attributes = dict(row or ())
        if write.condition is not None and not expressions.holds(write.condition, attributes, write.scope):
            told = thaw_item(row) if row is not None and write.tells_refused_item else None
            return row, Reason(REFUSED, told, "The conditional request failed")
        match write.kind:
            case "Put":
                return write.item, None
            case "Delete":
                return None, None
            case "ConditionCheck":
                return row, None
        assert write.update is not None
        key = dict(zip(self.schemas[write.key[0]], write.key[1], strict=True))
        try:
            after = expressions.apply(write.update, {**key, **attributes}, write.scope)
        except expressions.Invalid as invalid:
            return row, Reason(INVALID, None, str(invalid))
        return tuple(sorted(after.items())), None

    def _single(self, write: Write) -> tuple[Store, Answer]:
        after, reason = self._try(write)
        if reason is not None:
            # Alone, an error has the name of an exception; among the reasons of a transaction it has another.
            named = reason if reason.code == REFUSED else replace(reason, code="Validation")
            return self, Refusal(f"{named.code}Exception", (named,), reason.message)
        answer = _returned(write, self.rows.get(write.key), after)
        rows, veil = dict(self.rows), dict(self.veil)
        _place(rows, write.key, after)
        veil.pop(write.key, None)
        return replace(self, rows=rows, veil=veil), answer

    def _transact(self, writes: tuple[Write, ...], token: Hashable) -> tuple[Store, Answer]:
        if token is not None and token in self.tokens:
            return self, {}
        tried = [self._try(write) for write in writes]
        reasons = tuple(reason for _, reason in tried)
        if any(reasons):
            codes = ", ".join(reason.code if reason else "None" for reason in reasons)
            message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
            return self, Refusal("TransactionCanceledException", reasons, message)
        rows, veil = dict(self.rows), dict(self.veil)
        for write, (after, _) in zip(writes, tried, strict=True):
            before = rows.get(write.key)
            _place(rows, write.key, after)
            if after == before:
                continue
            if write.veiled or write.key in veil:
                hidden = veil.get(write.key, Veil(before, ()))
                veil[write.key] = Veil(hidden.seen, (*hidden.changes, Change(after)))
        tokens = self.tokens if token is None else self.tokens | {token}
        return replace(self, rows=rows, veil=veil, tokens=tokens), {}


def _order(key: Key) -> Any:
    return key[0], tuple((kind, expressions.sortable((kind, content))) for kind, content in key[1])


def _place(rows: dict[Key, Frozen], key: Key, row: Frozen | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = row


def _project(row: Frozen, projection: frozenset[str] | None) -> Item:
    return thaw_item(row if projection is None else tuple(pair for pair in row if pair[0] in projection))


def _returned(write: Write, before: Frozen | None, after: Frozen | None) -> dict[str, Any]:
    allowed = (
        {"NONE", "ALL_OLD"} if write.kind != "Update" else {"NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"}
    )
    if write.returns not in allowed:
        raise Unsupported(f"ReturnValues {write.returns} of a {write.kind}")
    if write.returns == "NONE":
        return {}
    row = before if write.returns.endswith("OLD") else after
    touched = None
    if write.returns.startswith("UPDATED") and write.update is not None:
        touched = frozenset(expressions.targets(write.update, write.scope))
    attributes = _project(row or (), touched)
    return {"Attributes": attributes} if attributes else {}


def _scope(body: Mapping[str, Any]) -> Scope:
    values = body.get("ExpressionAttributeValues") or {}
    return Scope(
        dict(body.get("ExpressionAttributeNames") or {}), {name: freeze_value(value) for name, value in values.items()}
    )


def _check_placeholders(body: Mapping[str, Any]) -> None:
    """DynamoDB refuses a placeholder that nothing uses as it does one that nothing defines."""
    used = expressions.placeholders(*(_text(body, name) for name in _EXPRESSIONS))
    defined = {*(body.get("ExpressionAttributeNames") or {}), *(body.get("ExpressionAttributeValues") or {})}
    if used != defined:
        raise Unsupported(f"placeholders used {sorted(used)}, defined {sorted(defined)}")


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name, "")
    if not isinstance(text, str):
        raise Unsupported(f"{name} is {text!r}")
    return text


def _condition(body: Mapping[str, Any], name: str) -> Condition | None:
    text = body.get(name)
    return None if text is None else expressions.parse_condition(text)


def _projection(body: Mapping[str, Any], scope: Scope) -> frozenset[str] | None:
    text = body.get("ProjectionExpression")
    return None if text is None else frozenset(scope.name(expressions.Name(part.strip())) for part in text.split(","))


def _key_condition(
    schema: tuple[str, ...], text: str, scope: Scope
) -> tuple[Value, Value | None, tuple[Value, Value] | None]:
    condition = expressions.parse_condition(text)
    parts = condition.parts if isinstance(condition, expressions.And) else (condition,)
    first = parts[0]
    if not (
        isinstance(first, expressions.Compare)
        and first.operator == "="
        and isinstance(first.left, expressions.Name)
        and isinstance(first.right, expressions.Param)
        and scope.name(first.left) == schema[0]
    ):
        raise Unsupported(f"key condition {text!r}")
    partition = scope.value(first.right)
    if len(parts) == 1:
        return partition, None, None
    second = parts[1]
    if (
        len(parts) == 2
        and isinstance(second, expressions.Call)
        and second.function == "begins_with"
        and isinstance(second.arguments[0], expressions.Name)
        and isinstance(second.arguments[1], expressions.Param)
        and scope.name(second.arguments[0]) == schema[1]
    ):
        return partition, scope.value(second.arguments[1]), None
    if (
        len(parts) == 2
        and isinstance(second, expressions.Between)
        and isinstance(second.operand, expressions.Name)
        and isinstance(second.least, expressions.Param)
        and isinstance(second.most, expressions.Param)
        and scope.name(second.operand) == schema[1]
    ):
        return partition, None, (scope.value(second.least), scope.value(second.most))
    raise Unsupported(f"key condition {text!r}")
