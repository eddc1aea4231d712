"""One parent whose number drifted is mended, while people go on; and a rollout with old code still running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, commit, models
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterContention,
    CounterNotSeeded,
    CounterTypeError,
    DeclarationError,
    ParentMissing,
    UncountedWrite,
)
from pynacount.protocols.repairing import Repair
from pynacount.testing import FaultInjector, record_requests
from social import ALL, Album, Like, Meta, Post, item, items, number, put, right_before, unseed

Sent = list[tuple[str, dict[str, Any]]]


class Poll(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    vote_tally = CounterField(attr_name="voteTally", revision="voteRev", settle=0)
    votes: CountedSet[Any] = CountedSet("Vote", tally="vote_tally")


class Vote(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    poll = CountedIn(Poll.vote_tally)


class EarlyPost(models.PostMeta):
    """The generation of code that runs beside old code."""

    Meta = Meta
    like_tally = CounterField(attr_name="likeTally", missing="defer", settle=0)
    likes: CountedSet[Any] = CountedSet("EarlyLike", tally="like_tally")


class EarlyLike(models.Like):
    Meta = Meta
    post = CountedIn(EarlyPost.like_tally)


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> None:
    tables(*ALL)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, none of which really takes place."""
    waits: list[float] = []
    monkeypatch.setattr(commit.time, "sleep", waits.append)
    return waits


@pytest.fixture
def sent() -> Iterator[Sent]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


def drift(tally: int, children: int = 3) -> Any:
    put("POST#d", "META", likeTally={"N": str(tally)}, body={"S": "b"})
    for index in range(children):
        put("POST#d", f"LIKE#USER#{index}")
    return Post.ref(post_id="d")


