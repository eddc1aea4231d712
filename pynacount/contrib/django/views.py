"""Views in which counting goes on: its errors become answers, and a request that comes again is done once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import isawaitable, isclass, iscoroutine
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.template import TemplateDoesNotExist
from django.template.loader import select_template
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_header_parameters
from django.views import View

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
    asks for JSON is given JSON. Raises ``TypeError`` for an async view, as there is no async interface, and a class.
    """
    if isclass(view):
        raise TypeError(f"{view.__qualname__} is a class; put CountedViewMixin before its other bases")
    if iscoroutinefunction(view) or iscoroutinefunction(type(view).__call__):
        raise _is_async(getattr(view, "__qualname__", repr(view)))

    @wraps(view)
    def answered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return _answered(request, lambda: view(request, *args, **kwargs))

    return cast("V", answered)


class CountedViewMixin:
    """For a class-based view: what :func:`counted_view` is for a function. It comes before the view's other bases.

    Raises ``TypeError`` where a class is declared that has an async method, or in which it comes behind ``View``.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the class."""
        super().__init_subclass__(**kwargs)
        order = cls.__mro__
        if View in order and order.index(View) < order.index(CountedViewMixin):
            raise TypeError(f"{cls.__qualname__}: CountedViewMixin must come before the view's other bases")
        for name in ("dispatch", *View.http_method_names):
            if iscoroutinefunction(getattr(cls, name, None)):
                raise _is_async(f"{cls.__qualname__}.{name}")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Call the view's method for the request."""
        view: Any = super()
        return _answered(request, lambda: view.dispatch(request, *args, **kwargs))


def _answered(request: HttpRequest, view: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    try:
        with of_request(request.headers.get(HEADER), request.method or "", request.path):
            response = view()
    except ANSWERED as error:
        answer = answer_to(error)
        if answer is None:
            raise  # a mistake in the program, which Django logs and answers as any other
        return _answer(request, error, answer)
    if isawaitable(response):  # by a plain function around an async one
        if iscoroutine(response):
            response.close()
        raise _is_async(f"the view of {request.path}")
    return response


def _is_async(what: str) -> TypeError:
    return TypeError(
        f"{what} is async, and counting has no async interface; make it a plain one, which Django runs in a thread"
    )


def _answer(request: HttpRequest, error: PynacountError, answer: Answer) -> HttpResponse:
    _LOG.log(answer.level, "%s: %s", type(error).__name__, error.msg)
    response: HttpResponse
    if _wants_json(request):
        problem = "application/problem+json"
        response = JsonResponse(answer.problem(), status=answer.status, content_type=problem)
    else:
        response = _page(request, answer)
    for name, value in answer.headers(setting("RETRY_AFTER")).items():
        response[name] = value
    patch_vary_headers(response, ["Accept"])
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
    html, json = (max(map(_wish(request), kinds)) for kinds in (_PAGE, _JSON))
    return json > html


_PAGE = ("text/html",)
_JSON = ("application/json", "application/problem+json")


def _wish(request: HttpRequest) -> Callable[[str], tuple[float, int, int]]:
    """How much the client wants a kind of answer: by its ``q``, by how exactly it is named, by how early."""
    named = [parse_header_parameters(kind) for kind in request.headers.get("Accept", "*/*").split(",")]

    def wish(kind: str) -> tuple[float, int, int]:
        for exactly, pattern in enumerate((kind, f"{kind.partition('/')[0]}/*", "*/*")):
            for place, (name, parameters) in enumerate(named):
                if name == pattern:
                    return _quality(parameters.get("q", "1")), -exactly, -place
        return 0.0, 0, 0

    return wish


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
