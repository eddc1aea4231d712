"""The application: ``gunicorn flask_board.app:app``, with a table to lead to."""

from __future__ import annotations

import os
import secrets
from uuid import uuid4

from flask import Flask, redirect, render_template, request, session
from werkzeug.exceptions import BadRequest, HTTPException, NotFound
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
def write() -> Response | tuple[str, int]:
    body = doing.words(request.form["body"])
    if not body:
        return render_template("feed.html", lines=doing.feed(user()), blank=True), 400
    try:
        post_id = doing.write(user(), request.form["key"], body, "again" in request.form)
    except doing.WrittenAlready as found:
        return again("body", body, found)
    return redirect(f"/posts/{post_id}", 303)


def again(name: str, text: str, found: doing.WrittenAlready) -> tuple[str, int]:
    """Asks whether it is to be written once more; by the same key, if so."""
    form = {"path": request.path, "name": name, "text": text, "key": request.form["key"]}
    return render_template("again.html", **form, post_id=found.post_id), 409


@app.get("/posts/<post_id>")
def show(post_id: str, blank: bool = False) -> str:
    line, comments = doing.one(post_id, user())
    return render_template("post.html", line=line, comments=comments, blank=blank)


@app.post("/posts/<post_id>/like")
def like(post_id: str) -> Response | dict[str, object]:
    state = doing.like(post_id, user(), request.form["do"])
    if request.accept_mimetypes.best == "application/json":
        return {**state, "shown": short_count(state["likes"])}
    return redirect(f"/#post-{post_id}" if request.form.get("from") == "feed" else f"/posts/{post_id}", 303)


@app.post("/posts/<post_id>/comments")
def comment(post_id: str) -> Response | tuple[str, int]:
    text = doing.words(request.form["text"])
    if not text:
        return show(post_id, blank=True), 400
    try:
        doing.comment(post_id, user(), request.form["key"], text, "again" in request.form)
    except doing.WrittenAlready as found:
        return again("text", text, found)
    return redirect(f"/posts/{post_id}#comments", 303)


@app.get("/group")
def group() -> str:
    return render_template("group.html", **doing.seats(user()))


@app.post("/group")
def seat() -> Response | tuple[str, int]:
    try:
        doing.seat(user(), request.form["do"])
    except CounterBoundError:
        return render_template("group.html", **doing.seats(user()), refused=True), 409
    return redirect("/group", 303)


@app.get("/tallies/<post_id>")
def tallies(post_id: str) -> str:
    item, standings = doing.standings(post_id)
    return render_template("tallies.html", post_id=post_id, item=item, standings=standings)


@app.errorhandler(Post.DoesNotExist)
def missing(error: Exception) -> tuple[str, int]:
    return page(NotFound("There is no such post."))


@app.errorhandler(doing.Unclear)
def unclear(error: Exception) -> tuple[str, int]:
    return page(BadRequest(str(error)))


@app.errorhandler(HTTPException)
def page(error: HTTPException) -> tuple[str, int]:
    return render_template("error.html", error=error), error.code or 500


@app.after_request
def fresh(response: Response) -> Response:
    """What "back" shows is asked for anew: who likes what may have changed."""
    if response.mimetype == "text/html":
        response.headers["Cache-Control"] = "no-store"
    return response
