"""The application: ``gunicorn flask_board.app:app``, with a table to lead to."""

from __future__ import annotations

import os
import secrets
from uuid import uuid4

from flask import Flask, redirect, render_template, request, session
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.wrappers import Response

from board import doing
from board.models import Post
from pynacount.contrib.flask import Pynacount, short_count
from pynacount.errors import CounterBoundError

app = Flask(__name__, static_folder="../board/static")
app.config["SECRET_KEY"] = os.environ.get("BOARD_SECRET", "for trying it only")
app.config["SESSION_COOKIE_SAMESITE"] = "Lax"  # no other site's form is sent in a visitor's name
app.config["PYNACOUNT_MODELS"] = "board.models"
Pynacount(app)


@app.context_processor
def names() -> dict[str, str]:
    """What every page needs: who looks at it, and a key for each form that makes something."""
    return {"user_id": user(), "key": uuid4().hex}


def user() -> str:
    """Who it is. There is no login: a visitor is given a name."""
    if "user_id" not in session:
        session["user_id"] = f"guest-{secrets.token_hex(3)}"
        session.permanent = True
    return str(session["user_id"])


@app.get("/")
def feed() -> str:
    return render_template("feed.html", lines=doing.feed(user()))


@app.post("/posts")
def write() -> Response:
    if body := doing.words(request.form["body"]):
        post_id = doing.write(user(), request.form["key"], body)
        return redirect(f"/posts/{post_id}", 303)
    return redirect("/", 303)


@app.get("/posts/<post_id>")
def show(post_id: str) -> str:
    line, comments = doing.one(post_id, user())
    return render_template("post.html", line=line, comments=comments)


@app.post("/posts/<post_id>/like")
def like(post_id: str) -> Response | dict[str, object]:
    state = doing.like(post_id, user(), request.form["do"])
    if request.accept_mimetypes.best == "application/json":
        return {**state, "shown": short_count(state["likes"])}
    return redirect(f"/#post-{post_id}" if request.form.get("from") == "feed" else f"/posts/{post_id}", 303)


@app.post("/posts/<post_id>/comments")
def comment(post_id: str) -> Response:
    if text := doing.words(request.form["text"]):
        doing.comment(post_id, user(), request.form["key"], text)
    return redirect(f"/posts/{post_id}#comments", 303)


@app.get("/group")
def group() -> str:
    return render_template("group.html", **doing.seats(user()), full=False)


@app.post("/group")
def seat() -> Response | tuple[str, int]:
    try:
        (doing.leave if request.form["do"] == "leave" else doing.join)(user())
    except CounterBoundError:
        return render_template("group.html", **doing.seats(user()), full=True), 409
    return redirect("/group", 303)


@app.get("/tallies/<post_id>")
def tallies(post_id: str) -> str:
    item, standings = doing.standings(post_id)
    return render_template("tallies.html", post_id=post_id, item=item, standings=standings)


@app.errorhandler(Post.DoesNotExist)
def missing(error: Exception) -> tuple[str, int]:
    return page(NotFound("There is no such post."))


@app.errorhandler(HTTPException)
def page(error: HTTPException) -> tuple[str, int]:
    return render_template("error.html", error=error), error.code or 500


@app.after_request
def fresh(response: Response) -> Response:
    """What "back" shows is asked for anew: who likes what may have changed."""
    if response.mimetype == "text/html":
        response.headers["Cache-Control"] = "no-store"
    return response
