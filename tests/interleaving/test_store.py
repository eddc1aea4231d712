"""The small store answers as a real engine does: what is proved on the one holds on the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from pynacount.steps import Answer, Item, Reason, Refusal, Send

from .expressions import Unsupported
from .store import Store, nothing
from .values import freeze

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

TABLE = "Social"
SCHEMA = {TABLE: ("PK", "SK")}
METHODS = {
    "TransactWriteItems": "transact_write_items",
    "PutItem": "put_item",
    "UpdateItem": "update_item",
    "DeleteItem": "delete_item",
    "GetItem": "get_item",
    "Query": "query",
}
COMPARED = ("Item", "Items", "Count", "Attributes")
ATTRIBUTES = ("tally", "was", "body")
KEYS = [{"PK": {"S": pk}, "SK": {"S": sk}} for pk in ("POST#1", "POST#2") for sk in ("LIKE#1", "LIKE#2", "META")]


class Body:
    """A request in the making: hands out placeholders for names and values, or the bare name."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.names: dict[str, str] = {}
        self.values: dict[str, dict[str, str]] = {}

    def name(self, attributes: tuple[str, ...] = ATTRIBUTES) -> str:
        attribute = self.draw(st.sampled_from(attributes))
        if self.draw(st.booleans()):
            return attribute
        self.names[f"#{attribute}"] = attribute
        return f"#{attribute}"

    def value(self, value: dict[str, str] | None = None) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value or self.draw(VALUES)
        return placeholder

    def number(self) -> str:
        return self.value(self.draw(NUMBERS))

    def condition(self, depth: int = 2) -> str:
        shapes = ["exists", "absent", "compare", *(["and", "or", "not"] if depth else [])]
        match self.draw(st.sampled_from(shapes)):
            case "exists":
                return f"attribute_exists({self.name((*ATTRIBUTES, 'SK'))})"
            case "absent":
                return f"attribute_not_exists ({self.name((*ATTRIBUTES, 'SK'))})"
            case "compare":
                operator = self.draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
                return f"{self.name()} {operator} {self.value()}"
            case "not":
                return f"NOT ({self.condition(depth - 1)})"
            case joint:
                return f"({self.condition(depth - 1)}) {joint.upper()} ({self.condition(depth - 1)})"

    def assignment(self, target: str) -> str:
        match self.draw(st.sampled_from(["value", "copy", "add", "default"])):
            case "value":
                return f"{target} = {self.value()}"
            case "copy":
                return f"{target} = {self.name()}"
            case "add":
                return f"{target} = {target} {self.draw(st.sampled_from('+-'))} {self.number()}"
            case _:
                return f"{target} = if_not_exists({target}, {self.number()}) + {self.number()}"

    def update(self) -> str:
        # Each attribute goes to one clause at most: DynamoDB refuses two paths that overlap.
        clauses: dict[str, list[str]] = {}
        chosen = self.draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=2, unique=True))
        for attribute in chosen:
            target = self.name((attribute,))
            clause = self.draw(st.sampled_from(["SET", "ADD", "REMOVE"]))
            if clause == "SET":
                target = self.assignment(target)
            elif clause == "ADD":
                target = f"{target} {self.number()}"
            clauses.setdefault(clause, []).append(target)
        return " ".join(f"{clause} {', '.join(parts)}" for clause, parts in clauses.items())

    def finish(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "TableName": TABLE,
            **request,
            **({"ExpressionAttributeNames": self.names} if self.names else {}),
            **({"ExpressionAttributeValues": self.values} if self.values else {}),
        }


NUMBERS = st.integers(-1, 3).map(lambda number: {"N": str(number)})
VALUES = st.one_of(NUMBERS, st.sampled_from([{"S": "a"}, {"S": "b"}]))


@st.composite
def items(draw: DrawFn, key: Item) -> Item:
    """An item with some of the attributes."""
    chosen = draw(st.lists(st.sampled_from(ATTRIBUTES), max_size=2, unique=True))
    return {**key, **{name: draw(VALUES) for name in chosen}}


@st.composite
def writes(draw: DrawFn, kind: str, key: Item) -> dict[str, Any]:
    """The body of one write."""
    body = Body(draw)
    request: dict[str, Any] = {"Item": draw(items(key))} if kind == "Put" else {"Key": key}
    if kind == "Update":
        request["UpdateExpression"] = body.update()
    if kind == "ConditionCheck" or draw(st.booleans()):
        request["ConditionExpression"] = body.condition()
    if draw(st.booleans()):
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return body.finish(request)


