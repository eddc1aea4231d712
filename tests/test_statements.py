"""Many conditional updates in one request: each stands under its own guards, and what is left over is done singly."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pynacount.commit import Driver
from pynacount.connections import connection_for
from pynacount.expressions import Absent, Action, Add, Copy, Exists, Given, Guard, Remove, Same, Set
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Update
from pynacount.tallies import Tracking, migrate
from pynacount.tallies.statements import MAX_STATEMENTS, Written, statement, write_together
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Meta, Post, before, item, items, number, put, raw

REFUSED = "ConditionalCheckFailed"


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> None:
    tables(*ALL)


def key(pk: str) -> ItemKey:
    return ItemKey("Town", ("PK", "SK"), (("S", pk), ("S", "META")))


def update(pk: str, *guards: Guard, actions: tuple[Action, ...] = (Set("new", {"N": "7"}),)) -> Update:
    return Update(key(pk), actions, (Claim(guards, "a test"),))


def write(*updates: Update) -> Written:
    return Driver(connection_for(Meta), 10, lambda: "a test").run(write_together(updates))


class TestGuards:
    @pytest.mark.parametrize(
        ("guard", "holds", "refused"),
        [
            (Exists("count"), {"count": {"N": "3"}}, {}),
            (Absent("count"), {}, {"count": {"N": "3"}}),
            (Absent("count"), {}, {"count": {"NULL": True}}),  # an attribute that is null is there
            (Same("count", None), {}, {"count": {"N": "3"}}),
            (Same("count", {"N": "3.0"}), {"count": {"N": "3"}}, {"count": {"N": "4"}}),
            (Same("count", {"N": "3"}), {"count": {"N": "3"}}, {}),
            (Same("count", {"N": "3"}), {"count": {"N": "3"}}, {"count": {"S": "3"}}),
        ],
    )
    def test_each_kind_is_a_condition_that_holds(self, guard: Guard, holds: Any, refused: Any) -> None:
        put("a", "META", **holds)
        put("b", "META", **refused)
        written = write(update("a", guard), update("b", guard))
        assert written == Written((None, REFUSED), 1.0)
        assert item("a", "META") == {**holds, "new": {"N": "7"}}
        assert item("b", "META") == refused

    def test_all_guards_must_hold(self) -> None:
        put("a", "META", one={"N": "1"})
        assert write(update("a", Same("one", {"N": "1"}), Absent("one"))).errors == (REFUSED,)
        assert write(update("a", Same("one", {"N": "1"}), Absent("two"), Exists("PK"))).errors == (None,)

    @pytest.mark.parametrize("guards", [(), (Exists("PK"),), (Absent("count"),), (Same("count", None),)])
    def test_an_absent_item_is_never_created(self, guards: tuple[Guard, ...]) -> None:
        assert write(update("gone", *guards)) == Written((REFUSED,), 0.0)
        assert items() == {}

    @pytest.mark.parametrize("guard", [Same("count", {"N": "0"}, or_absent=True), Given(Post.body == "x")])
    def test_a_guard_that_cannot_be_said_is_no_statement(self, guard: Guard) -> None:
        with pytest.raises(TypeError):
            statement(update("a", guard))


class TestStatements:
    @pytest.mark.parametrize(
        "name", ["count", "a b", "a.b", 'say "a"', '"', '""', 'a" = ? WHERE "b', 'a" IS MISSING AND "b', "a'b"]
    )
    def test_names_may_hold_anything(self, name: str) -> None:
        put("a", "META", **{name: {"N": "1"}})
        put("b", "META", **{name: {"N": "2"}})
        values = (Set(name, {"N": "5"}), Set("other", {"S": 'v"?'}))
        guarded = [update(pk, Same(name, {"N": "1"}), actions=values) for pk in "ab"]
        assert write(*guarded).errors == (None, REFUSED)
        assert item("a", "META") == {name: {"N": "5"}, "other": {"S": 'v"?'}}
        assert item("b", "META") == {name: {"N": "2"}}
        assert write(update("a", Absent(name)), update("b", Exists(name))).errors == (REFUSED, None)

    @pytest.mark.parametrize("action", [Remove("a"), Add("a", 1), Copy("a", "b")])
    def test_what_does_more_than_set_is_no_statement(self, action: Action) -> None:
        with pytest.raises(TypeError):
            statement(update("a", actions=(Set("new", {"N": "7"}), action)))

    def test_one_that_is_refused_does_not_keep_the_others_from_being_written(self) -> None:
        pks = [f"p{index:02}" for index in range(MAX_STATEMENTS)]
        for pk in pks[::2]:
            put(pk, "META")
        assert write(*map(update, pks)).errors == tuple(REFUSED if index % 2 else None for index in range(len(pks)))
        assert sorted(pk for pk, _ in items()) == pks[::2]


@contextmanager
def failing(index: int, code: str) -> Iterator[None]:
    """Let one statement of each request fail by itself, unwritten, as one does that is throttled."""
    events = connection_for(Meta).client.meta.events

    def leave_out(params: dict[str, Any], **_: Any) -> None:
        body = json.loads(params["body"])
        del body["Statements"][index]
        params["body"] = json.dumps(body).encode()

    def tell(parsed: dict[str, Any], **_: Any) -> None:
        parsed["Responses"].insert(index, {"Error": {"Code": code, "Message": "injected"}})

    hooks = {
        "before-call.dynamodb.BatchExecuteStatement": leave_out,
        "after-call.dynamodb.BatchExecuteStatement": tell,
    }
    for event, hook in hooks.items():
        events.register(event, hook)
    try:
        yield
    finally:
        for event, hook in hooks.items():
            events.unregister(event, hook)


class TestMigrating:
    """What ``migrate`` makes of it: whatever becomes of a statement, each parent ends with its count."""

    many = MAX_STATEMENTS + 5

    @pytest.fixture(autouse=True)
    def legacy(self, social: None) -> None:
        batch = [
            {"PutRequest": {"Item": {"PK": {"S": f"POST#p{post:02}"}, "SK": {"S": sort}}}}
            for post in range(self.many)
            for sort in ["META", *(f"LIKE#USER#{user}" for user in range(post % 3))]
        ]
        for start in range(0, len(batch), 25):
            raw().batch_write_item(RequestItems={"Town": batch[start : start + 25]})

    def migrate(self) -> tuple[dict[str, int], Counter[str]]:
        """The tallies that it told of, and how often it sent what; the tallies in the table are what was told."""
        track = Tracking()
        with record_requests(connection_for(Meta).client) as sent:
            outcomes = list(migrate([Post.like_tally], workers=1, tracking=track))
        assert {one.status for one in outcomes} == {"seeded"}
        told = {one.key.values[0][1]: int(one.tally or 0) for one in outcomes}
        assert {pk: str(tally) for pk, tally in told.items()} == {pk: number(pk, "likeTally") for pk in told}
        assert track.write_units >= len(told)
        return told, Counter(operation for operation, _ in sent)

    def expected(self) -> dict[str, int]:
        return {f"POST#p{post:02}": post % 3 for post in range(self.many)}

    def test_parents_are_seeded_by_as_few_requests_as_there_can_be(self) -> None:
        told, sent = self.migrate()
        assert told == self.expected()
        assert sent == {"Scan": 1, "BatchExecuteStatement": 2}

    def test_without_the_right_to_partiql_each_is_written_singly(self) -> None:
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no PartiQLUpdate", operation="BatchExecuteStatement")
            told, sent = self.migrate()
            assert injector.pending == 0
        assert told == self.expected()
        assert sent == {"Scan": 1, "BatchExecuteStatement": 1, "UpdateItem": self.many}  # it is not tried again

    def test_a_statement_without_the_right_is_the_end_of_statements(self) -> None:
        with failing(0, "AccessDenied"):
            told, sent = self.migrate()
        assert told == self.expected()
        assert sent == {"Scan": 1, "BatchExecuteStatement": 1, "UpdateItem": 1 + self.many - MAX_STATEMENTS}

    @pytest.mark.parametrize(
        "code", ["ThrottlingError", "TransactionConflict", "InternalServerError", "DuplicateItem", "ValidationError"]
    )
    def test_a_statement_that_fails_by_itself_is_written_singly(self, code: str) -> None:
        with failing(2, code):
            told, sent = self.migrate()
        assert told == self.expected()
        assert sent == {"Scan": 1, "BatchExecuteStatement": 2, "UpdateItem": 2}

    def test_a_parent_that_was_seeded_or_deleted_meanwhile_is_looked_at_again(self) -> None:
        def meanwhile() -> None:
            assert Post.ref(post_id="p01").likes.add(user_id="new")
            Post.get(post_id="p03").delete()

        with before("BatchExecuteStatement", meanwhile):
            outcomes = {one.key.values[0][1]: one for one in migrate([Post.like_tally], workers=1)}
        assert (outcomes["POST#p01"].status, outcomes["POST#p01"].tally) == ("seeded", 2)
        assert outcomes["POST#p03"].status == "gone"
        assert item("POST#p03", "META") is None
        wanted = {**self.expected(), "POST#p01": 2}
        del wanted["POST#p03"]
        assert {pk: int(number(pk, "likeTally") or -1) if tally else 0 for pk, tally in wanted.items()} == wanted

    def test_a_lost_answer_ends_exact(self) -> None:
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(Fault.LOST_RESPONSE, operation="BatchExecuteStatement")
            told, sent = self.migrate()
            assert injector.pending == 0
        assert told == self.expected()
        assert sent["BatchExecuteStatement"] == 3
        assert sent["UpdateItem"] == MAX_STATEMENTS  # the second try finds all of them written
