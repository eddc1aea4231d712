"""The views."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import wraps
from uuid import uuid4

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import Resolver404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from board import doing
from board.models import Post
from pynacount.contrib.counts import short_count
from pynacount.contrib.django import counted_view
from pynacount.errors import CounterBoundError


def names(request: HttpRequest) -> dict[str, str]:
    """What every page needs: who looks at it, and a key for each form that makes something."""
    return {"user_id": user(request), "key": uuid4().hex}


def user(request: HttpRequest) -> str:
    """Who it is. There is no login: a visitor is given a name."""
    if "user_id" not in request.session:
        request.session["user_id"] = f"guest-{secrets.token_hex(3)}"
    return str(request.session["user_id"])


def anybody(request: HttpRequest) -> bool:
    """Who may see the page of counters, ``/counters/``: here it is no secret."""
    return True


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For every view: no cache keeps its page, and its errors are answered."""

    @wraps(view)
    def answered(request: HttpRequest, **of_path: str) -> HttpResponse:
        try:
            return view(request, **of_path)
        except Post.DoesNotExist:
            raise Http404("There is no such post.") from None
        except doing.Unclear as error:
            raise BadRequest(str(error)) from None

    return never_cache(counted_view(answered))


@require_GET
@page
def feed(request: HttpRequest) -> HttpResponse:
    return render(request, "feed.html", {"lines": doing.feed(user(request))})


@require_POST
@page
def write(request: HttpRequest) -> HttpResponse:
    body = doing.words(request.POST.get("body", ""))
    if not body:
        return render(request, "feed.html", {"lines": doing.feed(user(request)), "blank": True}, status=400)
    try:
        post_id = doing.write(user(request), request.POST.get("key", ""), body, "again" in request.POST)
    except doing.WrittenAlready as found:
        return again(request, "body", body, found)
    return redirect("post", post_id)


def again(request: HttpRequest, name: str, text: str, found: doing.WrittenAlready) -> HttpResponse:
    """Asks whether it is to be written once more; by the same key, if so."""
    form = {"path": request.path, "name": name, "text": text, "key": request.POST.get("key", "")}
    return render(request, "again.html", {**form, "post_id": found.post_id}, status=409)


@require_GET
@page
def post(request: HttpRequest, post_id: str) -> HttpResponse:
    return shown(request, post_id)


def shown(request: HttpRequest, post_id: str, blank: bool = False) -> HttpResponse:
    """A post's page; after a form that was ``blank``, too."""
    line, comments = doing.one(post_id, user(request))
    context = {"line": line, "comments": comments, "blank": blank}
    return render(request, "post.html", context, status=400 if blank else 200)


@require_POST
@page
def like(request: HttpRequest, post_id: str) -> HttpResponse:
    state = doing.like(post_id, user(request), request.POST.get("do", ""))
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({**state, "shown": short_count(state["likes"])})
    return redirect(f"/#post-{post_id}" if request.POST.get("from") == "feed" else f"/posts/{post_id}")


@require_POST
@page
def comment(request: HttpRequest, post_id: str) -> HttpResponse:
    text = doing.words(request.POST.get("text", ""))
    if not text:
        return shown(request, post_id, blank=True)
    try:
        doing.comment(post_id, user(request), request.POST.get("key", ""), text, "again" in request.POST)
    except doing.WrittenAlready as found:
        return again(request, "text", text, found)
    return redirect(f"/posts/{post_id}#comments")


@require_http_methods(["GET", "POST"])
@page
def group(request: HttpRequest) -> HttpResponse:
    refused = False
    if request.method == "POST":
        try:
            doing.seat(user(request), request.POST.get("do", ""))
        except CounterBoundError:
            refused = True
        else:
            return redirect("group")
    context = {**doing.seats(user(request)), "refused": refused}
    return render(request, "group.html", context, status=409 if refused else 200)


@require_GET
@page
def tallies(request: HttpRequest, post_id: str) -> HttpResponse:
    item, standings = doing.standings(post_id)
    return render(request, "tallies.html", {"post_id": post_id, "item": item, "standings": standings})


# -- what the project answers where there is no view, or the view raised


def unclear(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Where nothing can be made of the request."""
    told = str(exception) if isinstance(exception, BadRequest) else "Nothing can be made of that request."
    return render(request, "400.html", {"exception": told}, status=400)


def stale(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Where the token against forged forms is missing, or is not this visitor's."""
    told = "This page is out of date, or your browser sends no cookies. Go back, reload the page and try again."
    return render(request, "403.html", {"exception": told}, status=403)


def missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Where there is no page."""
    told = "There is no such page." if isinstance(exception, Resolver404) else str(exception)
    return render(request, "404.html", {"exception": told}, status=404)