@st.composite
def sends(draw: DrawFn) -> Send:
    """One request."""
    operation = draw(st.sampled_from([*METHODS, "TransactWriteItems", "UpdateItem"]))
    key = draw(st.sampled_from(KEYS))
    match operation:
        case "GetItem":
            return Send(operation, {"TableName": TABLE, "Key": key, "ConsistentRead": True})
        case "Query":
            body, prefix = Body(draw), draw(st.booleans())
            condition = f"PK = {body.value(key['PK'])}"
            if prefix:
                condition += f" AND begins_with(SK, {body.value({'S': 'LIKE#'})})"
            request = {"KeyConditionExpression": condition, "Limit": draw(st.integers(1, 3))}
            if draw(st.booleans()):
                request["Select"] = "COUNT"
            return Send(operation, body.finish(request))
        case "TransactWriteItems":
            keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique_by=str))
            kinds = st.sampled_from(["Put", "Update", "Delete", "ConditionCheck"])
            actions = [{kind: draw(writes(kind, each))} for each in keys for kind in [draw(kinds)]]
            return Send(operation, {"TransactItems": actions})
        case _:
            request = draw(writes(operation.removesuffix("Item"), key))
            returns = ["NONE", "ALL_OLD"]
            if operation == "UpdateItem":
                returns += ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"]
            return Send(operation, {**request, "ReturnValues": draw(st.sampled_from(returns))})


def asked(client: Any, send: Send) -> Answer:
    """A real engine's answer, in the store's words."""
    try:
        response: dict[str, Any] = getattr(client, METHODS[send.operation])(**send.request)
    except ClientError as error:
        return _refusal(error)
    response.pop("ResponseMetadata")
    return response


def _refusal(error: ClientError) -> Refusal:
    response: Any = error.response
    code = response["Error"]["Code"]
    if code == "TransactionCanceledException":
        raw = response["CancellationReasons"]
        reasons = tuple(None if r["Code"] == "None" else Reason(r["Code"], r.get("Item") or None) for r in raw)
        return Refusal(code, reasons)
    return Refusal(code, (Reason(code.removesuffix("Exception"), response.get("Item") or None),))


def paged(ask: Any, send: Send) -> Answer:
    """All pages of a Query as one answer (where the pages end is the engine's own affair)."""
    count, found, request = 0, [], dict(send.request)
    while True:
        page = ask(Send("Query", request))
        count += page["Count"]
        found += page.get("Items", [])
        if "LastEvaluatedKey" not in page:
            return {"Count": count, "Items": found}
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def comparable(answer: Answer) -> object:
    """What has to agree: not the wording, and not an empty part that one engine leaves out."""
    if isinstance(answer, Refusal):
        if any(reason and reason.code.startswith("Validation") for reason in answer.reasons):
            # AWS cancels the transaction with this among its reasons; both engines fail the whole request with it.
            return "invalid"
        return answer.code, tuple(reason and (reason.code, freeze(reason.item)) for reason in answer.reasons)
    return freeze({name: answer[name] for name in COMPARED if answer.get(name)})


class Engine:
    """A real engine's table, emptied before each run."""

    def __init__(self, client: Any, returns_unchanged: bool = True) -> None:
        self.client = client
        self.returns_unchanged = returns_unchanged

    def reset(self) -> None:
        for item in self.items():
            self.client.delete_item(TableName=TABLE, Key={name: item[name] for name in SCHEMA[TABLE]})

    def items(self) -> list[Item]:
        found: list[Item] = self.client.scan(TableName=TABLE)["Items"]
        return sorted(found, key=lambda item: (item["PK"]["S"], item["SK"]["S"]))


