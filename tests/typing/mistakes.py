"""What a type checker should say about an application's mistakes. Nothing here is run.

An expected error is written as ``type: ignore[code]``; ``--strict`` complains where there is none.
"""

from __future__ import annotations

from application import Like, Post, Writer
from pynacount import CountedIn, CountedSet, CounterField, KeyAttribute, errors, models, testing, transaction, uncounted


def counters(post: Post) -> None:
    post.like_tally.seed(post)  # type: ignore[union-attr]  # the counter is the class's, the number the instance's
    print(post.like_tally + 1)  # type: ignore[operator]  # None while it is not seeded
    post.like_tally = "3"  # type: ignore[assignment]
    post.like_tally = 3  # type: ignore[assignment]
    print(Post.like_tally.value())  # type: ignore[call-arg]
    print(Post.like_tally.value(post) + 1)  # type: ignore[operator]
    print(Post.like_tally.value("POST#a"))  # type: ignore[arg-type]
    print(Post.like_tally.values(["POST#a"]))  # type: ignore[type-var]
    Post.like_tally.seed("POST#a")  # type: ignore[arg-type]
    print(Post.like_tally.values(post))  # type: ignore[arg-type]  # one is read by value()
    Post.like_tally.increment("POST#a")  # type: ignore[arg-type]
    Post.like_tally.increment(post, "1")  # type: ignore[arg-type]
    Post.like_tally.increment(post, 1, "order-17")  # type: ignore[call-arg]  # once=
    Post.like_tally.increment(post, style="push")  # type: ignore[arg-type]
    seeded: str = Post.like_tally.seed(post)  # type: ignore[assignment]
    done = Post.like_tally.repair("POST#a")  # type: ignore[arg-type]
    print(Post.like_tally.repair(post, True))  # type: ignore[call-arg]  # fence=True
    print(done.by == "seeding")  # type: ignore[comparison-overlap]
    done.by = "seed"  # type: ignore[misc]
    del seeded


def keys(post: Post, like: Like, writer: Writer) -> None:
    print(post.user_id)  # type: ignore[attr-defined]  # the like's
    print(writer.name + 1)  # type: ignore[operator]
    print(Like.get(post_id="a", user_id="u").liked)  # type: ignore[attr-defined]
    Post.get("POST#a", consistent="yes", consistent_read="yes")  # type: ignore[arg-type]
    post.pk = 3  # type: ignore[assignment]
    like.user_id = 3  # type: ignore[assignment]
    like.post = post  # type: ignore[assignment]


def sets(post: Post) -> None:
    post.likes.add("u")  # type: ignore[call-arg]
    post.likes.append(user_id="u")  # type: ignore[attr-defined]
    Post.likes.add(user_id="u")  # type: ignore[attr-defined]
    added: str = post.likes.add(user_id="u")  # type: ignore[assignment]
    print(len(post.likes))  # type: ignore[arg-type]  # the tally says it, or recount()
    post.likes = {"u"}  # type: ignore[assignment]
    print("u" in post.likes)  # type: ignore[operator]  # contains(user_id="u")
    print(post.likes[0])  # type: ignore[index]
    for like in post.likes:
        print(like.author)  # type: ignore[attr-defined]
    found: Post = next(iter(post.likes))  # type: ignore[assignment]
    del added, found


def declarations() -> None:
    CounterField(missing="none")  # type: ignore[arg-type]
    CounterField(on_delete="drop")  # type: ignore[arg-type]
    CounterField(lazy_seed_limit="10")  # type: ignore[arg-type]
    CounterField(settle="1s")  # type: ignore[arg-type]
    CounterField(revision=1)  # type: ignore[arg-type]
    CounterField(default=0)  # type: ignore[call-arg]
    CountedIn()  # type: ignore[call-arg]
    CountedIn("like_tally")  # type: ignore[arg-type]
    CountedIn(models.PostMeta)  # type: ignore[arg-type]
    CountedIn(Post.like_tally, when=5)  # type: ignore[arg-type]
    CountedIn(Post.like_tally, amount=["stars"])  # type: ignore[arg-type]
    CountedIn(Post.like_tally, amount=lambda like: "three", reads=("stars",))  # type: ignore[arg-type, return-value]
    CountedIn(Post.like_tally, reads="hidden")  # type: ignore[arg-type]
    CountedIn(Post.like_tally, post_id=Like.pk)  # type: ignore[arg-type]  # the name of the child's attribute
    CountedSet(Like)  # type: ignore[call-overload]
    CountedSet(Like, tally=Post.like_tally)  # type: ignore[call-overload]  # its name: the class is not there yet
    KeyAttribute()  # type: ignore[call-arg]
    KeyAttribute("POST#{post_id}", hash_key=True, null=True)  # type: ignore[call-arg]


def plans(like: Like) -> None:
    print(like.plan_save().wcu)  # type: ignore[attr-defined]
    print(like.plan_save().cost().price)  # type: ignore[attr-defined]
    like.plan_save().cost().wcu = 4  # type: ignore[misc]
    like.plan_save(condition=Like.sk.exists())  # type: ignore[call-arg]


def blocks(post: Post) -> None:
    with transaction() as tx:
        tx.save("post")  # type: ignore[arg-type]
        tx.save(Post)  # type: ignore[arg-type]
        tx.update(post)  # type: ignore[call-arg]
        tx.update(post, {"body": "hi"})  # type: ignore[arg-type]
        tx.check(post)  # type: ignore[call-arg]
        tx.check(post, True)  # type: ignore[arg-type]
        tx.add(post)  # type: ignore[attr-defined]
    with uncounted() as block:
        block.unseeded = []  # type: ignore[assignment]
    with uncounted:  # type: ignore[attr-defined]
        pass


def refusals(post: Post) -> None:
    try:
        post.delete("now")  # type: ignore[arg-type]
    except errors.ParentGone as error:  # type: ignore[attr-defined]
        print(error)
    except errors.ParentNotEmpty as error:
        print(error.key)  # type: ignore[attr-defined]


def tests_of_its_own() -> None:
    testing.engine(testing.MotoEngine)  # type: ignore[arg-type]
    testing.Engine()  # type: ignore[abstract]
    testing.create_tables(Post())  # type: ignore[arg-type]
    with testing.FaultInjector(rates={"conflict": 0.1}) as injector:  # type: ignore[dict-item]
        injector.next("conflict")  # type: ignore[arg-type]
    with testing.record_requests(Post) as sent:  # type: ignore[arg-type]
        print(sent["PutItem"])  # type: ignore[call-overload]


def many_at_once(post: Post) -> None:
    post.likes.add_many({"user_id": "u"})  # type: ignore[dict-item]
    post.likes.add_many(["u"])  # type: ignore[list-item]
    Post.likes.discard_many(user_id="u")  # type: ignore[call-arg]
    print(post.likes.discard_many([]).added)  # type: ignore[attr-defined]
    Post.like_tally.increment_many(["a"])  # type: ignore[type-var]
    post.likes.page([post])  # type: ignore[attr-defined]
    Post.likes.page([post], viewer="u")  # type: ignore[arg-type]
