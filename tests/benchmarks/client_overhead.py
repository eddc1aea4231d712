"""Microseconds that a client spends on one like, with the network stubbed.

    python -m tests.benchmarks.client_overhead

Four ways to send the article's transaction, in one process and in turn, round by round, so that a machine that
slows down slows all of them: raw botocore with the request written out by hand; PynamoDB with the transaction written
by hand, with and without the guard on the parent that makes it exact; and pynacount. Each has a client of its own with
the settings that PynamoDB uses, so the requests cost botocore the same. The figure to look at is the ratio of the
medians.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from pynacount import CountedIn, models
from pynacount.connections import connection_for

REGION = "us-east-1"
NOW = 1750636800


class HandPost(Model):
    class Meta:
        table_name = "Social"
        region = REGION

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
    like_tally = NumberAttribute(attr_name="likeTally", null=True)


class HandLike(Model):
    class Meta:
        table_name = "Social"
        region = REGION

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
    liked_at = NumberAttribute(attr_name="likedAt")


class Post(models.PostMeta):
    class Meta:
        table_name = "Social"
        region = REGION


class Like(models.Like):
    post = CountedIn(Post.like_tally)

    class Meta:
        table_name = "Social"
        region = REGION


class _Raw:
    """The body of a stubbed answer."""

    def stream(self, **_: object) -> list[bytes]:
        return [b"{}"]


def answer_at_once(client: object) -> None:
    """Answer every request with an empty success, before it reaches a socket."""

    def stub(request: object, **_: object) -> AWSResponse:
        return AWSResponse("https://stub", 200, {"x-amz-crc32": "2745614147"}, _Raw())

    client.meta.events.register_last("before-send.dynamodb.*", stub)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to send a like: given a number, it likes as that user."""

    name: str
    like: Callable[[int], object]


def raw_botocore() -> Contender:
    client = botocore.session.get_session().create_client(
        "dynamodb",
        REGION,
        config=Config(parameter_validation=False, retries={"total_max_attempts": 4, "mode": "standard"}),
    )
    answer_at_once(client)

    def like(user: int) -> object:
        return client.transact_write_items(
            TransactItems=[
                {
                    "Put": {
                        "TableName": "Social",
                        "Item": {
                            "PK": {"S": "POST#a91f"},
                            "SK": {"S": f"LIKE#USER#{user}"},
                            "likedAt": {"N": str(NOW)},
                        },
                        "ConditionExpression": "attribute_not_exists(SK)",
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                },
                {
                    "Update": {
                        "TableName": "Social",
                        "Key": {"PK": {"S": "POST#a91f"}, "SK": {"S": "META"}},
                        "UpdateExpression": "ADD likeTally :one",
                        "ConditionExpression": "attribute_exists(likeTally)",
                        "ExpressionAttributeValues": {":one": {"N": "1"}},
                        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                    }
                },
            ]
        )

    return Contender("raw botocore", like)


def hand_written_pynamodb(guarded: bool) -> Contender:
    connection = Connection(region=REGION)
    answer_at_once(connection.client)
    for model in (HandPost, HandLike):  # the transaction learns the key schema from the models' own connections
        answer_at_once(model._get_connection().connection.client)

    def like(user: int) -> object:
        with TransactWrite(connection=connection) as transaction:
            transaction.save(
                HandLike("POST#a91f", f"LIKE#USER#{user}", liked_at=NOW),
                condition=HandLike.sk.does_not_exist(),
                return_values="ALL_OLD" if guarded else None,
            )
            transaction.update(
                HandPost("POST#a91f", "META"),
                actions=[HandPost.like_tally.add(1)],
                condition=HandPost.like_tally.exists() if guarded else None,
                return_values="ALL_OLD" if guarded else None,
            )
        return transaction

    return Contender("hand-written PynamoDB" + (", guarded" if guarded else ""), like)


def pynacount_likes() -> Contender:
    answer_at_once(connection_for(Post.Meta).client)

    def like(user: int) -> object:
        return Post.ref(post_id="a91f").likes.add(user_id=str(user), liked_at=NOW)

    return Contender("pynacount", like)


def measure(contenders: list[Contender], rounds: int, likes: int) -> dict[str, list[float]]:
    """Microseconds per like, for each contender and round."""
    users = itertools.count()
    for contender in contenders:
        for _ in range(likes):
            contender.like(next(users))
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            turn = contenders[round_ % len(contenders) :] + contenders[: round_ % len(contenders)]
            for contender in turn:
                start = time.perf_counter()
                for _ in range(likes):
                    contender.like(next(users))
                times[contender.name].append((time.perf_counter() - start) / likes * 1e6)
            gc.collect()
    finally:
        gc.enable()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--likes", type=int, default=100, help="likes in each round")
    arguments = parser.parse_args()
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "benchmark")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "benchmark")
    contenders = [raw_botocore(), hand_written_pynamodb(False), hand_written_pynamodb(True), pynacount_likes()]
    times = measure(contenders, arguments.rounds, arguments.likes)
    medians = {name: statistics.median(found) for name, found in times.items()}
    print(f"{'':32} {'min':>8} {'median':>8} {'max':>8}   us per like")
    for name, found in times.items():
        print(f"{name:32} {min(found):8.1f} {medians[name]:8.1f} {max(found):8.1f}")
    print()
    for name in ("raw botocore", "hand-written PynamoDB", "hand-written PynamoDB, guarded"):
        pairs = [ours / theirs for ours, theirs in zip(times["pynacount"], times[name], strict=True)]
        ratio = medians["pynacount"] / medians[name]
        print(f"pynacount / {name:32} {ratio:.3f}  (pair by pair {statistics.median(pairs):.3f})")


if __name__ == "__main__":
    main()
