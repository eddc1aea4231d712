"""Views in which counting goes on: its errors become answers, and a request that comes again is done once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import select_template

from pynacount.contrib.answers import ANSWERED, Answer, answer_to
from pynacount.contrib.django.conf import setting
from pynacount.contrib.requests import HEADER, of_request
from pynacount.errors import PynacountError

V = TypeVar("V", bound=Callable[..., HttpResponseBase])

_LOG = logging.getLogger("pynacount.contrib.django")


def counted_view(view: V) -> V:
    """For a view function: errors of counting are answered (409, 404, 503 with ``Retry-After`` and so on).

    An ``Idempotency-Key`` header makes what the view counts be done once for it, however often the request comes. A
    page is made by the project's template ``409.html`` (or what the status is), else by ``pynacount/answer.html``; who
    asks for JSON is given JSON. Raises ``TypeError`` for an async view: there is no async interface.
    """
    if inspect.iscoroutinefunction(view):
        raise TypeError(
            f"{view.__qualname__} is async, and counting has no async interface; make it a plain view, which Django "
            f"runs in a thread"
        )

    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _answered(request, lambda: view(request, *args, **kwargs))

    return cast("V", answered)


class CountedViewMixin:
    """For a class-based view: what :func:`counted_view` is for a function. It comes before the view's other bases."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Call the view's method for the request."""
        view: Any = super()
        return _answered(request, lambda: view.dispatch(request, *args, **kwargs))


def _answered(request: HttpRequest, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    try:
        with of_request(request.headers.get(HEADER), request.method or "", request.path):
            return view()
    except ANSWERED as error:
        return _answer(request, error)


def _answer(request: HttpRequest, error: PynacountError) -> HttpResponse:
    answer = cast("Answer", answer_to(error))
    _LOG.log(logging.ERROR if answer.ours else logging.INFO, "%s: %s", type(error).__name__, error.msg)
    response: HttpResponse
    if _wants_json(request):
        problem = "application/problem+json"
        response = JsonResponse(answer.problem(), status=answer.status, content_type=problem)
    else:
        response = _page(request, answer)
    for name, value in answer.headers(setting("RETRY_AFTER")).items():
        response[name] = value
    return response


def _page(request: HttpRequest, answer: Answer) -> HttpResponse:
    context = {"answer": answer, "exception": answer.text, "request_path": request.path}
    try:
        template = select_template([f"{answer.status}.html", "pynacount/answer.html"])
    except (TemplateDoesNotExist, ImproperlyConfigured):  # a project without templates
        return HttpResponse(answer.text, status=answer.status, content_type="text/plain; charset=utf-8")
    return HttpResponse(template.render(context, request), status=answer.status)


def _wants_json(request: HttpRequest) -> bool:
    if request.content_type == "application/json":
        return True
    accepted = [kind.split(";")[0].strip() for kind in request.headers.get("Accept", "*/*").split(",")]
    named = [kind for kind in accepted if kind in ("text/html", "application/json", "application/problem+json")]
    return bool(named) and named[0] != "text/html"
