"""The page of counters and their drift, and the page of one parent. Both only read."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from pynamodb.exceptions import PynamoDBException

from pynacount.commands.trouble import in_one_line
from pynacount.contrib.django.conf import setting, targets
from pynacount.contrib.overview import counters_of, overview, way_to_mend_one
from pynacount.errors import KeyTemplateError, TargetError
from pynacount.fields import CounterField
from pynacount.inspecting import inspect
from pynacount.inspecting.parts import Parent
from pynacount.inspecting.texts import notes, plain, verdict
from pynacount.protocols.standings import Standing
from pynacount.tallies import Audited
from pynacount.tallies.repairing import REPAIRED
from pynacount.tallies.suspects import audited
from pynacount.targets import key_variables
from pynacount.ways import is_repaired, way_to_seed


def may_look(request: HttpRequest) -> bool:
    """Where ``MAY_LOOK`` says nothing: everybody in development, else who is on the staff, by Django's own users."""
    user: Any = getattr(request, "user", None)
    return settings.DEBUG or bool(user is not None and user.is_active and user.is_staff)


def _check(request: HttpRequest) -> None:
    allowed = setting("MAY_LOOK") or may_look
    if not (import_string(allowed) if isinstance(allowed, str) else allowed)(request):
        raise PermissionDenied


@require_safe
@never_cache
def counters(request: HttpRequest) -> HttpResponse:
    """Every counter, and those of a sample of its parents that are not ok."""
    _check(request)
    known = {counter.tally.target: counter for counter in counters_of(targets())}
    shown = [
        {"counter": one, "rows": [_row(known[one.target], row) for row in one.rows]}
        for one in overview(list(known.values()), setting("SAMPLE"))
    ]
    return render(request, "pynacount/counters.html", {"counters": shown, "sample": setting("SAMPLE")})


def _row(counter: CounterField, found: Audited) -> dict[str, Any]:
    try:
        variables = counter.owner._counting.schema.read_key(found.key)
    except KeyTemplateError:  # a child that does not tell its parent
        return {"found": found, "link": ""}
    link = reverse("pynacount:parent", args=[counter.tally.target])
    return {"found": found, "name": _named(variables), "link": f"{link}?{urlencode(variables)}"}


@require_safe
@never_cache
def parent(request: HttpRequest, target: str) -> HttpResponse:
    """One parent: its item, its tally beside its count, and what mends it."""
    _check(request)
    counter = next((c for c in counters_of(targets()) if c.tally.target == target), None)
    if counter is None:
        raise Http404("no such counter")
    try:
        variables = key_variables(counter.owner, [f"{name}={value}" for name, value in request.GET.items()])
        parts = list(inspect([counter], counter.owner.ref(**variables), first=0))
    except (TargetError, KeyTemplateError) as error:
        raise Http404(error.msg) from error
    except (PynamoDBException, BotoCoreError, ClientError) as error:
        trouble = {"name": _named(variables), "counter": counter.label, "problem": in_one_line(error)}
        return render(request, "pynacount/trouble.html", trouble)
    item = next(part for part in parts if isinstance(part, Parent))
    standing = next(part for part in parts if isinstance(part, Standing))
    heading, how, command = _way_out(counter, audited(counter.tally, item.key, standing))
    context = {
        "name": _named(variables),
        "item": item,
        "attributes": {name: plain(value) for name, value in sorted((item.item or {}).items())},
        "standing": standing,
        "verdict": verdict(standing),
        "notes": notes(standing, item),
        "heading": heading,
        "how": how,
        "command": command,
    }
    return render(request, "pynacount/parent.html", context)


def _way_out(counter: CounterField, row: Audited | None) -> tuple[str, str, str]:
    """A heading, what is to be done, and the command that does it; empty where nothing helps."""
    tallies = "python manage.py tallies"
    if row is not None and row.state == "unseeded":
        return "Seed", "To count all parents that have no tally:", way_to_seed(counter, tallies).command
    if row is not None and row.state in REPAIRED:
        way = way_to_mend_one(counter, row, tallies)
        if way.by_hand:
            return "Count anew", f"To count it anew: {way.by_hand}.", ""
        if is_repaired(counter):
            return "Repair", "To count it anew, while people go on:", way.command
        return "Count anew", "To count all parents anew:", way.command
    if row is not None and row.state == "closed" and is_repaired(counter):
        how = "To delete it, with the children that are left, as was begun:"
        return "Finish its deletion", how, f"{way_to_mend_one(counter, row, tallies).command} --sweep"
    return "", "", ""


def _named(variables: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())
