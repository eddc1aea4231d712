"""The views."""

from __future__ import annotations

import secrets
from uuid import uuid4

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
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


@require_GET
@never_cache
@counted_view
def feed(request: HttpRequest) -> HttpResponse:
    return render(request, "feed.html", {"lines": doing.feed(user(request))})


@require_POST
@counted_view
def write(request: HttpRequest) -> HttpResponse:
    if body := doing.words(request.POST.get("body", "")):
        return redirect("post", doing.write(user(request), request.POST.get("key", uuid4().hex), body))
    return redirect("feed")


@require_GET
@never_cache
@counted_view
def post(request: HttpRequest, post_id: str) -> HttpResponse:
    try:
        line, comments = doing.one(post_id, user(request))
    except Post.DoesNotExist:
        raise Http404("There is no such post.") from None
    return render(request, "post.html", {"line": line, "comments": comments})


@require_POST
@counted_view
def like(request: HttpRequest, post_id: str) -> HttpResponse:
    state = doing.like(post_id, user(request), request.POST.get("do", "like"))
    if request.headers.get("Accept") == "application/json":
        return JsonResponse({**state, "shown": short_count(state["likes"])})
    return redirect(f"/#post-{post_id}" if request.POST.get("from") == "feed" else f"/posts/{post_id}")


@require_POST
@counted_view
def comment(request: HttpRequest, post_id: str) -> HttpResponse:
    if text := doing.words(request.POST.get("text", "")):
        doing.comment(post_id, user(request), request.POST.get("key", uuid4().hex), text)
    return redirect(f"/posts/{post_id}#comments")


@require_http_methods(["GET", "POST"])
@never_cache
@counted_view
def group(request: HttpRequest) -> HttpResponse:
    full = False
    if request.method == "POST":
        try:
            (doing.leave if request.POST.get("do") == "leave" else doing.join)(user(request))
        except CounterBoundError:
            full = True
        else:
            return redirect("group")
    seats = doing.seats(user(request))
    free = range(seats["seats"] - len(seats["members"]))
    return render(request, "group.html", {**seats, "free": free, "full": full}, status=409 if full else 200)


@require_GET
@never_cache
@counted_view
def tallies(request: HttpRequest, post_id: str) -> HttpResponse:
    try:
        item, standings = doing.standings(post_id)
    except Post.DoesNotExist:
        raise Http404("There is no such post.") from None
    return render(request, "tallies.html", {"post_id": post_id, "item": item, "standings": standings})
