"""Repairs beside writers, and two generations of code at once: rules 6, 7 and 10 of docs/design.md."""

from __future__ import annotations

from pynacount.writing.discarding import Discard
from pynacount.writing.saving import Save

from .protocols import (
    Ballot,
    EarlyLike,
    EarlyPost,
    Mark,
    Poll,
    Post,
    Thread,
    Vote,
    deletes,
    discards,
    passes_over,
    repairs,
    repairs_by_revision,
    saves,
    seeds,
    several,
    sweeps,
    uncounted,
)
from .scenarios import (
    BALLOTS,
    POLLS,
    POSTS,
    SEEDED,
    THREADS,
    UNSEEDED,
    Scenario,
    child,
    like,
    parent,
    post,
    reply,
    table,
    thread,
)

DRIFTED = table(parent(POSTS, likeTally=4), child(POSTS, "a"))
DRIFTED_POLL = table(parent(POLLS, voteTally=4, voteTallyRev=7), child(POLLS, "a"))

UNMARKED = table(parent(BALLOTS), child(BALLOTS, "a"))
CLOSED_THREAD = table(parent(THREADS, replyTallyClosed=True), child(THREADS, "a"))


def poll() -> Poll:
    return Poll(poll_id="1")


def vote(user: str) -> Vote:
    return Vote(poll_id="1", user_id=user)


def ballot() -> Ballot:
    return Ballot(ballot_id="1")


def mark(user: str) -> Mark:
    return Mark(ballot_id="1", user_id=user)


def early(user: str) -> EarlyLike:
    return EarlyLike(post_id="1", user_id=user)


