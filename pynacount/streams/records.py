"""Reading one record of a DynamoDB stream, as Lambda hands it over or ``GetRecords`` gives it.

Sources: AWS API Reference, "DynamoDB Streams: Record, StreamRecord"; Lambda Developer Guide, "Using AWS Lambda with
Amazon DynamoDB".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pynacount.errors import StreamRecordError
from pynacount.steps import Item

Event: TypeAlias = Literal["INSERT", "MODIFY", "REMOVE"]

EVENTS = ("INSERT", "MODIFY", "REMOVE")
SEQUENCE_DIGITS = 40
"""Most digits of a sequence number (AWS: StreamRecord, 21 to 40): too many for a DynamoDB number, which has 38."""
TTL_PRINCIPAL = "dynamodb.amazonaws.com"
"""Who deletes expired items (AWS: "DynamoDB Streams and Time to Live")."""

_ARN = re.compile(r"arn:[^:]+:dynamodb:[^:]*:[^:]*:table/(?P<table>[^/]+)/stream/(?P<label>.+)")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one item.

    ``sequence`` is the record's own number, by which Lambda knows it; ``mark`` orders the records of one lane as text:
    the stream's label, then the number with leading zeros. ``before`` and ``after`` are None where there was, or is, no
    item; and where the stream's ``view`` leaves them out, which ``lacks`` tells apart. ``expired``: TTL deleted it.
    """

    table: str
    event: Event
    keys: Item
    before: Item | None
    after: Item | None
    sequence: str
    mark: str
    view: str
    expired: bool = False

    def lacks(self) -> str:
        """The name of the image that the record ought to have and has not; empty where it is whole."""
        if self.event != "INSERT" and self.before is None:
            return "OldImage"
        return "NewImage" if self.event != "REMOVE" and self.after is None else ""


def sequence_of(record: Any) -> str:
    """The sequence number of a record; empty where it has none that can be read."""
    body = record.get("dynamodb") if isinstance(record, Mapping) else None
    number = body.get("SequenceNumber") if isinstance(body, Mapping) else None
    return number if isinstance(number, str) and _is_sequence(number) else ""


def read_change(record: Any, table: str = "", label: str = "") -> Change:
    """A record as data. ``table`` and ``label`` are the stream's, for a record that has no ``eventSourceARN``.

    Raises :class:`StreamRecordError` for what is no record of a DynamoDB stream.
    """
    body = record.get("dynamodb") if isinstance(record, Mapping) else None
    if not isinstance(body, Mapping):
        raise StreamRecordError("a record without a 'dynamodb' part is no record of a DynamoDB stream")
    sequence = body.get("SequenceNumber")
    if not isinstance(sequence, str) or not _is_sequence(sequence):
        raise StreamRecordError(f"the record's SequenceNumber is {sequence!r}; it must be text of 1 to 40 digits")
    about = f"the record {sequence}"
    event = record.get("eventName")
    if event not in EVENTS:
        raise StreamRecordError(f"{about} has the eventName {event!r}; DynamoDB has {', '.join(EVENTS)}", sequence)
    arn = record.get("eventSourceARN")
    if arn is not None:
        found = _ARN.fullmatch(arn) if isinstance(arn, str) else None
        if found is None:
            raise StreamRecordError(f"{about} has the eventSourceARN {arn!r}, which is no DynamoDB stream's", sequence)
        table, label = found["table"], found["label"]
    keys = _image(body, "Keys", about, sequence)
    if not keys:
        raise StreamRecordError(f"{about} has no Keys", sequence)
    principal = (record.get("userIdentity") or {}).get("principalId")
    return Change(
        table=table,
        event=event,
        keys=keys,
        before=None if event == "INSERT" else _image(body, "OldImage", about, sequence),
        after=None if event == "REMOVE" else _image(body, "NewImage", about, sequence),
        sequence=sequence,
        mark=mark_of(label, sequence),
        view=str(body.get("StreamViewType") or ""),
        expired=event == "REMOVE" and principal == TTL_PRINCIPAL,
    )


def mark_of(label: str, sequence: str) -> str:
    """What orders the records of one lane as text.

    A stream that is made anew has a later label, the time at which it was made, so that its first record comes behind
    the last of the former one, whatever their numbers are.
    """
    return f"{_moment(label)}/{sequence:0>{SEQUENCE_DIGITS}}"


def _moment(label: str) -> str:
    """A stream's label (``2015-05-11T21:21:33.291``) with as many decimals as any."""
    whole, _, fraction = label.partition(".")
    return f"{whole}.{fraction:0<6}" if label else ""


def _is_sequence(number: str) -> bool:
    return number.isascii() and number.isdecimal() and len(number) <= SEQUENCE_DIGITS


def _image(body: Mapping[str, Any], name: str, about: str, sequence: str) -> Item | None:
    image = body.get(name)
    if image is None:
        return None
    if not isinstance(image, Mapping) or not all(
        isinstance(value, Mapping) and len(value) == 1 for value in image.values()
    ):
        raise StreamRecordError(f"{about}: its {name} is no item in DynamoDB's JSON", sequence)
    return image  # type: ignore[return-value]
