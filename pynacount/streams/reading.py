"""Reading a DynamoDB Streams endpoint: its shards, parents first, and their records as Lambda hands them over.

Sources: AWS, "Change data capture for DynamoDB Streams" (shards and their lineage); API Reference, "DescribeStream",
"GetShardIterator", "GetRecords".
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

import botocore.session
from botocore.exceptions import ClientError

from pynacount.connections import connection_for
from pynacount.errors import DeclarationError

Start: TypeAlias = Literal["TRIM_HORIZON", "LATEST"]
"""Where a reader begins: with the oldest record that is kept, or with the next that comes."""

MOST_RECORDS = 1000
"""Records of one ``GetRecords`` at the most (AWS: API Reference)."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_DYNAMODB_STREAMS", "AWS_ENDPOINT_URL_DYNAMODB")


def streams_client(meta: Any) -> Any:
    """A client of DynamoDB Streams for a model's ``Meta``; a local engine serves it where it serves DynamoDB."""
    named = (os.environ.get(name) for name in _ENDPOINTS)
    return botocore.session.get_session().create_client(
        "dynamodbstreams",
        region_name=getattr(meta, "region", None),
        endpoint_url=getattr(meta, "host", None) or next(filter(None, named), None),
        aws_access_key_id=getattr(meta, "aws_access_key_id", None),
        aws_secret_access_key=getattr(meta, "aws_secret_access_key", None),
        aws_session_token=getattr(meta, "aws_session_token", None),
    )


def stream_arn(meta: Any, table: str) -> str:
    """The ARN of a table's stream. Raises :class:`DeclarationError` where it has none."""
    client: Any = connection_for(meta).client
    described = client.describe_table(TableName=table)["Table"]
    if not (described.get("StreamSpecification") or {}).get("StreamEnabled"):
        raise DeclarationError(
            f"the table {table} has no stream; enable one with StreamViewType NEW_AND_OLD_IMAGES (in a model that "
            f'creates its table: class Meta: stream_view_type = "NEW_AND_OLD_IMAGES")'
        )
    return str(described["LatestStreamArn"])


@dataclass(slots=True)
class Shard:
    """A shard as it is read. ``iterator`` is None before it was begun and, with ``ended``, when it is read to its end.

    ``after``: the sequence number of the last record that was dealt with.
    """

    shard_id: str
    parent: str | None
    iterator: str | None = None
    begun: bool = False
    ended: bool = False
    after: str | None = None


@dataclass(slots=True)
class Stream:
    """The shards of one stream, as far as they were read."""

    client: Any
    arn: str
    start: Start = "TRIM_HORIZON"
    shards: dict[str, Shard] = field(default_factory=dict)

    def look(self) -> None:
        """Learn which shards there are. One that comes later is read from its beginning."""
        fresh = bool(self.shards)
        start: dict[str, str] = {}
        while True:
            described = self.client.describe_stream(StreamArn=self.arn, **start)["StreamDescription"]
            for shard in described.get("Shards", ()):
                known = Shard(shard["ShardId"], shard.get("ParentShardId"))
                self.shards.setdefault(known.shard_id, known)
                if self.start == "LATEST" and not fresh and shard["SequenceNumberRange"].get("EndingSequenceNumber"):
                    self.shards[known.shard_id].ended = True  # closed before it began to read
            last = described.get("LastEvaluatedShardId")
            if not last:
                break
            start = {"ExclusiveStartShardId": last}
        if not fresh:
            for shard_ in self.readable():
                self._begin(shard_, self.start)

    def readable(self) -> list[Shard]:
        """The shards whose parents are read to their end, or are gone."""
        return [
            shard
            for shard in self.shards.values()
            if not shard.ended and (shard.parent not in self.shards or self.shards[shard.parent].ended)
        ]

    def read(self, shard: Shard, limit: int = MOST_RECORDS) -> list[dict[str, Any]]:
        """The next records of a shard, as Lambda has them; none where there are none yet, or it has ended."""
        if not shard.begun:
            self._begin(shard, "TRIM_HORIZON")
        try:
            answer = self.client.get_records(ShardIterator=shard.iterator, Limit=limit)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in (
                "ExpiredIteratorException",
                "TrimmedDataAccessException",
            ):
                raise
            self._begin(shard, "TRIM_HORIZON")
            return []
        shard.iterator = answer.get("NextShardIterator")
        shard.ended = shard.iterator is None
        records = [as_lambda(record, self.arn) for record in answer["Records"]]
        if records:
            shard.after = records[-1]["dynamodb"]["SequenceNumber"]
        return records

    def _begin(self, shard: Shard, start: Start) -> None:
        shard.begun = True
        place: dict[str, str] = {"ShardIteratorType": start}
        if shard.after is not None:
            place = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": shard.after}
        shard.iterator = self.client.get_shard_iterator(StreamArn=self.arn, ShardId=shard.shard_id, **place)[
            "ShardIterator"
        ]


def as_lambda(record: Mapping[str, Any], arn: str) -> dict[str, Any]:
    """A record of ``GetRecords`` as Lambda's event has it: plain JSON, and with the stream's ARN."""
    return {**_json(record), "eventSourceARN": arn}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json(one) for name, one in value.items()}
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_json(one) for one in value]
    return value


def in_batches(records: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Records in batches of a size."""
    return [records[start : start + size] for start in range(0, len(records), size)]
