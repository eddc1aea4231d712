"""What a type checker should say about an application's mistakes. Nothing here is run.

An expected error is written as ``type: ignore[code]``; ``--strict`` complains where there is none.
"""

from __future__ import annotations

from application import Like, Post
from pynacount import CountedIn, CounterField, transaction


def mistakes(post: Post) -> None:
    post.like_tally.seed(post)  # type: ignore[union-attr]  # the counter is the class's, the number the instance's
    print(post.like_tally + 1)  # type: ignore[operator]  # None while it is not seeded
    post.like_tally = "3"  # type: ignore[assignment]
    post.likes.add("u")  # type: ignore[call-arg]
    post.likes.append(user_id="u")  # type: ignore[attr-defined]
    Post.likes.add(user_id="u")  # type: ignore[attr-defined]
    print(Like.get(post_id="a", user_id="u").liked)  # type: ignore[attr-defined]
    added: str = post.likes.add(user_id="u")  # type: ignore[assignment]
    CounterField(missing="none")  # type: ignore[arg-type]
    CounterField(on_delete="drop")  # type: ignore[arg-type]
    CounterField(lazy_seed_limit="10")  # type: ignore[arg-type]
    CountedIn("like_tally")  # type: ignore[arg-type]
    CountedIn(Post.like_tally, when=5)  # type: ignore[arg-type]
    with transaction() as tx:
        tx.save("post")  # type: ignore[arg-type]
        tx.check(post, True)  # type: ignore[arg-type]
    del added