class TestRepair:
    @pytest.mark.parametrize("tally", [0, 2, 3, 99, -5])
    def test_whatever_it_says_it_says_the_count_afterwards(self, tally: int) -> None:
        assert Post.like_tally.repair(drift(tally)) == Repair(was=tally, now=3, by="fence")
        stored = item("POST#d", "META") or {}
        assert (stored["likeTally"], "likeTallyWas" in stored, stored["body"]) == ({"N": "3"}, False, {"S": "b"})

    def test_an_unseeded_parent_is_seeded(self) -> None:
        drift(0)
        unseed("POST#d", "likeTally")
        assert Post.like_tally.repair(Post.ref(post_id="d")) == Repair(was=None, now=3, by="seed")

    def test_it_waits_until_what_was_committed_can_be_seen(self, waits: list[float]) -> None:
        Post.like_tally.repair(drift(9))
        assert waits == [1.0]

    def test_readers_see_the_old_number_meanwhile(self) -> None:
        ref = drift(9)
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                Post.like_tally.repair(ref)
        assert number("POST#d", "likeTally") is None
        assert Post.get(post_id="d").like_tally == 9
        assert (Post.like_tally.value(ref), Post.like_tally.values([ref])) == (9, {ref: 9})
        (found,) = Post.query("POST#d", Post.sk == "META")
        found.refresh()
        assert found.like_tally == 9

    def test_a_writer_that_comes_meanwhile_helps(self) -> None:
        ref = drift(9)
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                Post.like_tally.repair(ref)
        assert ref.likes.add(user_id="new")
        assert number("POST#d", "likeTally") == "4"
        assert "likeTallyWas" not in (item("POST#d", "META") or {})
        assert Post.like_tally.repair(ref).was == 4

    def test_a_writer_waits_for_a_repair_of_more_than_it_would_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ref = drift(9)
        monkeypatch.setattr(Post.like_tally, "lazy_seed_limit", 1)
        monkeypatch.setattr(Post.like_tally, "_tally", None)
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                Post.like_tally.repair(ref)
        waited = []

        def somebody_repairs(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 4:
                Post.like_tally.repair(ref)

        monkeypatch.setattr(commit.time, "sleep", somebody_repairs)
        assert ref.likes.add(user_id="new")
        assert number("POST#d", "likeTally") == "4"
        assert waited[:4] == [1.0, 0.1, 0.1, 0.1]

    @pytest.mark.parametrize("step", range(5))
    def test_it_can_be_interrupted_anywhere_and_called_again(self, step: int) -> None:
        ref = drift(9)
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(*[None] * step)
            injector.next_error("AccessDeniedException", "no")
            with pytest.raises(Exception, match="AccessDenied"):
                Post.like_tally.repair(ref)
        assert Post.like_tally.repair(ref).now == 3
        assert number("POST#d", "likeTally") == "3"

    def test_a_parent_that_is_missing_or_being_deleted_is_left_alone(self) -> None:
        with pytest.raises(ParentMissing):
            Post.like_tally.repair(Post.ref(post_id="gone"))
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        before = items()
        with pytest.raises(ParentMissing, match="being deleted"):
            Album.photo_tally.repair(Album.ref(album_id="a"))
        assert items() == before

    def test_a_tally_that_is_no_number_is_mended_too(self) -> None:
        put("POST#d", "META", likeTally={"S": "three"})
        put("POST#d", "LIKE#USER#u")
        with pytest.raises(CounterTypeError):
            Post.ref(post_id="d").likes.add(user_id="v")
        assert Post.like_tally.repair(Post.ref(post_id="d")) == Repair(was=None, now=1, by="fence")
        assert number("POST#d", "likeTally") == "1"

    def test_update_cannot_write_the_marks(self) -> None:
        for name in ("Was", "Pending", "Closed"):
            path = Post.like_tally.__class__(attr_name=f"likeTally{name}")
            path.attr_path = [f"likeTally{name}"]
            with pytest.raises(UncountedWrite):
                Post(post_id="d").update([path.remove()])


class TestRevision:
    def fill(self, tally: int) -> Any:
        put("POLL#p", "META", voteTally={"N": str(tally)})
        put("POLL#p", "VOTE#old")
        return Poll.ref(poll_id="p")

    def test_each_counted_write_raises_it(self) -> None:
        Poll(poll_id="p").save()
        poll = Poll.ref(poll_id="p")
        poll.votes.add(user_id="a")
        poll.votes.discard(user_id="a")
        assert item("POLL#p", "META") == {"voteTally": {"N": "0"}, "voteRev": {"N": "2"}}

    def test_a_repair_by_it_takes_no_tally_away(self, sent: Sent) -> None:
        poll = self.fill(9)
        assert Poll.vote_tally.repair(poll) == Repair(was=9, now=1, by="revision")
        assert [operation for operation, _ in sent] == ["GetItem", "Query", "UpdateItem"]
        assert item("POLL#p", "META") == {"voteTally": {"N": "1"}}

    def test_a_vote_between_the_count_and_the_write_is_counted_again(self) -> None:
        poll = self.fill(9)
        with right_before(b"SET voteTally", lambda: poll.votes.add(user_id="new")):
            assert Poll.vote_tally.repair(poll) == Repair(was=10, now=2, by="revision")

    def test_a_poll_that_never_rests_is_left_as_it_is_and_the_fence_is_named(self) -> None:
        poll = self.fill(9)
        users = iter(range(100))

        def vote(request: Any, **_: Any) -> None:
            if b"SET voteTally" in request.body:
                poll.votes.add(user_id=str(next(users)))

        client = connection_for(Poll.Meta).client
        client.meta.events.register_first("before-send.dynamodb.UpdateItem", vote, "race")
        try:
            with pytest.raises(CounterContention, match=r"repair\(ref, fence=True\)"):
                Poll.vote_tally.repair(poll)
        finally:
            client.meta.events.unregister("before-send.dynamodb.UpdateItem", vote, "race")
        assert number("POLL#p", "voteTally") == "14"
        assert Poll.vote_tally.repair(poll, fence=True) == Repair(was=14, now=6, by="fence")

    @pytest.mark.parametrize("revision", ["", 5])
    def test_it_must_be_a_name(self, revision: Any) -> None:
        with pytest.raises(DeclarationError, match="revision="):
            CounterField(revision=revision)

    def test_it_must_not_be_another_attributes_name(self) -> None:
        with pytest.raises(DeclarationError, match=r"Clash\.body is stored as 'body', which Clash\.n keeps for itself"):

            class Clash(models.PostMeta):
                Meta = Meta
                n = CounterField(revision="body")


@pytest.mark.usefixtures("marks_from_0")
class TestDefer:
    def early(self) -> Any:
        put("POST#d", "META")
        put("POST#d", "LIKE#USER#old")
        return EarlyPost.ref(post_id="d")

    def test_a_child_of_an_unseeded_parent_is_written_uncounted_and_marked(self) -> None:
        ref = self.early()
        assert ref.likes.add(user_id="new") is True
        assert ref.likes.add(user_id="new") is False
        assert ref.likes.discard(user_id="old") is True
        assert item("POST#d", "META") == {"likeTallyPending": {"N": "2"}}
        assert len(items("POST#d")) == 2

    def test_a_child_of_a_seeded_parent_is_counted(self) -> None:
        ref = self.early()
        assert EarlyPost.like_tally.seed(ref) == 1
        assert ref.likes.add(user_id="new")
        assert item("POST#d", "META") == {"likeTally": {"N": "2"}}

    def test_a_new_parent_is_born_unseeded_since_old_code_may_like_it(self) -> None:
        EarlyPost(post_id="new").save()
        put("POST#new", "LIKE#USER#by-old-code")
        assert EarlyPost.ref(post_id="new").likes.add(user_id="u")
        assert number("POST#new", "likeTally") is None
        assert Post.like_tally.seed(Post.ref(post_id="new")) == 2

    def test_the_next_generation_counts_what_was_deferred(self, waits: list[float]) -> None:
        self.early().likes.add(user_id="new")
        assert Post.ref(post_id="d").likes.add(user_id="newer")
        assert number("POST#d", "likeTally") == "3"
        assert waits == [1.0]
        assert self_counts()

    def test_an_unseeded_parent_is_not_deleted_on_a_guess(self) -> None:
        self.early()
        with pytest.raises(CounterNotSeeded, match=r"missing='defer' does not count on the way"):
            EarlyPost(post_id="d").delete()
        assert len(items("POST#d")) == 2

    def test_a_like_of_a_missing_post_still_creates_nothing(self) -> None:
        with pytest.raises(ParentMissing):
            EarlyPost.ref(post_id="gone").likes.add(user_id="u")
        assert items() == {}


def self_counts() -> bool:
    return Post.ref(post_id="d").likes.recount() == len(list(Like.query("POST#d", Like.sk.startswith("LIKE#"))))
