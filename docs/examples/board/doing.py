"""What the views of both applications do."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from board.models import GROUP, SEATS, TABLES, Comment, Entry, Group, Post
from pynacount import CountedModel, transaction
from pynacount.testing import create_tables

MOST_SHOWN = 50
MOST_CHARACTERS = 500


class Unclear(ValueError):
    """What no form of the board sends."""


class WrittenAlready(Exception):
    """The same words of the same user stand there: on purpose, or because "back" brought a form that was sent.

    The browser fills the text in again, and the page has a new key: only the user knows. ``post_id`` is where they
    stand.
    """

    def __init__(self, post_id: str) -> None:
        super().__init__(post_id)
        self.post_id = post_id


@dataclass(frozen=True)
class Line:
    """A post as the feed shows it."""

    post_id: str
    author_id: str
    body: str
    likes: int | None
    liked: bool
    comments: int | None


@dataclass(frozen=True)
class Standing:
    """What the table says of one counter of a post: its tally, its count, and the children themselves."""

    attribute: str
    tally: int | None
    count: int
    children: list[dict[str, Any]]

    @property
    def drift(self) -> int:
        return (self.tally or 0) - self.count


def likes_of(refs: list[Post], user_id: str) -> dict[Post, tuple[int | None, bool]]:
    """Of each post its likes, and whether the user likes it; one request for fifty posts."""
    rows = Post.likes.page(refs, viewer={"user_id": user_id}, consistent_read=True)
    return {row.ref: (row.tally, bool(row.mine)) for row in rows}


def newest() -> list[Entry]:
    """The lines of the feed."""
    return list(Entry.query("FEED", scan_index_forward=False, limit=MOST_SHOWN, consistent_read=True))


def feed(user_id: str) -> list[Line]:
    """The newest posts, with their numbers."""
    entries = newest()
    refs = [Post.ref(post_id=entry.post_id) for entry in entries]
    likes = likes_of(refs, user_id)
    comments = Post.comment_tally.values(refs, consistent_read=True)
    return [
        Line(entry.post_id, entry.author_id, entry.body, *likes[ref], comments.get(ref))
        for entry, ref in zip(entries, refs, strict=True)
    ]


def one(post_id: str, user_id: str) -> tuple[Line, list[Comment]]:
    """A post, and its comments in the order in which they were written. Raises ``Post.DoesNotExist``."""
    post = Post.get(post_id=post_id, consistent_read=True)
    liked = post.likes.contains(user_id=user_id)
    line = Line(post_id, post.author_id or "", post.body or "", post.like_tally, liked, post.comment_tally)
    return line, sorted(post.comments, key=lambda comment: comment.written_at)


def like(post_id: str, user_id: str, do: str) -> dict[str, Any]:
    """Like, or take it back; and how it is then. A like that is there already is no error. Raises :class:`Unclear`."""
    chosen(do, "like", "unlike")
    ref = Post.ref(post_id=post_id)
    change = ref.likes.discard if do == "unlike" else ref.likes.add
    change(user_id=user_id)
    return {"liked": do != "unlike", "likes": Post.like_tally.value(ref, consistent_read=True)}


def write(user_id: str, key: str, body: str, again: bool = False) -> str:
    """A new post and its line in the feed, in one transaction; its id. ``key`` is of the form that was sent.

    Raises :class:`WrittenAlready` where one of the newest posts is the same, unless it is to be written ``again``.
    """
    post_id = name_of(user_id, key, body)
    post = Post(post_id=post_id, author_id=user_id, body=body)
    if Post.like_tally.values([Post.ref(post_id=post_id)], consistent_read=True):
        return post_id  # the form was sent before
    for entry in () if again else newest():
        if (entry.author_id, entry.body) == (user_id, body):
            raise WrittenAlready(entry.post_id)
    with transaction() as tx:
        tx.save(post)
        tx.save(Entry(at=f"{time.time_ns():020}", post_id=post_id, author_id=user_id, body=body))
    return post_id


def comment(post_id: str, user_id: str, key: str, text: str, again: bool = False) -> None:
    """A comment; one for each form, however often that is sent.

    Raises :class:`WrittenAlready` where the post has the same, unless it is to be written ``again``.
    """
    comments = Post.ref(post_id=post_id).comments
    comment_id = name_of(user_id, key, text)
    for found in () if again else comments:
        if found.comment_id != comment_id and (found.author_id, found.text) == (user_id, text):
            raise WrittenAlready(post_id)
    comments.add(comment_id=comment_id, author_id=user_id, text=text, written_at=time.time_ns())


def seats(user_id: str) -> dict[str, Any]:
    """How the group stands."""
    group = Group.get(group_id=GROUP, consistent_read=True)
    members = sorted(member.user_id for member in group.members)
    taken = group.member_tally or 0
    inside = user_id in members
    free = range(SEATS - taken)
    return {"name": group.name, "members": members, "taken": taken, "seats": SEATS, "free": free, "inside": inside}


def seat(user_id: str, do: str) -> None:
    """Take a seat, or give it back.

    Raises :class:`pynacount.errors.CounterBoundError` where there is none to take, and :class:`Unclear`.
    """
    chosen(do, "join", "leave")
    members = Group.ref(group_id=GROUP).members
    change = members.discard if do == "leave" else members.add
    change(user_id=user_id)


def standings(post_id: str) -> tuple[dict[str, Any], list[Standing]]:
    """The META item as it is stored, and each counter beside its children. Raises ``Post.DoesNotExist``."""
    post = Post.get(post_id=post_id, consistent_read=True)
    found = [
        Standing(
            attribute=attribute,
            tally=tally,
            count=children.recount(),
            children=[plain(child) for child in children],
        )
        for tally, attribute, children in (
            (post.like_tally, "likeTally", post.likes),
            (post.comment_tally, "commentTally", post.comments),
        )
    ]
    return plain(post), found


def plain(item: CountedModel) -> dict[str, Any]:
    """An item as the table has it, without DynamoDB's types."""
    return {name: next(iter(value.values())) for name, value in sorted(item.to_dynamodb_dict().items())}


def words(text: str) -> str:
    """What a user wrote, cleaned; empty where there is nothing in it. A form sends a line's end as two characters."""
    return text.replace("\r\n", "\n").strip()[:MOST_CHARACTERS]


def chosen(do: str, *among: str) -> None:
    """Raises :class:`Unclear` where the button is none of these."""
    if do not in among:
        raise Unclear(f"The form must say do={' or do='.join(among)}.")


def name_of(user_id: str, key: str, text: str) -> str:
    """The id of this text that this user sent by a form of this key: the same when the form is sent once more."""
    if not key:
        raise Unclear("The form has no key.")
    return hashlib.sha256(f"{user_id} {key} {text}".encode()).hexdigest()[:16]


def prepare(samples: bool = True) -> None:
    """The table, the group, and something to like; nothing that is there is changed."""
    create_tables(*TABLES)
    if Group.member_tally.values([Group.ref(group_id=GROUP)]):
        return
    Group(group_id=GROUP, name="Sunday walk").save()
    if samples:
        write("ada", "1", "The bakery on Hill Street has rye bread again, on Tuesdays and Fridays.")
        write("bob", "1", "Found: one grey glove, left hand. It waits on the fence by the school.")
        post_id = write("cleo", "1", "The lake is warm enough to swim in. Bring a towel and something to eat.")
        for user_id in ("ada", "bob", "dan"):
            like(post_id, user_id, "like")
        comment(post_id, "ada", "1", "I was in this morning. Cold at first!")
