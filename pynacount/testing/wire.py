"""A DynamoDB request as botocore is about to send it."""

from __future__ import annotations

import json
from typing import Any

from botocore.awsrequest import AWSPreparedRequest


def operation_of(event_name: str) -> str:
    """The operation in the name of a botocore event: ``before-send.dynamodb.PutItem`` gives ``PutItem``."""
    return event_name.rsplit(".", 1)[-1]


def parsed_body(request: AWSPreparedRequest) -> dict[str, Any]:
    """The request's parameters, read back from the bytes that go over the wire."""
    body: Any = request.body
    parsed: dict[str, Any] = json.loads(body or b"{}")
    return parsed
