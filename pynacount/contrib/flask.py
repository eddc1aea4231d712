"""pynacount in a Flask application: ``Pynacount(app)``.

It answers the errors of counting (409, 404, 503 with ``Retry-After`` and so on), honours the ``Idempotency-Key``
header, and adds the commands ``flask tallies ...`` and the template filter ``short_count``. Needs
``pip install "pynacount[flask]"``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, cast

import click
from flask import Flask, Response, current_app, g, make_response, request
from flask.cli import ScriptInfo
from werkzeug.exceptions import HTTPException, default_exceptions

from pynacount.commands.trouble import Group
from pynacount.contrib.answers import ANSWERED, RETRY_AFTER, Answer, answer_to
from pynacount.contrib.commands import HELP, commands
from pynacount.contrib.counts import short_count
from pynacount.contrib.requests import HEADER, of_request
from pynacount.errors import PynacountError

__all__ = ["Pynacount", "short_count"]

_LOG = logging.getLogger("pynacount.contrib.flask")
_MODELS = "PYNACOUNT_MODELS"
_RETRY_AFTER = "PYNACOUNT_RETRY_AFTER"
_KEPT = "_pynacount_request"


class Pynacount:
    """The extension. ``Pynacount(app)``, or ``init_app(app)`` where the application is made by a factory.

    Configuration: ``PYNACOUNT_MODELS``, the targets of ``flask tallies`` where none is named (``"board.models"`` or a
    list of such); ``PYNACOUNT_RETRY_AFTER``, the seconds after which a client is asked to try again (2).
    """

    def __init__(self, app: Flask | None = None) -> None:
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Set the application up. Its own handlers for these errors, if it has any, go before."""
        app.extensions["pynacount"] = self
        app.config.setdefault(_MODELS, ())
        app.config.setdefault(_RETRY_AFTER, RETRY_AFTER)
        _check(app.config)
        app.add_template_filter(short_count, "short_count")
        handlers = app.error_handler_spec[None][None]
        for kind in ANSWERED:
            if kind not in handlers:
                app.register_error_handler(kind, _answer)
        app.before_request(_enter)
        app.teardown_request(_leave)
        app.cli.add_command(_tallies())


def _check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a setting that cannot be."""
    models, seconds = config[_MODELS], config[_RETRY_AFTER]
    if not isinstance(models, (str, list, tuple)) or not all(isinstance(model, str) for model in models):
        raise ValueError(f'{_MODELS} must be a target or a list of targets, as in ["board.models"], not {models!r}')
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ValueError(f"{_RETRY_AFTER} must be seconds above 0, not {seconds!r}")
    if strange := [name for name in config if name.startswith("PYNACOUNT_") and name not in (_MODELS, _RETRY_AFTER)]:
        raise ValueError(f"there is no setting {', '.join(strange)}; there are {_MODELS} and {_RETRY_AFTER}")


def _enter() -> None:
    stack = ExitStack()
    stack.enter_context(of_request(request.headers.get(HEADER), request.method, request.path))
    setattr(g, _KEPT, stack)


def _leave(_: BaseException | None) -> None:
    stack: ExitStack | None = g.pop(_KEPT, None)
    if stack is not None:
        with suppress(ValueError):  # torn down in another context than it was set up in, which is over
            stack.close()


def _answer(error: PynacountError) -> Response:
    answer = answer_to(error)
    if answer is None:
        raise error  # a mistake in the program, which Flask logs and answers as any other
    _LOG.log(answer.level, "%s: %s", type(error).__name__, error.msg)
    headers = answer.headers(current_app.config[_RETRY_AFTER])
    response: Any
    if _wants_json():
        response = current_app.json.response(answer.problem())
        response.status_code, response.mimetype = answer.status, "application/problem+json"
    else:
        # As if the view had said abort(): the application's own page for this status is shown, if it has one.
        page: Any = current_app.handle_http_exception(_http_error(answer))
        response = make_response(page)
    response.headers.update(headers)
    response.vary.add("Accept")
    return cast("Response", response)


def _http_error(answer: Answer) -> HTTPException:
    return default_exceptions[answer.status](answer.text)


def _wants_json() -> bool:
    if request.is_json:
        return True
    offered = ["text/html", "application/problem+json", "application/json"]
    return request.accept_mimetypes.best_match(offered, "text/html") != "text/html"


def _tallies() -> click.Group:
    group = Group("tallies", help=HELP, context_settings={"max_content_width": 80})
    for command in commands(_targets):
        group.add_command(command)
    return group


def _targets() -> Iterable[str]:
    config = click.get_current_context().ensure_object(ScriptInfo).load_app().config
    models: str | Iterable[str] = config[_MODELS]
    return [models] if isinstance(models, str) else models