SCENARIOS = (
    Scenario(
        "a repair beside a like and an unlike",
        POSTS,
        DRIFTED,
        {"repair": repairs(Post.like_tally, post()()), "add": saves(like("b")), "un": discards(like("a"))},
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a repair with lost answers, beside a like",
        POSTS,
        DRIFTED,
        {"repair": repairs(Post.like_tally, post()()), "add": saves(like("b"))},
        adds={"b": ("add",)},
        lost_responses=2,
        repairs=("repair",),
    ),
    Scenario(
        "two repairs beside a like",
        POSTS,
        DRIFTED,
        {
            "one": repairs(Post.like_tally, post()()),
            "two": repairs(Post.like_tally, post()()),
            "add": saves(like("b")),
        },
        adds={"b": ("add",)},
        lost_responses=0,
        repairs=("one", "two"),
    ),
    Scenario(
        "a repair by revision beside a vote and a vote taken back",
        POLLS,
        DRIFTED_POLL,
        {
            "repair": repairs_by_revision(Poll.vote_tally, poll()),
            "add": saves(lambda: vote("b")),
            "un": discards(lambda: vote("a")),
        },
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a repair by revision beside a vote that takes another's place",
        POLLS,
        DRIFTED_POLL,
        {
            "repair": repairs_by_revision(Poll.vote_tally, poll()),
            "change": several(lambda: Discard(vote("a")), lambda: Save(vote("b"))),
        },
        adds={"b": ("change",)},
        removes={"a": ("change",)},
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "two repairs by revision of an absent tally that counts as 0, beside a mark and a mark taken back",
        BALLOTS,
        UNMARKED,
        {
            "one": repairs_by_revision(Ballot.mark_tally, ballot()),
            "two": repairs_by_revision(Ballot.mark_tally, ballot()),
            "add": saves(lambda: mark("b")),
            "un": discards(lambda: mark("a")),
        },
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        crashes=0,
        lost_responses=0,
        repairs=("one", "two"),
    ),
    Scenario(
        "a repair by revision of an absent tally that counts as 0, while the parent is deleted with its children",
        BALLOTS,
        UNMARKED,
        {
            "repair": repairs_by_revision(Ballot.mark_tally, ballot()),
            "delete": deletes(ballot),
            "add": saves(lambda: mark("b")),
        },
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a repair by revision and one by a fence, beside a vote",
        POLLS,
        DRIFTED_POLL,
        {
            "revision": repairs_by_revision(Poll.vote_tally, poll()),
            "fence": repairs(Poll.vote_tally, poll()),
            "add": saves(lambda: vote("b")),
        },
        adds={"b": ("add",)},
        crashes=0,
        lost_responses=0,
        repairs=("revision", "fence"),
    ),
    Scenario(
        "a thread repaired while it is deleted with its replies, and one is added",
        THREADS,
        table(parent(THREADS, replyTally=4), child(THREADS, "a")),
        {
            "repair": repairs(Thread.reply_tally, thread()),
            "delete": deletes(thread),
            "add": saves(reply("b")),
        },
        crashes=0,
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a closed thread swept by two at once, created anew and replied to, which must not be deleted",
        THREADS,
        CLOSED_THREAD,
        {
            "one": sweeps(thread),
            "two": sweeps(thread),
            "anew": saves(lambda: Thread(thread_id="1", body="b")),
            "add": saves(reply("b")),
        },
        adds={"b": ("add",)},
        lost_responses=0,
    ),
    Scenario(
        "a closed thread swept with lost answers, while a reply is added and one removed",
        THREADS,
        CLOSED_THREAD,
        {"sweep": sweeps(thread), "add": saves(reply("b")), "un": discards(reply("a"))},
        adds={"b": ("add",)},
    ),
    Scenario(
        "a repair by revision beside a backfill",
        POLLS,
        DRIFTED_POLL,
        {
            "repair": repairs_by_revision(Poll.vote_tally, poll()),
            "backfill": uncounted(saves(lambda: vote("b"))),
        },
        adds={"b": ("backfill",)},
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a vote that takes another's place beside a seeder",
        POLLS,
        table(parent(POLLS), child(POLLS, "a")),
        {
            "change": several(lambda: Discard(vote("a")), lambda: Save(vote("b"))),
            "seeder": seeds(Poll.vote_tally, poll()),
        },
        adds={"b": ("change",)},
        removes={"a": ("change",)},
        lost_responses=0,
    ),
    Scenario(
        "a deferred like of a post that is deleted",
        POSTS,
        table(parent(POSTS)),
        {"early": saves(lambda: early("a")), "delete": deletes(post())},
        adds={"a": ("early",)},
        lost_responses=0,
    ),
    Scenario(
        "a pass over the table beside a like and an unlike, on a post that was never seeded",
        POSTS,
        UNSEEDED,
        {"pass": passes_over(Post.like_tally, "POST#1"), "add": saves(like("b")), "un": discards(like("a"))},
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    Scenario(
        "a pass over the table with a lost answer, beside a like",
        POSTS,
        UNSEEDED,
        {"pass": passes_over(Post.like_tally, "POST#1"), "add": saves(like("b"))},
        adds={"b": ("add",)},
    ),
    Scenario(
        "a pass over the table beside a repair and a like",
        POSTS,
        DRIFTED,
        {
            "pass": passes_over(Post.like_tally, "POST#1"),
            "repair": repairs(Post.like_tally, post()()),
            "add": saves(like("b")),
        },
        adds={"b": ("add",)},
        crashes=0,
        lost_responses=0,
        repairs=("repair",),
    ),
    Scenario(
        "a pass over the table beside a backfill",
        POSTS,
        SEEDED,
        {"pass": passes_over(Post.like_tally, "POST#1"), "backfill": uncounted(saves(like("b")))},
        adds={"b": ("backfill",)},
        lost_responses=0,
    ),
    Scenario(
        "two likes that are deferred, beside a seeder",
        POSTS,
        UNSEEDED,
        {
            "add": saves(lambda: early("b")),
            "un": discards(lambda: early("a")),
            "seeder": seeds(EarlyPost.like_tally, EarlyPost(post_id="1")),
        },
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    Scenario(
        "a deferred like with a lost answer, beside a seeder",
        POSTS,
        UNSEEDED,
        {"add": saves(lambda: early("b")), "seeder": seeds(EarlyPost.like_tally, EarlyPost(post_id="1"))},
        adds={"b": ("add",)},
    ),
    Scenario(
        "writers of both generations beside a seeder",
        POSTS,
        UNSEEDED,
        {
            "early": saves(lambda: early("b")),
            "late": saves(like("b")),
            "seeder": seeds(Post.like_tally, post()()),
        },
        adds={"b": ("early", "late")},
        lost_responses=0,
    ),
    Scenario(
        "a post created and liked by both generations",
        POSTS,
        table(),
        {
            "post": saves(lambda: EarlyPost(post_id="1", body="b")),
            "early": saves(lambda: early("a")),
            "late": saves(like("b")),
        },
        adds={"a": ("early",), "b": ("late",)},
        lost_responses=0,
    ),
)
