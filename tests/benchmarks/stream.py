"""Records a second and core of a stream's handler, with the network stubbed.

    python -m tests.benchmarks.stream

Beside it a bare loop that does no more than parse the records: it goes through each batch's JSON, as Lambda hands it
over, and looks up the event's name and the file's. Both take the same batches of 100 records over 500 files by Zipf's
law, in one process and in turn, round by round; the seconds are those of this thread's own processor time.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.connections import connection_for
from pynacount.streams import StreamTally
from tests.benchmarks.client_overhead import REGION, answer_at_once

FILES = 500
BATCH = 100


class FileCount(CountedModel):
    class Meta:
        table_name = "FileCounts"
        region = REGION
        aws_access_key_id = aws_secret_access_key = "stubbed"

    file_name = UnicodeAttribute(hash_key=True, attr_name="fileName")
    count = CounterField(missing="zero")


class Event(CountedModel):
    class Meta:
        table_name = "Events"
        region = REGION
        aws_access_key_id = aws_secret_access_key = "stubbed"

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("EVENT#{event_id}", range_key=True, attr_name="SK")
    file = CountedIn(FileCount.count, by="stream")


class UploadCount(CountedModel):
    class Meta:
        table_name = "UploadCounts"
        region = REGION
        aws_access_key_id = aws_secret_access_key = "stubbed"

    pk = KeyAttribute("NAME#{file_name}", hash_key=True, attr_name="fileName")
    count = CounterField(missing="zero")


class Upload(CountedModel):
    class Meta:
        table_name = "Uploads"
        region = REGION
        aws_access_key_id = aws_secret_access_key = "stubbed"

    upload_id = UnicodeAttribute(hash_key=True)
    file_name = UnicodeAttribute(attr_name="fileName")
    file = CountedIn(UploadCount.count, by="stream")


def batches(many: int, table: str, exponent: float) -> list[str]:
    """Inserts, as the text that Lambda's runtime is given."""
    chance = random.Random(1)
    names = chance.choices(range(FILES), [1 / (place + 1) ** exponent for place in range(FILES)], k=many * BATCH)
    arn = f"arn:aws:dynamodb:{REGION}:123456789012:table/{table}/stream/2026-07-01T00:00:00.000"
    records = []
    for number, name in enumerate(names):
        if table == "Events":
            keys = {"PK": {"S": f"FILE#f{name}"}, "SK": {"S": f"EVENT#{number}"}}
        else:
            keys = {"upload_id": {"S": str(number)}}
        image = {**keys, "fileName": {"S": f"f{name}"}, "note": {"S": "some text of an event"}, "size": {"N": "12345"}}
        body = {
            "ApproximateCreationDateTime": 1782864000.0,
            "Keys": keys,
            "NewImage": image,
            "SequenceNumber": f"{100000000000000000000 + number}",
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
        records.append(
            {
                "eventID": f"{number:032x}",
                "eventName": "INSERT",
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "dynamodb": body,
                "eventSourceARN": arn,
            }
        )
    return [json.dumps({"Records": records[at : at + BATCH]}) for at in range(0, len(records), BATCH)]


def bare(text: str) -> None:
    """Parse the records, and no more."""
    for record in json.loads(text)["Records"]:
        body = record["dynamodb"]
        _ = record["eventName"], body["SequenceNumber"], (body.get("NewImage") or body["OldImage"])["fileName"]["S"]


def handling(tally: StreamTally) -> Callable[[str], None]:
    def handle(text: str) -> None:
        tally.lambda_handler(json.loads(text))

    return handle


def seconds(work: Callable[[str], None], texts: list[str]) -> float:
    began = time.thread_time()
    for text in texts:
        work(text)
    return time.thread_time() - began


def main(rounds: int, many: int, exponent: float) -> None:
    """Measure, and print a table."""
    for model in (FileCount, UploadCount):
        answer_at_once(connection_for(model.Meta).client)
    events, uploads = (batches(many, table, exponent) for table in ("Events", "Uploads"))
    one = _one_file(events)
    contenders: dict[str, tuple[Callable[[str], None], list[str]]] = {
        "bare loop that parses": (bare, events),
        "by watermark": (handling(StreamTally(Event)), events),
        "by watermark, one file": (handling(StreamTally(Event)), one),
        "by markers": (handling(StreamTally(Upload)), uploads),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, (work, texts) in contenders.items():
            spent = seconds(work, texts)
            if number:  # the first warms up
                taken[name].append(spent)
    print(f"{'':24} {'records/s/core':>15} {'us/record':>10}")
    for name, spent_ in taken.items():
        per_record = statistics.median(spent_) / (many * BATCH)
        print(f"{name:24} {1 / per_record:15,.0f} {per_record * 1e6:10.1f}")


def _one_file(texts: list[str]) -> list[str]:
    found: list[Any] = []
    for text in texts:
        event = json.loads(text)
        for record in event["Records"]:
            for part in (record["dynamodb"]["Keys"], record["dynamodb"]["NewImage"]):
                part["PK"]["S"] = "FILE#f0"
        found.append(json.dumps(event))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--exponent", type=float, default=1.0)
    given = parser.parse_args()
    main(given.rounds, given.batches, given.exponent)
