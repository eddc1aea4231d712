"""The model of DynamoDB's conflicts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from pynacount import CountedIn, commit, models
from pynacount.connections import connection_for
from pynacount.testing import Conflicts, Engine, Fault, FaultInjector, create_tables


class Post(models.PostMeta):
    class Meta:
        table_name = "Conflicts"


class Like(models.Like):
    post = CountedIn(Post.like_tally)

    class Meta:
        table_name = "Conflicts"


@pytest.fixture
def client(engine: Engine) -> Any:
    create_tables(Post, Like)
    for post in ("a", "b"):
        Post(post_id=post).save()
    return connection_for(Post.Meta).client


def like(post: str, user: str) -> dict[str, Any]:
    return Like(post_id=post, user_id=user).plan_save().request()


@contextmanager
def under_way(client: Any, request: dict[str, Any]) -> Iterator[None]:
    """Another thread's transaction has been sent, and its answer is not there yet."""
    sent, may_go = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: client.transact_write_items(**request))

    def hold(**_: Any) -> None:
        if threading.current_thread() is other:
            sent.set()
            may_go.wait()

    client.meta.events.register_last("before-send.dynamodb.TransactWriteItems", hold)
    try:
        other.start()
        sent.wait()
        yield
    finally:
        may_go.set()
        other.join()
        client.meta.events.unregister("before-send.dynamodb.TransactWriteItems", hold)


@pytest.mark.real_engine
def test_a_transaction_that_meets_another_on_an_item_is_cancelled_for_that_item(client: Any) -> None:
    with Conflicts(client) as conflicts, under_way(client, like("a", "ada")):
        with pytest.raises(ClientError) as met:
            client.transact_write_items(**like("a", "bob"))
        assert [reason["Code"] for reason in met.value.response["CancellationReasons"]] == [
            "None",
            "TransactionConflict",
        ]
        client.transact_write_items(**like("b", "bob"))  # on other items
    assert (conflicts.sent, conflicts.met) == (3, 1)
    assert Post.get(post_id="a").like_tally == Post.get(post_id="b").like_tally == 1


@pytest.mark.real_engine
def test_a_write_of_one_item_that_meets_a_transaction_is_refused_and_a_read_is_not(client: Any) -> None:
    with Conflicts(client), under_way(client, like("a", "ada")):
        key = {"PK": {"S": "POST#a"}, "SK": {"S": "META"}}
        with pytest.raises(client.exceptions.TransactionConflictException):
            client.put_item(TableName="Conflicts", Item=key)
        assert client.get_item(TableName="Conflicts", Key=key)["Item"]
        client.put_item(TableName="Conflicts", Item={"PK": {"S": "POST#a"}, "SK": {"S": "OTHER"}})


@pytest.mark.parametrize("fault", [None, Fault.CONFLICT, Fault.LOST_RESPONSE, Fault.REFUSED_CONNECTION])
def test_a_transaction_that_is_answered_or_lost_leaves_nothing_that_others_meet(
    client: Any, fault: Fault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "FIRST_BACKOFF", 0.001)
    with Conflicts(client) as conflicts, FaultInjector(client) as injector:
        injector.next(fault)
        assert Post.ref(post_id="a").likes.add(user_id="ada")
        assert not Post.ref(post_id="a").likes.add(user_id="ada")
        assert conflicts.met == 0 and not +conflicts._busy
    assert Post.get(post_id="a").like_tally == 1


def test_nothing_conflicts_after_its_block(client: Callable[..., Any]) -> None:
    conflicts = Conflicts(client)  # type: ignore[arg-type]
    with conflicts:
        pass
    assert Post.ref(post_id="a").likes.add(user_id="ada")
    assert conflicts.sent == 0
