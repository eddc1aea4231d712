"""The second part: what happens to likes in production, one scene each, on one post."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pynacount.demo.calling import call
from pynacount.demo.models import Like, PlainPostItem, Post
from pynacount.demo.parts import Call, Fact, Scene
from pynacount.errors import ParentMissing, PynacountError
from pynacount.testing import Fault

POST = "a91f"
DELETED = "b2e0"
EDITED = "Out of the blue, again"
LIKE_WCU = 4
"""AWS's price of a like: two items in a transaction, 2 WCU for each started KB of each."""
EDIT_WCU = 1
"""The price of one small item, written alone."""


def scenes() -> Iterator[Scene]:
    """Play the scenes, in order; each goes on from where the one before ended."""
    Post(post_id=POST, body="Out of the blue").save()
    Post(post_id=DELETED, body="Soon gone").save()
    yield first_like()
    yield double_click()
    yield lost_response()
    yield unlike()
    yield double_unlike()
    yield edit_during_likes()
    yield like_of_deleted_post()


def tally(post_id: str) -> int | None:
    """The stored tally; None where there is no post."""
    try:
        return Post.like_tally.value(Post.ref(post_id=post_id), consistent_read=True)
    except ParentMissing:
        return None


def like(user_id: str, expected: object, post_id: str = POST, fault: Fault | None = None) -> Call:
    """A like of a post."""
    return call(
        f'Post.ref(post_id="{post_id}").likes.add(user_id="{user_id}")',
        lambda: Post.ref(post_id=post_id).likes.add(user_id=user_id),
        expected=expected,
        plan=Like(post_id=post_id, user_id=user_id).plan_save(),
        wcu=LIKE_WCU,
        fault=fault,
    )


def take_back(user_id: str, expected: object) -> Call:
    """An unlike of the post."""
    return call(
        f'Post.ref(post_id="{POST}").likes.discard(user_id="{user_id}")',
        lambda: Post.ref(post_id=POST).likes.discard(user_id=user_id),
        expected=expected,
        plan=Like(post_id=POST, user_id=user_id).plan_delete(),
        wcu=LIKE_WCU,
    )


def scene(title: str, why: str, act: Callable[[], Call], after: int) -> Scene:
    """A scene of one call on the post."""
    before = tally(POST)
    made = act()
    return Scene(title, why, (made,), before, tally(POST), after)


def get(post_id: str) -> tuple[Call, Post]:
    """Load a post."""
    loaded: list[Post] = []
    made = call(f'post = Post.get(post_id="{post_id}")', lambda: loaded.append(Post.get(post_id=post_id)))
    if not loaded:
        raise PynacountError(f"{made.code} failed: {made.answer}: {made.message}")
    return made, loaded[0]


def quiet(act: Callable[[], object]) -> Callable[[], None]:
    """The call without PynamoDB's answer, which is about the request and not about what was done."""

    def silent() -> None:
        act()

    return silent


def first_like() -> Scene:
    """A like."""
    return scene(
        "A like",
        "The like and the number on its post are written in one transaction, or neither is.",
        lambda: like("7c20", True),
        after=1,
    )


def double_click() -> Scene:
    """The same like again."""
    return scene(
        "A double click",
        "The like is there already, so its Put is refused, and the Update with it.",
        lambda: like("7c20", False),
        after=1,
    )


def lost_response() -> Scene:
    """A like whose answer is lost after it was written."""
    before = tally(POST)
    made = like("91bd", True, fault=Fault.LOST_RESPONSE)
    tokens = [request.token for request in made.requests]
    return Scene(
        "A replay after a lost response",
        "The like is written, but its answer is lost on the way. The library sends it again under the same "
        "ClientRequestToken, and DynamoDB knows it.",
        (made,),
        before,
        tally(POST),
        2,
        (
            Fact("it was sent twice", len(tokens) == 2),
            Fact("both times under one token", len(set(tokens)) == 1 and None not in tokens),
        ),
    )


def unlike() -> Scene:
    """An unlike."""
    return scene("An unlike", "The mirror of a like.", lambda: take_back("7c20", True), after=1)


def double_unlike() -> Scene:
    """The same unlike again."""
    return scene(
        "A double unlike",
        "There is nothing left to delete, so the number does not move either.",
        lambda: take_back("7c20", False),
        after=1,
    )


def edit_during_likes() -> Scene:
    """A post is loaded, likes arrive, and the post is saved."""
    before = tally(POST)
    load, post = get(POST)
    likes = (like("c4d5", True), like("e6f7", True))
    post.body = EDITED
    save = call(f'post.body = "{EDITED}"; post.save()', quiet(post.save), plan=post.plan_save(), wcu=EDIT_WCU)
    body = Post.get(post_id=POST, consistent_read=True).body
    return Scene(
        "An edit of the post while likes arrive",
        "The post is loaded, two likes come, and only then is it saved: what is sent is its body, not the tally that "
        "it was loaded with.",
        (load, *likes, save),
        before,
        tally(POST),
        3,
        (
            Fact("the body is the new one", body == EDITED),
            Fact("the save sent no tally", not any("likeTally" in line for r in save.requests for line in r.lines)),
        ),
    )


def like_of_deleted_post() -> Scene:
    """A post is deleted, and then liked."""
    before = tally(DELETED)
    load, post = get(DELETED)
    delete = call("post.delete()", quiet(post.delete), plan=post.plan_delete(), wcu=EDIT_WCU)
    late = like("7c20", ParentMissing.__name__, post_id=DELETED)
    left = PlainPostItem.count(f"POST#{DELETED}", consistent_read=True)
    return Scene(
        "A like of a deleted post",
        "An ADD alone would make a new item with nothing in it but a number.",
        (load, delete, late),
        before,
        tally(DELETED),
        None,
        (Fact("nothing was created: the partition is empty", left == 0),),
    )
