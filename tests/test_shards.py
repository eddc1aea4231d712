"""Tallies in shards: counted, read, seeded, repaired, deleted, and brought into another number of shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from pynamodb.attributes import UnicodeAttribute

import behind
from party import ALL, Like, Page, Post, Reply, Thread
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, transaction, uncounted
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterNotSeeded,
    DeclarationError,
    ParentMissing,
    ParentNotEmpty,
    TokenReused,
    UncountedWrite,
)
from pynacount.keys import ItemKey
from pynacount.protocols.resharding import reshard as reshard_parent
from pynacount.protocols.spreading import unspread
from pynacount.shards import shard_of, shares
from pynacount.steps import Send
from pynacount.tallies import audit, migrate, repair, reshard
from pynacount.testing import Fault, FaultInjector, record_requests

items = partial(behind.partition, "Party")
put = partial(behind.put, "Party")


@pytest.fixture(autouse=True)
def party(tables: Callable[..., None]) -> None:
    tables(*ALL)


def shards(post: str = "1") -> list[int]:
    found = items(f"POST#{post}", "META#likeTally#").values()
    return [int(item["likeTally"]["N"]) for item in found]


def live_post(likes: int, **meta: dict[str, Any]) -> None:
    """A post as it was before it was counted."""
    put("POST#1", "META", **meta)
    for number in range(likes):
        put("POST#1", f"LIKE#old{number}")


REF = Post.ref(post_id="1")


class TestCounting:
    def test_a_new_parent_is_born_with_its_shards_in_one_transaction(self) -> None:
        with record_requests(connection_for(Post.Meta).client) as sent:
            Post(post_id="1", body="b").save()
        assert [operation for operation, _ in sent] == ["TransactWriteItems"]
        assert shards() == [0, 0, 0, 0]
        assert items("POST#1")["META"]["likeTallyShards"] == {"N": "4"}
        assert Post(post_id="2").plan_save().cost().wcu == 2 * (1 + 4)

    def test_a_like_writes_the_child_and_one_shard_and_costs_what_a_like_costs(self) -> None:
        plan = Like(post_id="1", user_id="u").plan_save()
        put_, update = plan.request()["TransactItems"]
        assert put_["Put"]["ConditionExpression"] == "attribute_not_exists(SK)"
        assert update["Update"]["UpdateExpression"] == "ADD likeTally :one"
        assert update["Update"]["ConditionExpression"] == "attribute_exists(likeTally)"
        assert update["Update"]["Key"]["SK"]["S"].startswith("META#likeTally#")
        assert plan.cost().wcu == 4

    def test_likes_are_counted_once_and_an_unlike_meets_its_like(self) -> None:
        Post(post_id="1").save()
        for user in range(20):
            assert REF.likes.add(user_id=f"u{user}")
            assert not REF.likes.add(user_id=f"u{user}")
        assert Post.like_tally.value(REF) == 20 == sum(shards())
        assert min(shards()) > 0
        for user in range(20):
            assert REF.likes.discard(user_id=f"u{user}")
            assert min(shards()) >= 0
            assert not REF.likes.discard(user_id=f"u{user}")
        assert shards() == [0, 0, 0, 0]

    def test_a_child_lands_on_the_same_shard_on_every_machine(self) -> None:
        key = ItemKey("Party", ("PK", "SK"), (("S", "POST#a91f"), ("S", "LIKE#7c20")))
        assert [shard_of(key, number) for number in (2, 4, 10, 99)] == [0, 0, 4, 69]

    def test_a_like_of_a_post_that_is_not_there_leaves_nothing(self) -> None:
        with pytest.raises(ParentMissing, match="POST#1"):
            REF.likes.add(user_id="u")
        assert items("POST#1") == {}

    def test_a_like_of_a_post_that_was_never_counted_counts_it_first(self) -> None:
        live_post(7)
        assert REF.likes.add(user_id="u")
        assert Post.like_tally.value(REF) == 8
        assert sorted(shards()) == [2, 2, 2, 2]

    def test_many_at_once_touch_one_shard_in_each_transaction(self) -> None:
        Post(post_id="1").save()
        with record_requests(connection_for(Post.Meta).client) as sent:
            result = REF.likes.add_many([{"user_id": f"u{number}"} for number in range(150)])
        assert result.added == 150
        assert [len(request["TransactItems"]) for operation, request in sent if operation == "TransactWriteItems"] == [
            100,
            52,
        ]
        assert REF.likes.discard_many([{"user_id": f"u{number}"} for number in range(0, 150, 2)]).discarded == 75
        assert Post.like_tally.value(REF) == 75 == REF.likes.recount()

    def test_a_parent_and_its_children_can_be_born_in_one_transaction(self) -> None:
        with transaction() as tx:
            tx.save(Post(post_id="1"))
            tx.save(Like(post_id="1", user_id="a"))
            tx.save(Like(post_id="1", user_id="b"))
        assert Post.like_tally.value(REF) == 2

    def test_a_lost_answer_counts_once(self, request: pytest.FixtureRequest) -> None:
        if request.config.getoption("--engine") == "moto":
            pytest.skip("moto ignores tokens")
        Post(post_id="1").save()
        with FaultInjector(connection_for(Post.Meta).client) as faults:
            faults.next(Fault.LOST_RESPONSE, operation="TransactWriteItems")
            assert REF.likes.add(user_id="u")
        assert Post.like_tally.value(REF) == 1

    def test_a_shard_that_somebody_deleted_is_told_and_repaired(self) -> None:
        Post(post_id="1").save()
        for user in range(9):
            REF.likes.add(user_id=f"u{user}")
        for number in range(4):
            key = {"PK": {"S": "POST#1"}, "SK": {"S": f"META#likeTally#{number}"}}
            connection_for(Post.Meta).dispatch("DeleteItem", {"TableName": "Party", "Key": key})
        with pytest.raises(CounterNotSeeded, match=r"Post\.like_tally .* shard . is not there: .* repair it"):
            REF.likes.add(user_id="new")
        assert Post.like_tally.repair(REF).now == 9
        assert REF.likes.add(user_id="new")
        assert Post.like_tally.value(REF) == 10


class TestReading:
    def test_the_value_is_one_query(self) -> None:
        Post(post_id="1").save()
        with record_requests(connection_for(Post.Meta).client) as sent:
            assert Post.like_tally.value(REF) == 0
        assert [operation for operation, _ in sent] == ["Query"]

    def test_the_values_of_many_are_as_few_requests_as_can_be(self) -> None:
        refs = [Post.ref(post_id=str(number)) for number in range(40)]
        for ref in refs[:39]:
            Post(post_id=ref.post_id).save()
            ref.likes.add(user_id="u")
        with record_requests(connection_for(Post.Meta).client) as sent:
            values = Post.like_tally.values(refs)
        assert [operation for operation, _ in sent] == ["BatchGetItem", "BatchGetItem"]  # 40 x (1 + 4) keys
        assert values == dict.fromkeys(refs[:39], 1)

    def test_a_feed_page_has_the_sums(self) -> None:
        for number in range(3):
            Post(post_id=str(number)).save()
        REF.likes.add(user_id="me")
        refs = [Post.ref(post_id=str(number)) for number in range(4)]
        with record_requests(connection_for(Post.Meta).client) as sent:
            rows = Post.likes.page(refs, viewer={"user_id": "me"})
        assert [operation for operation, _ in sent] == ["BatchGetItem"]
        assert [(row.exists, row.tally, row.mine) for row in rows] == [
            (True, 0, False),
            (True, 1, True),
            (True, 0, False),
            (False, None, False),
        ]

    def test_a_parent_that_is_not_there_or_not_seeded_is_told(self) -> None:
        with pytest.raises(ParentMissing):
            Post.like_tally.value(REF)
        live_post(3)
        assert Post.like_tally.value(REF) is None
        assert Post.like_tally.values([REF]) == {REF: None}

    def test_parents_with_other_numbers_of_shards_are_read_all_the_same(self) -> None:
        for number, to in enumerate((1, 2, 9)):
            Post(post_id=str(number)).save()
            Post.ref(post_id=str(number)).likes.add(user_id="u")
            Post.like_tally.reshard(Post.ref(post_id=str(number)), to)
        refs = [Post.ref(post_id=str(number)) for number in range(3)]
        assert [Post.like_tally.value(ref) for ref in refs] == [1, 1, 1]
        assert list(Post.like_tally.values(refs).values()) == [1, 1, 1]
        assert [row.tally for row in Post.likes.page(refs)] == [1, 1, 1]


class TestWholeTables:
    def test_a_migration_seeds_the_shards_and_an_audit_finds_them_right(self) -> None:
        live_post(10)
        for number in range(2, 6):
            put(f"POST#{number}", "META")
        outcomes = list(migrate([Post.like_tally], workers=1))
        assert {outcome.status for outcome in outcomes} == {"seeded"} and len(outcomes) == 5
        assert shards() == [3, 3, 2, 2]
        assert [(row.state, row.tally) for row in audit([Post.like_tally], workers=1) if row.count] == [("ok", 10)]

    def test_drift_is_found_and_mended_and_the_number_of_shards_stays(self) -> None:
        Post(post_id="1").save()
        Post(post_id="2").save()
        for user in range(5):
            REF.likes.add(user_id=f"u{user}")
        Post.like_tally.reshard(REF, 2)
        put("POST#1", "META#likeTally#0", likeTally={"N": "40"})
        rows = [row for row in audit([Post.like_tally], workers=1) if row.wrong]
        assert [(row.state, row.count) for row in rows] == [("drifted", 5)]
        (done,) = repair([Post.like_tally], rows, workers=1)
        assert (done.status, done.now) == ("repaired", 5)
        assert len(shards()) == 2
        assert [row.state for row in audit([Post.like_tally], workers=1)] == ["ok", "ok"]

    def test_during_a_repair_readers_are_shown_the_number_from_before(self) -> None:
        Post(post_id="1").save()
        REF.likes.add(user_id="u")
        key = Post._counting.key_of(REF)
        assert Post._counting.driver().run(unspread(Post.like_tally.tally, key, aside=True))
        assert items("POST#1", "META#") == {}
        assert Post.like_tally.value(REF) == 1
        assert [row.state for row in audit([Post.like_tally], refs=[REF])] == ["repairing"]
        assert REF.likes.add(user_id="v")  # which counts it on its way
        assert Post.like_tally.value(REF) == 2

    def test_what_a_backfill_writes_takes_the_tally_away_with_its_shards(self) -> None:
        Post(post_id="1").save()
        REF.likes.add(user_id="u")
        with uncounted():
            Like(post_id="1", user_id="v").save()
        assert items("POST#1", "META#") == {}
        assert Post.like_tally.value(REF) is None
        assert Post.like_tally.seed(REF) == 2
        assert len(shards()) == 4

    def test_shards_are_never_counted_for_children(self) -> None:
        Thread(thread_id="t").save()
        for number in range(3):
            Reply(thread_id="t", reply_id=str(number)).save()  # each has shards whose keys begin as a reply's do
        ref = Thread.ref(thread_id="t")
        assert ref.replies.recount() == 3 == Thread.reply_tally.value(ref)
        assert [row.state for row in audit([Thread.reply_tally], workers=1)] == ["ok"]
        assert len(list(ref.replies)) == 3


class TestDeleting:
    def test_a_parent_with_children_is_not_deleted(self) -> None:
        Post(post_id="1").save()
        REF.likes.add(user_id="u")
        with pytest.raises(ParentNotEmpty, match=r"like_tally is 1"):
            Post.get(post_id="1").delete()
        REF.likes.discard(user_id="u")
        Post(post_id="1").delete()
        assert items("POST#1") == {}

    def test_a_parent_whose_parts_come_to_nothing_is_deleted_with_its_shards(self) -> None:
        live_post(0, likeTallyShards={"N": "2"})
        put("POST#1", "META#likeTally#0", likeTally={"N": "3"})
        put("POST#1", "META#likeTally#1", likeTally={"N": "-3"})
        Post(post_id="1").delete()
        assert items("POST#1") == {}

    def test_a_cascade_takes_the_children_and_all_shards(self) -> None:
        Thread(thread_id="t").save()
        for number in range(3):
            Reply(thread_id="t", reply_id=str(number)).save()
        Thread.get(thread_id="t").delete()
        assert items("THREAD#t") == {}


class TestResharding:
    def test_from_4_to_16_to_8_to_none_and_back_the_number_stays(self) -> None:
        Post(post_id="1").save()
        for user in range(30):
            REF.likes.add(user_id=f"u{user}")
        for to in (16, 8, 3, 1, 2, 99, 4):
            done = Post.like_tally.reshard(REF, to)
            assert done.now == to
            assert Post.like_tally.value(REF) == 30 == Post.like_tally.value(REF, consistent_read=True)
            assert len(shards()) == (to if to > 1 else 0)
            assert REF.likes.add(user_id=f"at{to}") and REF.likes.discard(user_id=f"at{to}")
        assert Post.like_tally.reshard(REF, 4).was == 4
        assert [row.state for row in audit([Post.like_tally], refs=[REF])] == ["ok"]

    def test_one_that_was_killed_half_way_is_finished_by_the_next(self) -> None:
        Post(post_id="1").save()
        for user in range(12):
            REF.likes.add(user_id=f"u{user}")
        key, connection = Post._counting.key_of(REF), connection_for(Post.Meta)
        for kill in range(1, 12):
            steps = reshard_parent(Post.like_tally.tally, key, 2, plain=False)
            sent, answer = 0, None
            try:
                while sent < kill:
                    step = next(steps) if answer is None else steps.send(answer)
                    answer = {}
                    if isinstance(step, Send):
                        answer, sent = connection.dispatch(step.operation, dict(step.request)), sent + 1
            except StopIteration:
                pass
            assert Post.like_tally.value(REF) == 12
            assert REF.likes.add(user_id="x") and REF.likes.discard(user_id="x")
            assert Post.like_tally.reshard(REF, 4).now == 4
            assert Post.like_tally.value(REF) == 12 == sum(shards())

    def test_an_unsharded_tally_is_spread_while_code_of_both_kinds_runs(self) -> None:
        class Old(CountedModel):
            __module__ = "old_code"
            Meta = Post.Meta
            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            like_tally = CounterField(attr_name="likeTally", settle=0)

        class OldLike(CountedModel):
            __module__ = "old_code"
            Meta = Post.Meta
            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
            post = CountedIn(Old.like_tally)

        Old(post_id="1").save()
        OldLike(post_id="1", user_id="a").save()
        assert REF.likes.add(user_id="b")  # code that declares shards finds the number on the parent
        assert Post.like_tally.value(REF) == 2
        assert Post.like_tally.reshard(REF, 4).was == 1
        OldLike(post_id="1", user_id="c").save()  # code that declares none finds the shards
        assert Old.like_tally.value(Old.ref(post_id="1")) == 3 == Post.like_tally.value(REF)
        assert Old.like_tally.repair(Old.ref(post_id="1")).now == 3
        assert len(shards()) == 4

    def test_a_table_is_resharded_by_the_command_and_a_second_run_finds_nothing(self) -> None:
        for number in range(3):
            Post(post_id=str(number)).save()
        put("POST#live", "META")
        target = "party:Post.like_tally"
        planned = CliRunner().invoke(group, ["reshard", target, "--to", "2", "--workers", "1", "--dry-run"])
        assert planned.exit_code == 0 and "3 tallies would be brought into 2 shards" in planned.output
        done = CliRunner().invoke(group, ["reshard", target, "--to", "2", "--workers", "1", "--json"])
        *rows, summary = map(json.loads, done.output.splitlines())
        assert [(row["was"], row["now"]) for row in rows] == [(4, 2)] * 3
        assert (summary["resharded"], done.exit_code) == (3, 0)
        again = CliRunner().invoke(group, ["reshard", target, "--to", "2", "--workers", "1"])
        assert again.output == "0 tallies brought into 2 shards\n"
        one = CliRunner().invoke(group, ["reshard", "party:Post", "--to", "1", "--key", "post_id=1"])
        assert one.output.endswith("1 tally brought into 1 shard, on the parent\n")
        assert items("POST#1")["META"]["likeTally"] == {"N": "0"}

    @pytest.mark.parametrize("to", [0, 100, True, 2.5, "4"])
    def test_no_other_number_of_shards_is_taken(self, to: Any) -> None:
        with pytest.raises(DeclarationError, match="from 1 to 99"):
            Post.like_tally.reshard(REF, to)
        with pytest.raises(DeclarationError, match="from 1 to 99"):
            reshard([Post.like_tally], to)

    def test_a_parent_that_is_not_there_is_told(self) -> None:
        with pytest.raises(ParentMissing):
            Post.like_tally.reshard(REF, 2)


class TestPlainCounters:
    PAGE = Page.ref(page_id="p")

    def test_increments_spread_and_sum_up(self) -> None:
        assert [Page.views.increment(self.PAGE) for _ in range(20)] == list(range(1, 21))
        assert Page.views.decrement(self.PAGE, Decimal("0.5")) == Decimal("19.5")
        assert len(items("PAGE#p", "STATS#views#")) == 5
        assert Page.views.value(self.PAGE) == Decimal("19.5")
        assert Page.views.values([self.PAGE]) == {self.PAGE: Decimal("19.5")}

    def test_once_made_a_shard_is_written_by_one_update_without_a_read_before(self) -> None:
        Page.views.increment(self.PAGE)
        with record_requests(connection_for(Page.Meta).client) as sent:
            Page.views.increment(self.PAGE)
        assert [operation for operation, _ in sent] == ["UpdateItem", "Query"]

    def test_a_counter_that_was_never_moved_has_no_value(self) -> None:
        assert Page.views.value(self.PAGE) is None
        assert Page.views.values([self.PAGE]) == {}

    def test_a_number_from_before_the_shards_counts_beside_them_and_is_moved_in_by_a_reshard(self) -> None:
        put("PAGE#p", "STATS", views={"N": "1000"})
        assert Page.views.value(self.PAGE) == 1000
        assert Page.views.increment(self.PAGE) == 1001
        assert Page.views.values([self.PAGE]) == {self.PAGE: 1001}
        for to in (5, 7, 2, 1, 5):
            Page.views.reshard(self.PAGE, to)
            assert Page.views.value(self.PAGE) == 1001
        assert "views" not in items("PAGE#p")["STATS"]

    def test_a_token_is_counted_once(self) -> None:
        assert Page.views.increment(self.PAGE, 2, once="a") == 2
        assert Page.views.increment(self.PAGE, 2, once="a") == 2
        with pytest.raises(TokenReused):
            Page.views.increment(self.PAGE, 3, once="a")
        assert Page.views.value(self.PAGE) == 2

    def test_what_shards_cannot_do_is_refused(self) -> None:
        with pytest.raises(UncountedWrite, match="no write can compare their sum"):
            Page.views.compare_and_set(self.PAGE, 1, 2)
        with pytest.raises(ValueError, match="by a call of its own"):
            Page.views.increment(self.PAGE, set={"title": "t"})
        with pytest.raises(ValueError, match="by a call of its own"):
            Page.views.increment(self.PAGE, also={"clicks": 1})
        with pytest.raises(ValueError, match="views is in shards"):
            Page.clicks.increment(self.PAGE, also={"views": 1})
        assert items("PAGE#p") == {}

    def test_the_item_is_deleted_with_its_shards(self) -> None:
        Page(page_id="p").save()
        Page.views.increment(self.PAGE)
        Page.get(page_id="p").delete()
        assert items("PAGE#p") == {}


class TestDeclarations:
    @pytest.mark.parametrize("shards", [0, 100, -1, True, 1.5, "4", None])
    def test_a_number_of_shards_is_an_int_from_1_to_99(self, shards: Any) -> None:
        with pytest.raises(DeclarationError, match="from 1 to 99"):
            CounterField(shards=shards)

    def test_bounds_and_revisions_are_refused(self) -> None:
        with pytest.raises(DeclarationError, match="a minimum or a maximum"):
            CounterField(shards=2, maximum=5)
        with pytest.raises(DeclarationError, match="revision"):
            CounterField(shards=2, revision="rev")

    def test_missing_zero_is_refused_where_children_count(self) -> None:
        class Wall(CountedModel):
            Meta = Post.Meta
            pk = KeyAttribute("WALL#{wall_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            tally = CounterField(attr_name="tally", shards=2, missing="zero")

        with pytest.raises(DeclarationError, match="a shard that is not there says nothing of its parent"):

            class Brick(CountedModel):
                Meta = Post.Meta
                pk = KeyAttribute("WALL#{wall_id}", hash_key=True, attr_name="PK")
                sk = KeyAttribute("BRICK#{brick_id}", range_key=True, attr_name="SK")
                wall = CountedIn(Wall.tally)

    def test_a_sort_key_from_a_template_is_asked_for(self) -> None:
        with pytest.raises(DeclarationError, match="a sort key from a template"):

            class Loose(CountedModel):
                Meta = Post.Meta
                pk = KeyAttribute("LOOSE#{loose_id}", hash_key=True, attr_name="PK")
                sk = UnicodeAttribute(range_key=True, attr_name="SK")
                tally = CounterField(attr_name="tally", shards=2)

    def test_an_id_that_could_be_a_shards_key_is_refused_by_the_declaration(self) -> None:
        with pytest.raises(DeclarationError, match="keep the '#' out of its ids"):

            class Open(CountedModel):
                Meta = Post.Meta
                pk = KeyAttribute("OPEN/{open_id}", hash_key=True, attr_name="PK")
                sk = KeyAttribute("DAY/{day}", range_key=True, attr_name="SK")
                tally = CounterField(attr_name="tally", shards=2)

    def test_a_number_is_dealt_out_evenly_and_whole(self) -> None:
        assert shares(10, 4) == [3, 3, 2, 2] and sum(shares(-7, 3)) == -7
        assert shares(Decimal("2.5"), 3) == [Decimal("2.5"), 0, 0]
