"""``manage.py check``: what is wrong with the settings, the models and their tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from pynamodb.exceptions import PynamoDBException

from pynacount.commands.trouble import in_one_line
from pynacount.connections import connection_for
from pynacount.contrib.django import conf
from pynacount.contrib.overview import counters_of, overview
from pynacount.errors import TargetError
from pynacount.fields import CounterField

TAG = "pynacount"
_HERE = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1", "host.docker.internal"})


@register(TAG)
def check_counters(**_: Any) -> list[CheckMessage]:
    """The settings; that the models import; where they lead in production; and, by DynamoDB's answers, their tables."""
    if said := conf.mistakes():
        return [Error(text, id="pynacount.E001") for text in said]
    try:
        counters = counters_of(conf.targets())
    except TargetError as error:
        return [Error(error.msg, hint='Mend it, or PYNACOUNT["MODELS"].', id="pynacount.E002")]
    found = list(_debug_endpoints(counters))
    if conf.setting("CHECK_TABLES"):
        found += _tables(counters)
    return found


def _models(counters: Sequence[CounterField]) -> list[Any]:
    """The parents and their children, each once."""
    models = [counter.owner for counter in counters]
    models += [relation.owner for counter in counters for relation in counter.counted_relations]
    return list(dict.fromkeys(models))


def _debug_endpoints(counters: Sequence[CounterField]) -> Iterator[CheckMessage]:
    if settings.DEBUG:
        return
    variables = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")
    places = {f"${name}": os.environ.get(name) for name in variables if counters}
    places |= {f"{model.__name__}.Meta.host": getattr(model.Meta, "host", None) for model in _models(counters)}
    for place, url in places.items():
        if url and urlsplit(url).hostname in _HERE:
            hint = "It is for development: leave it out, or set DEBUG = True."
            yield Warning(f"{place} leads to {url}, on this machine.", hint=hint, id="pynacount.W001")


def _tables(counters: Sequence[CounterField]) -> Iterator[CheckMessage]:
    by_table: dict[str, list[Any]] = {}
    for model in _models(counters):
        by_table.setdefault(model.Meta.table_name, []).append(model)
    sound = set()
    for table, models in by_table.items():
        trouble = list(_table(table, models))
        yield from trouble
        if not trouble:
            sound.add(table)
    sampled = [counter for counter in counters if counter.owner.Meta.table_name in sound]
    for one in overview(sampled, min(conf.setting("SAMPLE"), 20), "manage.py tallies"):
        if one.problem:
            yield Warning(f"{one.label} could not be looked at: {one.problem}", id="pynacount.W002")
        if one.unseeded:
            yield Warning(
                f"{one.label}: {one.unseeded} of {one.looked_at} parents have no tally yet.",
                hint=f"Seed them: {one.seed.said}",
                id="pynacount.W003",
            )
        if one.wrong:
            yield Warning(
                f"{one.label}: {one.wrong} of {one.looked_at} tallies are wrong.",
                hint=f"Look at them and mend them: manage.py tallies audit {one.target}; {one.mend.said}",
                id="pynacount.W004",
            )


def _table(table: str, models: Sequence[Any]) -> Iterator[CheckMessage]:
    names = ", ".join(model.__name__ for model in models)
    try:
        client: Any = connection_for(models[0].Meta).client
        found = client.describe_table(TableName=table)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            hint = "Create it, or mend Meta.table_name, AWS_REGION and AWS_ENDPOINT_URL_DYNAMODB."
            yield Error(f"There is no table {table}, of {names}.", hint=hint, id="pynacount.E003")
        else:
            yield _not_looked_at(table, error)
        return
    except (BotoCoreError, PynamoDBException) as error:
        yield _not_looked_at(table, error)
        return
    streams = [model for model in models if getattr(model.Meta, "stream_view_type", None)]
    if streams and not found.get("StreamSpecification", {}).get("StreamEnabled"):
        view = streams[0].Meta.stream_view_type
        yield Error(
            f"The table {table} has no stream, and {streams[0].__name__}.Meta.stream_view_type is {view!r}.",
            hint=f"Enable it: aws dynamodb update-table --table-name {table} --stream-specification "
            f"StreamEnabled=true,StreamViewType={view}",
            id="pynacount.E004",
        )


def _not_looked_at(table: str, error: Exception) -> CheckMessage:
    hint = 'Or let checks not ask DynamoDB: PYNACOUNT["CHECK_TABLES"] = False.'
    return Warning(f"The table {table} could not be looked at: {in_one_line(error)}", hint=hint, id="pynacount.W002")
