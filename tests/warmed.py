"""The Flask board as an application that uses its table before its server forks (gunicorn --preload)."""

from __future__ import annotations

from board.models import Post
from flask_board.app import app

__all__ = ["app"]

ref = Post.ref(post_id="p0")
Post.like_tally.value(ref, consistent_read=True)
Post.get(post_id="p0")
