"""The process environment, and the clients made from it, while an engine is in force."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

REGION = "us-east-1"
"""The region that engines put in ``AWS_DEFAULT_REGION``."""

ISOLATED: Mapping[str, str | None] = {
    "AWS_ACCESS_KEY_ID": "pynacount",
    "AWS_SECRET_ACCESS_KEY": "pynacount",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
    # A developer's own profile, session or endpoint must not decide where a test writes.
    "AWS_ACCOUNT_ID": None,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_DEFAULT_PROFILE": None,
    "AWS_ENDPOINT_URL": None,
    "AWS_ENDPOINT_URL_DYNAMODB": None,
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": None,
    "AWS_PROFILE": None,
    "AWS_SESSION_TOKEN": None,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""What every engine sets (a string) or takes away (None), so that no setting of the developer's leaks in."""


def leads_to(endpoint_url: str) -> dict[str, str | None]:
    """The changes by which every new client reaches this endpoint, beyond :data:`ISOLATED`."""
    changes: dict[str, str | None] = {"AWS_ENDPOINT_URL_DYNAMODB": endpoint_url}
    for name in ("NO_PROXY", "no_proxy"):
        # botocore would send even requests to this machine through a proxy that the environment names.
        changes[name] = ",".join(filter(None, (os.environ.get(name), urlsplit(endpoint_url).hostname)))
    return changes


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change ``os.environ`` (None takes a variable away), and put back what was there."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def forget_clients() -> None:
    """Make every live PynamoDB connection, and boto3's default session, build its client anew when next used.

    A client keeps the endpoint and the credentials of the moment it was made. PynamoDB keeps one for each model,
    so without this a model used before an engine was entered would go on talking to where it talked before.
    """
    base = sys.modules.get("pynamodb.connection.base")
    if base is not None:
        for thing in gc.get_objects():
            # type(), not isinstance(): the latter runs code of lazy proxies that pretend to be something else.
            if issubclass(type(thing), base.Connection):
                thing._client = None
                thing._local = threading.local()
    boto3: Any = sys.modules.get("boto3")
    if boto3 is not None:
        boto3.DEFAULT_SESSION = None
