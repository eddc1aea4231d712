"""Readers of tallies in shards, while their number is changed by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pynamodb.attributes import UnicodeAttribute

import behind
from party import ALL, Like, Page, Post
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, shards
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.inspecting import inspect
from pynacount.inspecting.parts import Parent, PlainSum
from pynacount.inspecting.records import record
from pynacount.inspecting.texts import sum_of
from pynacount.keys import ItemKey
from pynacount.protocols.reading import read_tallies
from pynacount.protocols.resharding import Resharded, reshard
from pynacount.protocols.spreading import gathered
from pynacount.shards import ParentInShards, layout_of
from pynacount.sizes import Cost
from pynacount.steps import Protocol, Send, Wait
from pynacount.testing import record_requests

items = partial(behind.partition, "Party")
REF = Post.ref(post_id="1")


@pytest.fixture(autouse=True)
def party(tables: Callable[..., None]) -> None:
    tables(*ALL)
    for tally in (Post.like_tally.tally, Page.views.tally):
        tally.layouts.clear()


def liked(likes: int, *, shards: int = 4) -> None:
    Post(post_id="1").save()
    for user in range(likes):
        REF.likes.add(user_id=f"u{user}")
    Post.like_tally.reshard(REF, shards)


def dispatch(step: Send) -> Any:
    return connection_for(Post.Meta).dispatch(step.operation, dict(step.request))


def moments(to: int) -> Iterator[int]:
    """Bring the post into so many shards, and stop before each request."""
    return steps_of(reshard(Post.like_tally.tally, Post._counting.key_of(REF), to, plain=False))


def steps_of(steps: Protocol[Any]) -> Iterator[int]:
    """Go through a protocol, and stop before each request."""
    sent, answer = 0, None
    try:
        while True:
            step = next(steps) if answer is None else steps.send(answer)
            answer = {}
            if isinstance(step, Send):
                yield sent
                answer, sent = dispatch(step), sent + 1
    except StopIteration:
        yield sent


def read_by_all(consistent: bool = True) -> tuple[Any, Any, Any]:
    return (
        Post.like_tally.value(REF, consistent_read=consistent),
        Post.like_tally.values([REF], consistent_read=consistent)[REF],
        Post.likes.page([REF], consistent_read=consistent)[0].tally,
    )


@pytest.mark.parametrize(("before", "to"), [(8, 4), (2, 4), (6, 1)])
@pytest.mark.parametrize("taken", [1, 4, 30])
def test_every_reader_sees_the_whole_at_every_moment_of_a_reshard(before: int, to: int, taken: int) -> None:
    liked(11, shards=1)
    Post.like_tally.reshard(REF, before)
    seen = []
    for moment in moments(to):
        shards.remember_shards(Post.like_tally.tally, Post._counting.key_of(REF), taken)
        seen += [(moment, read) for read in read_by_all() if read != 11]
    assert seen == []
    assert len(items("POST#1", "META#")) == (to if to > 1 else 0)


def test_a_parent_and_its_shards_that_were_read_by_two_requests_are_read_again() -> None:
    liked(12)
    before = sum(int(items("POST#1")[f"META#likeTally#{place}"]["likeTally"]["N"]) for place in (0, 1))
    assert 0 < before < 12
    key = Post._counting.key_of(REF)
    steps = read_tallies(Post.like_tally.tally, [key], True)
    step = next(steps)
    assert isinstance(step, Send)
    answer = dispatch(step)
    late = [
        item for item in answer["Responses"]["Party"] if item["SK"]["S"] in ("META#likeTally#2", "META#likeTally#3")
    ]
    answer["Responses"]["Party"] = [item for item in answer["Responses"]["Party"] if item not in late]
    answer["UnprocessedKeys"] = {"Party": {"Keys": [{name: item[name] for name in ("PK", "SK")} for item in late]}}
    waited = steps.send(answer)
    assert isinstance(waited, Wait)
    Post.like_tally.reshard(REF, 2)
    Post.like_tally.reshard(REF, 4)  # the shards that were read first hold more by now, and the others nothing
    answer = {}
    try:
        while True:
            step = steps.send(answer)
            answer = dispatch(step) if isinstance(step, Send) else {}
    except StopIteration as end:
        assert end.value == {key: 12}


def test_a_page_of_posts_in_many_shards_parts_no_post() -> None:
    liked(3, shards=60)
    refs = [REF, Post.ref(post_id="2"), Post.ref(post_id="3")]
    for number in (2, 3):
        Post(post_id=str(number)).save()
        Post.like_tally.reshard(refs[number - 1], 60)
    assert Post.likes.page(refs)[0].tally == 3
    with record_requests(connection_for(Post.Meta).client) as sent:
        assert [row.tally for row in Post.likes.page(refs)] == [3, 0, 0]
    assert [operation for operation, _ in sent] == ["BatchGetItem"] * 3


@pytest.mark.parametrize("stored", [1, 2, 16])
def test_the_next_page_and_the_next_values_read_the_shards_in_the_one_batch(stored: int) -> None:
    liked(5, shards=stored)
    read_by_all(consistent=False)
    with record_requests(connection_for(Post.Meta).client) as sent:
        assert Post.likes.page([REF])[0].tally == 5
        assert Post.like_tally.values([REF]) == {REF: 5}
        plan = Post.likes.plan_page([REF])
    assert [operation for operation, _ in sent] == ["BatchGetItem", "BatchGetItem"]
    assert plan.requests()[0]["RequestItems"] == sent[0][1]["RequestItems"]
    assert plan.cost().items == 1 + (stored if stored > 1 else 0)


def test_a_writer_that_saw_the_number_of_shards_as_a_reader_spreads_its_likes_over_them() -> None:
    liked(0, shards=16)
    Post.likes.page([REF])
    for user in range(100):
        REF.likes.add(user_id=f"u{user}")
    parts = [int(item["likeTally"]["N"]) for item in items("POST#1", "META#").values()]
    assert len(parts) == 16 and sum(parts) == 100 and sum(parts[4:]) > 40


def taken() -> set[int]:
    """The shards that likes of many users would take."""
    plans = [Like(post_id="1", user_id=str(user)).plan_save().request() for user in range(60)]
    return {int(plan["TransactItems"][1]["Update"]["Key"]["SK"]["S"].rpartition("#")[2]) for plan in plans}


def test_what_is_remembered_of_a_post_is_forgotten_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(shards, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shards.remember_shards(Post.like_tally.tally, Post._counting.key_of(REF), 2)
    now[0] += 59
    assert taken() == {0, 1}
    now[0] += 2
    assert taken() == {0, 1, 2, 3}


class TestANumberBesideTheShards:
    """Of a plain counter: what code that declares no shards counts stays on the item."""

    PAGE = Page.ref(page_id="p")
    KEY = Page._counting.key_of(PAGE)

    def beside(self, number: int) -> None:
        Page.views.increment(self.PAGE, 3)
        self.update("SET #views = :number", number)

    def update(self, expression: str, number: int) -> None:
        names, values = {"#views": "views"}, {":number": {"N": str(number)}}
        request = {"TableName": "Party", "Key": self.KEY.wire(), "UpdateExpression": expression}
        expressed = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        dispatch(Send("UpdateItem", {**request, **expressed}))

    def stored(self) -> int:
        return int(items("PAGE#p")["STATS"].get("viewsShards", {"N": "1"})["N"])

    @pytest.mark.parametrize("number", [0, 40])
    @pytest.mark.parametrize("to", [1, 2, 5, 16])
    def test_one_reshard_goes_on_to_its_end_and_says_what_is_stored(self, number: int, to: int) -> None:
        self.beside(number)
        assert Page.views.reshard(self.PAGE, to) == Resharded(5, to)
        assert self.stored() == to == max(1, len(items("PAGE#p", "STATS#")))
        assert ("views" in items("PAGE#p")["STATS"]) == (to == 1)
        assert "viewsWas" not in items("PAGE#p")["STATS"]
        assert Page.views.value(self.PAGE) == 3 + number
        with record_requests(connection_for(Post.Meta).client) as sent:
            assert Page.views.reshard(self.PAGE, to) == Resharded(to, to)
        assert [operation for operation, _ in sent] == ["GetItem"]

    @pytest.mark.parametrize("to", [1, 5, 16])
    def test_every_reader_sees_the_whole_at_every_moment_and_the_next_reshard_goes_on(self, to: int) -> None:
        self.beside(40)
        moments, seen = 0, []
        for moment in steps_of(reshard(Page.views.tally, self.KEY, to, plain=True)):
            seen += [(moment, Page.views.value(self.PAGE)), (moment, Page.views.values([self.PAGE])[self.PAGE])]
            moments = moment
        assert [read for read in seen if read[1] != 43] == []
        for kill in range(moments):
            Page.views.reshard(self.PAGE, 1)
            Page.views.reshard(self.PAGE, 5)
            dispatch_all(self.KEY, kill, to)
            self.update("ADD #views :number", 1)
            assert Page.views.reshard(self.PAGE, to).now == to == self.stored()
            assert Page.views.value(self.PAGE) == 43 + kill + 1

    def test_a_reader_between_two_items_of_a_move_reads_again(self) -> None:
        """One that saw the item before a move and the shard after it: a query is no snapshot."""
        self.beside(40)
        before: dict[int, Any] = {}
        for moment in steps_of(reshard(Page.views.tally, self.KEY, 5, plain=True)):
            before[moment] = dict(items("PAGE#p"))
        before[len(before)] = dict(items("PAGE#p"))
        for first, second in zip(sorted(before), sorted(before)[1:], strict=False):
            for late in ({"STATS"}, set(before[first]) - {"STATS"}):
                found = {sort: before[second if sort in late else first][sort] for sort in before[first]}
                places = {int(sort[-1]): item for sort, item in found.items() if sort != "STATS"}
                spread = ParentInShards(layout_of(Page.views.tally, found["STATS"]), found["STATS"], places)
                total = int(gathered(Page.views.tally, spread, plain=True)["views"]["N"])
                assert total == 43 or not spread.whole(Page.views.tally), (first, late)


def dispatch_all(key: ItemKey, kill: int, to: int) -> None:
    """A reshard that is killed after so many requests."""
    for moment in steps_of(reshard(Page.views.tally, key, to, plain=True)):
        if moment == kill:
            return


class TestInstances:
    """An instance is one item, and does not carry a number that is on several."""

    PAGE = Page.ref(page_id="p")

    def test_the_part_on_the_item_itself_is_not_shown(self) -> None:
        Page(page_id="p").save()
        assert Page.get(page_id="p").views == 0  # no shards yet
        Page.views.increment(self.PAGE, 5)
        assert items("PAGE#p")["STATS"]["views"] == {"N": "0"}
        loaded = Page.get(page_id="p")
        assert loaded.views is None
        assert next(iter(Page.query("PAGE#p", Page.sk == "STATS"))).views is None
        loaded.refresh()
        assert loaded.views is None
        loaded.title = "t"
        loaded.save()
        assert Page.views.value(self.PAGE) == 5

    def test_one_that_was_saved_or_refreshed_forgets_what_it_showed(self) -> None:
        page = Page(page_id="p")
        page.save()
        assert page.views == 0
        assert Page.views.increment(page, 5) == 5
        assert page.views is None
        again = Page(page_id="p")
        again.save()
        assert again.views is None and Page.views.value(again) == 5

    def test_code_that_declares_no_shards_sees_it_too(self) -> None:
        class Plain(CountedModel):
            __module__ = "no_shards"
            Meta = Page.Meta
            pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("STATS", range_key=True, attr_name="SK")
            title = UnicodeAttribute(null=True)
            views = CounterField(attr_name="views", missing="zero")
            clicks = CounterField(attr_name="clicks")

        Page.views.increment(self.PAGE, 5)
        Plain.views.increment(Plain.ref(page_id="p"), 2)
        plain = Plain.get(page_id="p")
        assert plain.views is None and Plain.views.value(plain) == 7
        Plain.clicks.increment(plain, also={"views": 1})
        assert plain.views is None and plain.clicks == 1


class TestPrices:
    def test_an_increment_in_shards_is_priced_with_the_query_of_the_sum(self) -> None:
        page = Page.ref(page_id="p")
        Page.views.increment(page)
        with record_requests(connection_for(Page.Meta).client) as sent:
            Page.views.increment(page)
        assert [operation for operation, _ in sent] == ["UpdateItem", "Query"]
        assert Page.views.plan_increment(page).cost() == Cost(wcu=1, rcu=1, items=1)
        assert Page.views.plan_increment(page, once="t").cost() == Cost(wcu=4, rcu=1, items=2)

    @pytest.mark.parametrize("stored", [4, 7, 1])
    def test_the_delete_of_a_parent_in_shards_is_planned_with_them_and_with_what_it_reads(self, stored: int) -> None:
        liked(0, shards=stored)
        Post.likes.page([REF])
        plan = Post.get(post_id="1").plan_delete()
        with record_requests(connection_for(Post.Meta).client) as sent:
            Post.get(post_id="1").delete()
        assert [operation for operation, _ in sent] == ["Query", plan.operation]
        assert sent[1][1].get("TransactItems") == plan.request().get("TransactItems")
        assert plan.cost().rcu == 1
        assert plan.cost().wcu == (2 * (1 + stored) if stored > 1 else 1)
        assert items("POST#1") == {}

    def test_the_delete_of_an_item_with_plain_shards_too(self) -> None:
        Page(page_id="p").save()
        Page.views.increment(Page.ref(page_id="p"))
        plan = Page(page_id="p").plan_delete()
        with record_requests(connection_for(Page.Meta).client) as sent:
            Page(page_id="p").delete()
        assert [operation for operation, _ in sent] == ["Query", "Query", "TransactWriteItems"]
        assert sent[-1][1]["TransactItems"] == plan.request()["TransactItems"]
        assert plan.cost() == Cost(wcu=2 * 6, rcu=2, items=6)


class TestTold:
    """What the commands say of a number that is in shards, or in none."""

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(group, list(arguments), prog_name="pynacount")

    def test_a_plain_counter_in_shards_is_shown_with_its_sum_and_where_it_is(self) -> None:
        class Wiki(CountedModel):
            Meta = Page.Meta
            pk = KeyAttribute("WIKI#{wiki_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            fan_tally = CounterField(attr_name="fanTally")
            fans: CountedSet[Any] = CountedSet("Fan", tally="fan_tally")
            views = CounterField(attr_name="views", shards=3, settle=0)

        class Fan(CountedModel):
            Meta = Page.Meta
            pk = KeyAttribute("WIKI#{wiki_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("FAN#{user_id}", range_key=True, attr_name="SK")
            wiki = CountedIn(Wiki.fan_tally)

        ref = Wiki.ref(wiki_id="w")
        Wiki(wiki_id="w").save()
        parts = [type(part) for part in inspect([Wiki.fan_tally], ref)]
        assert PlainSum not in parts
        Wiki.views.increment(ref, 5)
        behind.put("Party", "WIKI#w", "META", fanTally={"N": "0"}, views={"N": "2"}, viewsShards={"N": "3"})
        (part,) = [part for part in inspect([Wiki.fan_tally], ref) if isinstance(part, PlainSum)]
        assert (part.counter, part.tally, part.beside, part.layout.shards) == ("Wiki.views", 7, 2, 3)
        assert record(part) == {
            "type": "plain",
            "counter": "Wiki.views",
            "attribute": "views",
            "tally": 7,
            "beside": 2,
            "shards": 3,
            "retiring": 0,
        }
        parent = next(iter(inspect([Wiki.fan_tally], ref)))
        assert isinstance(parent, Parent)
        assert sum_of(part, parent) == (
            "the sum of 3 shards, META#views#0 to META#views#2, and of 2 on the item itself, beside them"
        )

    def test_a_parent_without_a_tally_that_is_to_be_resharded_by_its_key_is_told(self) -> None:
        behind.put("Party", "POST#1", "META")
        done = self.run("reshard", "party:Post", "--to", "8", "--key", "post_id=1")
        assert done.exit_code == 0
        assert done.output.splitlines() == [
            "unseeded   Post.like_tally of PK='POST#1' SK='META' has no tally yet: it is made when its children are "
            "counted, in 4 shards, as is declared. Bring it into 8 shards then",
            "0 tallies brought into 8 shards",
        ]

    def test_a_model_with_several_plain_counters_alone_is_told_in_the_plural(self) -> None:
        done = self.run("inspect", "party:Page", "page_id=1")
        assert "clicks, views are plain counters" in done.output