def create_table(client: Any) -> None:
    """The one table of these tests."""
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with mock_aws():
        client = boto3.client(
            "dynamodb", region_name="eu-west-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        create_table(client)
        # moto leaves an attribute that was set to what it was out of UPDATED_OLD and UPDATED_NEW; DynamoDB does not.
        yield Engine(client, returns_unchanged=False)


def check_agreement(engine: Engine, requests: list[Send]) -> None:
    """The same requests, one by one, on both."""
    engine.reset()
    store = Store.of(SCHEMA, page_size=2, veils=nothing)

    def ask_store(send: Send) -> Answer:
        nonlocal store
        store, answer = store.send(send)
        return answer

    for send in requests:
        if not engine.returns_unchanged and send.request.get("ReturnValues", "").startswith("UPDATED"):
            send = Send(send.operation, {**send.request, "ReturnValues": "ALL_NEW"})
        if send.operation == "Query":
            ours, theirs = paged(ask_store, send), paged(lambda page: asked(engine.client, page), send)
        else:
            ours, theirs = ask_store(send), asked(engine.client, send)
        assert comparable(ours) == comparable(theirs), f"{send}\nours {ours}\ntheirs {theirs}"
        assert freeze(store.items(TABLE)) == freeze(engine.items()), send


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(requests=st.lists(sends(), min_size=1, max_size=12))
def test_the_store_answers_as_a_real_engine_does(engine: Engine, requests: list[Send]) -> None:
    check_agreement(engine, requests)


LIKE: Item = {"PK": {"S": "POST#1"}, "SK": {"S": "LIKE#1"}}
COUNT = Send(
    "Query",
    {
        "TableName": TABLE,
        "Select": "COUNT",
        "KeyConditionExpression": "PK = :pk AND begins_with(SK, :likes)",
        "ExpressionAttributeValues": {":pk": {"S": "POST#1"}, ":likes": {"S": "LIKE#"}},
    },
)


def counted(store: Store) -> int:
    answer = store.send(COUNT)[1]
    assert not isinstance(answer, Refusal)
    count: int = answer["Count"]
    return count


def in_transaction(kind: str, **body: Any) -> Send:
    return Send("TransactWriteItems", {"TransactItems": [{kind: {"TableName": TABLE, **body}}]})


def test_a_transaction_shows_to_a_query_only_when_it_is_revealed() -> None:
    store, _ = Store.of(SCHEMA).send(in_transaction("Put", Item=LIKE))
    assert store.get(TABLE, "POST#1", "LIKE#1") == LIKE
    assert counted(store) == 0
    (hidden,) = store.veil
    assert counted(store.reveal(hidden)) == 1


def test_the_changes_of_one_item_show_in_their_order() -> None:
    store, _ = Store.of(SCHEMA).send(in_transaction("Put", Item=LIKE))
    store, _ = store.send(in_transaction("Delete", Key=LIKE))
    seen = [counted(store)]
    while store.veil:
        store = store.reveal(next(iter(store.veil)))
        seen.append(counted(store))
    assert seen == [0, 1, 0]


def test_a_single_write_shows_at_once() -> None:
    store, _ = Store.of(SCHEMA, items={TABLE: [LIKE]}).send(in_transaction("Delete", Key=LIKE))
    assert counted(store) == 1
    store, _ = store.send(Send("PutItem", {"TableName": TABLE, "Item": LIKE}))
    assert counted(store) == 1
    assert not store.veil


def test_whoever_waits_waits_for_what_was_hidden_then() -> None:
    store, _ = Store.of(SCHEMA).send(in_transaction("Put", Item=LIKE))
    (first,) = store.veil
    store, _ = store.await_visibility("seeder").send(in_transaction("Put", Item={**LIKE, "SK": {"S": "LIKE#2"}}))
    assert store.is_awaited_by("seeder")
    store = store.reveal(first)
    assert not store.is_awaited_by("seeder")
    assert store.veil


def test_a_committed_token_is_not_run_again() -> None:
    add = in_transaction(
        "Update", Key=LIKE, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": {"N": "1"}}
    )
    store, first = Store.of(SCHEMA).send(add, "token")
    store, second = store.send(add, "token")
    assert (first, second) == ({}, {})
    assert store.number("n", TABLE, "POST#1", "LIKE#1") == 1
    assert store.send(add, "another")[0].number("n", TABLE, "POST#1", "LIKE#1") == 2


@pytest.mark.parametrize(
    "body",
    [
        {"ConditionExpression": "size(PK) > :n", "ExpressionAttributeValues": {":n": {"N": "1"}}},
        {"ConditionExpression": "attribute_exists(a.b)"},
        {"ConditionExpression": "attribute_exists(#undefined)"},
        {"ExpressionAttributeValues": {":unused": {"N": "1"}}},
        {"UpdateExpression": "SET a = :v REMOVE a", "ExpressionAttributeValues": {":v": {"N": "1"}}},
        {"UpdateExpression": "SET PK = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}},
    ],
    ids=["size", "a path", "an undefined name", "an unused value", "two clauses", "the key"],
)
def test_what_is_malformed_or_not_modelled_is_refused_loudly(body: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        Store.of(SCHEMA).send(Send("UpdateItem", {"TableName": TABLE, "Key": LIKE, **body}))
