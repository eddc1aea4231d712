"""What an application may declare, and what each mistake is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pynamodb.attributes import (
    BooleanAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
    VersionAttribute,
)
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models, uncounted
from pynacount.errors import CounterTypeError, DeclarationError, KeyTemplateError, UncountedWrite
from pynacount.keys import ItemKey, KeyTemplate, common_key

Tables = Callable[..., None]


class Post(CountedModel):
    class Meta:
        table_name = "Declarations"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally")
    star_tally = CounterField(attr_name="starTally")
    likes: CountedSet[Like] = CountedSet("Like", tally="like_tally")


class Like(CountedModel):
    class Meta:
        table_name = "Declarations"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    stars = NumberAttribute(null=True)
    public = BooleanAttribute(default=True)
    post = CountedIn(Post.like_tally)


class Child(CountedModel):
    """What the mistaken children below share; it has no table and counts nothing."""

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("CHILD#{user_id}", range_key=True, attr_name="SK")
    stars = NumberAttribute(null=True)
    text = UnicodeAttribute(null=True)


def declare(base: type[CountedModel] = Child, name: str = "Wrong", **body: Any) -> Any:
    """A class with this body, as a ``class`` statement would make it."""
    meta = type("Meta", (), {"table_name": "Declarations"})
    return type(base)(name, (base,), {"Meta": meta, "__module__": __name__, "__qualname__": name, **body})


class TestTwins:
    """Two models of the same items: what one of them does not count, the other's numbers lack."""

    def declare(self, name: str, sort: str, **body: Any) -> Any:
        return declare(
            CountedModel,
            name,
            pk=KeyAttribute("TWIN#{twin_id}", hash_key=True, attr_name="PK"),
            sk=KeyAttribute(sort, range_key=True, attr_name="SK"),
            **body,
        )

    @pytest.fixture
    def parent(self) -> Any:
        return self.declare("Twin", "META", n=CounterField())

    @pytest.fixture
    def child(self, parent: Any) -> Any:
        return self.declare("TwinChild", "KID#{kid}", up=CountedIn(parent.n))

    @pytest.mark.parametrize("sort", ["KID#{kid}", "KID#{other}"])
    def test_a_model_of_the_childrens_items_that_does_not_count_them_is_refused(self, child: Any, sort: str) -> None:
        with pytest.raises(
            DeclarationError, match=r":Mute and .*:TwinChild are models of the same items of table Decl"
        ):
            self.declare("Mute", sort)

    def test_children_whose_keys_are_alike_but_for_the_names_are_refused(self, parent: Any, child: Any) -> None:
        with pytest.raises(DeclarationError, match="make one a subclass of the other"):
            self.declare("Renamed", "KID#{other}", up=CountedIn(parent.n))

    @pytest.mark.parametrize(
        "body",
        [{}, {"n": NumberAttribute()}, {"m": CounterField()}, {"n": CounterField(on_delete="cascade")}],
        ids=["nothing", "a number", "another counter", "other options"],
    )
    def test_a_model_of_the_parents_items_that_is_not_counted_in_alike_is_refused(
        self, parent: Any, body: dict[str, Any]
    ) -> None:
        with pytest.raises(DeclarationError, match="do not count alike"):
            self.declare("Plain", "META", **body)

    def test_what_declares_the_same_is_fine(self, parent: Any, child: Any) -> None:
        assert self.declare("Same", "META", n=CounterField(), title=UnicodeAttribute(null=True))
        assert self.declare("SameChild", "KID#{kid}", up=CountedIn(parent.n), text=UnicodeAttribute(null=True))

    def test_a_subclass_and_a_class_that_is_defined_again_are_fine(self, parent: Any, child: Any) -> None:
        assert declare(child, "SubChild", text=UnicodeAttribute(null=True))
        assert declare(parent, "SubTwin", text=UnicodeAttribute(null=True))
        assert self.declare("TwinChild", "KID#{kid}", text=UnicodeAttribute(null=True), up=CountedIn(parent.n))

    def test_models_of_two_programs_know_nothing_of_each_other(self, child: Any) -> None:
        assert self.declare("Elsewhere", "KID#{kid}", __module__="another.program")


class TestVariables:
    def test_a_variable_is_a_constructor_argument_and_a_property(self) -> None:
        like: Any = Like(post_id="a91f", user_id="7c20")
        assert (like.pk, like.sk) == ("POST#a91f", "LIKE#7c20")
        assert (like.post_id, like.user_id) == ("a91f", "7c20")

    def test_the_keys_may_be_given_as_pynamodb_has_them(self) -> None:
        like: Any = Like("POST#a91f", "LIKE#7c20")
        assert (like.post_id, like.user_id) == ("a91f", "7c20")

    def test_a_constant_sort_key_need_not_be_given(self) -> None:
        keys = [Post._counting.key_of(p) for p in (Post("POST#a91f"), Post(post_id="a91f"), Post("POST#a91f", "META"))]
        assert keys[0] == keys[1] == keys[2]

    def test_a_variable_is_read_only(self) -> None:
        like: Any = Like(post_id="a91f", user_id="7c20")
        with pytest.raises(AttributeError, match=r"Like\.user_id is part of the key"):
            like.user_id = "other"
        assert like.user_id == "7c20"

    def test_a_strange_constructor_argument_is_told_the_variables(self) -> None:
        with pytest.raises(ValueError, match=r"Like: .*colour.*post_id.*user_id"):
            Like(post_id="a91f", user_id="7c20", colour="red")

    def test_variables_are_read_from_a_loaded_item(self, tables: Tables) -> None:
        tables(Post)
        Post(post_id="a91f").save()
        (loaded,) = list(Post.query("POST#a91f"))
        assert loaded.key_variables() == {"post_id": "a91f"}

    def test_get_takes_variables_or_keys(self, tables: Tables) -> None:
        tables(Post)
        Post(post_id="a91f", body="hi").save()
        for post in (Post.get(post_id="a91f"), Post.get("POST#a91f", "META"), Post.get("POST#a91f")):
            assert post.body == "hi"

    def test_a_variable_may_be_stored_as_an_attribute_too(self, tables: Tables) -> None:
        stored: Any = declare(name="Stored", user_id=UnicodeAttribute(attr_name="userId"))
        tables(stored)
        stored(post_id="a91f", user_id="7c20").save()
        assert stored.get("POST#a91f", "CHILD#7c20").attribute_values["user_id"] == "7c20"

    def test_a_stored_variable_must_say_what_the_key_says(self, tables: Tables) -> None:
        stored: Any = declare(name="StoredToo", user_id=UnicodeAttribute(attr_name="userId"))
        child = stored(post_id="a91f", user_id="7c20")
        child.user_id = "other"
        with pytest.raises(KeyTemplateError, match="is not what its key says"):
            child.save()

    @pytest.mark.parametrize("name", ["save", "delete", "count", "get", "ref", "hash_key", "self"])
    def test_a_variable_must_not_hide_what_the_model_needs(self, name: str) -> None:
        with pytest.raises(DeclarationError, match=name):
            declare(CountedModel, f"Hides{name}", pk=KeyAttribute(f"CAR#{{{name}}}", hash_key=True))

    def test_a_key_must_not_be_its_own_variable(self) -> None:
        with pytest.raises(DeclarationError, match="id"):
            declare(CountedModel, "OwnName", id=KeyAttribute("POST#{id}", hash_key=True))

    def test_a_variable_that_the_subclass_has_no_more_is_no_attribute(self) -> None:
        video: Any = declare(models.PostMeta, "Video", pk=KeyAttribute("VIDEO#{video_id}", hash_key=True))
        assert not hasattr(video(video_id="v1"), "post_id")


def test_a_child_of_a_subclass_is_counted_by_the_base_too(tables: Tables) -> None:
    base: Any = declare(
        CountedModel,
        "Lamp",
        pk=KeyAttribute("LAMP#{lamp_id}", hash_key=True, attr_name="PK"),
        sk=KeyAttribute("META", range_key=True, attr_name="SK"),
        n=CounterField(settle=0),
    )
    heir: Any = declare(base, "BrightLamp")
    child: Any = declare(
        CountedModel,
        "Moth",
        pk=KeyAttribute("LAMP#{lamp_id}", hash_key=True, attr_name="PK"),
        sk=KeyAttribute("MOTH#{moth_id}", range_key=True, attr_name="SK"),
        lamp=CountedIn(heir.n),
    )
    tables(base, child)
    with uncounted():
        base(lamp_id="1").save()
    child(lamp_id="1", moth_id="a").save()
    assert base.n.repair(base.ref(lamp_id="1")).now == heir.n.value(heir.ref(lamp_id="1")) == 1


def test_a_parent_may_be_keyed_by_a_plain_number(tables: Tables) -> None:
    class Room(CountedModel):
        class Meta:
            table_name = "DeclarationsRooms"

        number = NumberAttribute(hash_key=True)
        sk = KeyAttribute("META", range_key=True)
        n = CounterField(settle=0)
        guests: CountedSet[Any] = CountedSet("Guest", tally="n")

    class Guest(CountedModel):
        class Meta:
            table_name = "DeclarationsRooms"

        number = NumberAttribute(hash_key=True)
        sk = KeyAttribute("GUEST#{name}", range_key=True)
        room = CountedIn(Room.n)

    tables(Room, Guest)
    Room(number=5).save()
    assert Room.ref(number=5).guests.add(name="ada")
    assert [guest.name for guest in Room.ref(number=5).guests] == ["ada"]
    assert Room.n.repair(Room.ref(number=5)).now == Room.ref(number=5).guests.recount() == 1


class TestNeighbours:
    def test_two_models_that_can_make_one_key_are_refused(self) -> None:
        meta = type("Meta", (), {"table_name": "DeclarationsNeighbours"})
        parent: Any = type(CountedModel)(
            "Thing",
            (CountedModel,),
            {
                "Meta": meta,
                "pk": KeyAttribute("T#{t}", hash_key=True),
                "sk": KeyAttribute("META", range_key=True),
                "n": CounterField(),
            },
        )
        first = type(CountedModel)(
            "Reaction",
            (CountedModel,),
            {
                "Meta": meta,
                "pk": KeyAttribute("T#{t}", hash_key=True),
                "sk": KeyAttribute("R#{emoji}#{user_id}", range_key=True),
                "up": CountedIn(parent.n),
            },
        )
        with pytest.raises(DeclarationError, match=r"Reader and Reaction can both have an item with the keys.*R#USER#"):
            type(CountedModel)(
                "Reader",
                (CountedModel,),
                {
                    "Meta": meta,
                    "pk": KeyAttribute("T#{t}", hash_key=True),
                    "sk": KeyAttribute("R#USER#{user_id}", range_key=True),
                    "up": CountedIn(parent.n),
                },
            )
        assert first is not None

    @pytest.mark.parametrize(
        ("one", "other", "meet"),
        [
            ("R#{emoji}#{user}", "R#USER#{user}", True),
            ("LIKE#{user}", "LIKE#USER#{user}", False),
            ("N#{n:int}", "N#DRAFT", False),
            ("N#{n:int}", "N#{name}", True),
            ("A#{a}", "B#{a}", False),
            ("META", "META", True),
            ("{a}|{b}", "{a}#{b}", True),
            ("X{a}", "X", False),
        ],
    )
    def test_whether_two_templates_can_meet_is_seen(self, one: str, other: str, meet: bool) -> None:
        first, second = KeyTemplate.compile(one), KeyTemplate.compile(other)
        key = common_key(first, second)
        assert (key is not None) is meet
        if key is not None:
            assert first.parse(key) is not None and second.parse(key) is not None

    def test_a_ttl_on_a_parent_asks_that_its_children_are_left_and_counted_again(self) -> None:
        parent: Any = declare(
            CountedModel,
            "Mayfly",
            pk=KeyAttribute("MAYFLY#{m}", hash_key=True, attr_name="PK"),
            sk=KeyAttribute("META", range_key=True, attr_name="SK"),
            n=CounterField(),
            expires=TTLAttribute(),
        )
        with pytest.raises(DeclarationError, match=r"Mayfly\.expires is a TTL attribute.*on_delete=\"leave\""):
            declare(
                CountedModel,
                "Egg",
                pk=KeyAttribute("MAYFLY#{m}", hash_key=True, attr_name="PK"),
                sk=KeyAttribute("EGG#{e}", range_key=True, attr_name="SK"),
                up=CountedIn(parent.n),
            )


class TestSharedBase:
    def test_a_base_may_hold_no_more_than_the_meta_that_its_subclasses_share(self) -> None:
        base: Any = declare(CountedModel, "Base", note=UnicodeAttribute(null=True))
        post: Any = type(base)(
            "Leaf",
            (base,),
            {"__module__": __name__, "__qualname__": "Leaf", "pk": KeyAttribute("LEAF#{leaf_id}", hash_key=True)},
        )
        assert post.ref(leaf_id="1")._item_key.table == "Declarations"
        with pytest.raises(DeclarationError, match="Base has no hash key"):
            base.ref(leaf_id="x")


class TestKeyAttribute:
    @pytest.mark.parametrize("roles", [{}, {"hash_key": True, "range_key": True}])
    def test_it_is_either_the_hash_or_the_range_key(self, roles: dict[str, bool]) -> None:
        with pytest.raises(DeclarationError, match=r"'POST#{post_id}'.*hash_key=True or range_key=True"):
            KeyAttribute("POST#{post_id}", **roles)

    def test_a_model_without_a_hash_key_is_told_how_to_declare_one(self) -> None:
        with pytest.raises(DeclarationError, match=r"Keyless has no hash key.*KeyAttribute\(\"POST#{post_id}\""):
            declare(CountedModel, "Keyless", n=CounterField())


class TestCounterField:
    def test_two_counters_must_not_share_an_attribute(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.one and Wrong\.two.*'n'.*attr_name"):
            declare(one=CounterField(attr_name="n"), two=CounterField(attr_name="n"))

    def test_a_counter_must_not_share_its_attribute_with_another(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.\w+ and Wrong\.\w+ are both stored as 'n'"):
            declare(one=CounterField(attr_name="n"), two=NumberAttribute(attr_name="n"))

    def test_a_counter_must_not_share_its_attribute_with_the_base_class(self) -> None:
        with pytest.raises(DeclarationError, match="likeTally"):
            declare(Post, more=CounterField(attr_name="likeTally"))

    @pytest.mark.parametrize("mark", ["Closed", "Pending", "Was"])
    def test_the_librarys_own_marks_are_kept_free(self, mark: str) -> None:
        with pytest.raises(DeclarationError, match=rf"Wrong\.mine is stored as 'n{mark}', which Wrong\.tally keeps"):
            declare(tally=CounterField(attr_name="n"), mine=UnicodeAttribute(attr_name=f"n{mark}", null=True))

    @pytest.mark.parametrize(
        "options",
        [
            {"missing": "sead"},
            {"missing": None},
            {"on_delete": "CASCADE"},
            {"lazy_seed_limit": -1},
            {"lazy_seed_limit": True},
            {"lazy_seed_limit": 1.5},
            {"settle": -1},
            {"settle": float("nan")},
            {"settle": "1"},
            {"settle": True},
        ],
    )
    def test_a_bad_option_is_refused_by_name(self, options: dict[str, Any]) -> None:
        with pytest.raises(DeclarationError, match=next(iter(options))):
            CounterField(**options)

    def test_an_unhashable_option_is_refused_as_well(self) -> None:
        with pytest.raises(DeclarationError, match="missing"):
            CounterField(missing=[])  # type: ignore[arg-type]

    @pytest.mark.parametrize("value", [0, 5, None])
    def test_a_counter_cannot_be_assigned(self, value: int | None) -> None:
        post = Post(post_id="a91f")
        with pytest.raises(UncountedWrite, match=r"Post\.like_tally cannot be assigned: its children"):
            post.like_tally = value  # type: ignore[assignment]

    def test_a_counter_is_no_constructor_argument(self) -> None:
        with pytest.raises(UncountedWrite, match=r"Post\.like_tally"):
            Post(post_id="a91f", like_tally=5)

    def test_a_plain_counter_is_told_its_own_way_out(self) -> None:
        stats: Any = declare(CountedModel, "Stats", pk=KeyAttribute("S#{s}", hash_key=True), plays=CounterField())
        with pytest.raises(UncountedWrite, match=r"by Stats\.plays\.increment\(ref\)"):
            stats(s="1").plays = 3

    def test_a_tally_stored_as_text_names_the_item(self, tables: Tables) -> None:
        tables(Post)
        Post._get_connection().put_item("POST#a", "META", attributes={"likeTally": {"S": "7"}})
        with pytest.raises(CounterTypeError, match=r"Post\.like_tally.*POST#a.*remove the attribute"):
            Post.get(post_id="a")


class TestCountedIn:
    @pytest.mark.parametrize("counter", [Post.body, Post, "like_tally", None, Post.likes])
    def test_it_must_be_given_a_counter(self, counter: Any) -> None:
        with pytest.raises(DeclarationError, match=r"CountedIn\(Post\.like_tally\)"):
            CountedIn(counter)

    def test_a_counter_that_does_not_exist_fails_at_once(self) -> None:
        with pytest.raises(AttributeError, match="lik_tally"):
            CountedIn(Post.lik_tally)  # type: ignore[attr-defined]

    def test_a_variable_that_no_key_gives_is_named_with_the_way_out(self) -> None:
        with pytest.raises(DeclarationError) as error:
            declare(sk=KeyAttribute("C#{n}", range_key=True), pk=KeyAttribute("X#{x}", hash_key=True), up=COUNTED())
        assert "Wrong.up: nothing gives Post's key variable 'post_id'" in str(error.value)
        assert 'CountedIn(Post.like_tally, post_id="<the attribute of Wrong>")' in str(error.value)

    def test_a_mapped_variable_that_the_child_lacks_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: nothing gives Post's key variable 'post_id'"):
            declare(up=CountedIn(Post.like_tally, post_id="article"))

    def test_a_variable_that_the_parent_lacks_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: Post has no key variable 'blog_id'; it has post_id"):
            declare(up=CountedIn(Post.like_tally, blog_id="user_id"))

    def test_a_parent_without_a_table_is_told_to_be_subclassed(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up .*PostMeta.*no table.*in Wrong write up = CountedIn"):
            declare(up=CountedIn(models.PostMeta.like_tally))

    def test_when_must_name_an_attribute(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: when='publik' is no attribute of Wrong"):
            declare(up=CountedIn(Post.like_tally, when="publik"))

    @pytest.mark.parametrize("amount", ["stras", "text", "pk"])
    def test_amount_must_name_a_numeric_attribute(self, amount: str) -> None:
        with pytest.raises(DeclarationError, match=rf"Wrong\.up: amount='{amount}' is no numeric attribute of Wrong"):
            declare(up=CountedIn(Post.like_tally, amount=amount))

    @pytest.mark.parametrize("option", ["when", "amount"])
    def test_a_callable_must_say_what_it_reads(self, option: str) -> None:
        with pytest.raises(DeclarationError, match=rf"Wrong\.up: {option} is a callable; .*reads="):
            declare(up=CountedIn(Post.like_tally, **{option: lambda child: child.stars}))  # type: ignore[arg-type]

    def test_reads_must_name_attributes(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: reads='stras' is no attribute of Wrong"):
            declare(up=CountedIn(Post.like_tally, amount=lambda child: child.stars, reads=("stras",)))

    def test_a_callable_may_read_a_key_variable(self) -> None:
        child: Any = declare(
            name="NoBots",
            __module__="bots",  # another program's
            up=CountedIn(Post.like_tally, when=lambda child: child.user_id != "bot", reads=("user_id",)),
        )
        assert len(child(post_id="a", user_id="bot").plan_save().writes) == 1
        assert len(child(post_id="a", user_id="human").plan_save().writes) == 2

    def test_an_attribute_for_when_must_be_a_boolean(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: when='text' is no BooleanAttribute; write when=lambda"):
            declare(up=CountedIn(Post.like_tally, when="text"))

    @pytest.mark.parametrize("when", [5, True, ("public",)])
    def test_when_must_be_a_name_or_a_callable(self, when: Any) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: when="):
            declare(up=CountedIn(Post.like_tally, when=when))

    def test_an_amount_of_zero_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: amount=0 counts nothing"):
            declare(up=CountedIn(Post.like_tally, amount=0))

    @pytest.mark.parametrize("amount", [True, float("nan"), float("inf"), 10**40 + 1, b"1"])
    def test_a_constant_amount_must_be_a_number_that_can_be_stored(self, amount: Any) -> None:
        with pytest.raises(CounterTypeError, match=r"Wrong\.up"):
            declare(up=CountedIn(Post.like_tally, amount=amount))

    def test_a_ttl_attribute_on_a_counted_child_is_refused(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.expires is a TTL attribute, and Wrong\.up.*drift"):
            declare(up=COUNTED(), expires=TTLAttribute())

    def test_a_ttl_attribute_that_is_inherited_is_refused_too(self) -> None:
        expiring = declare(name="Expiring", __module__="expiring", expires=TTLAttribute())
        with pytest.raises(DeclarationError, match="TTL"):
            declare(expiring, __module__="expiring", up=COUNTED())

    def test_a_ttl_attribute_on_a_parent_is_fine(self) -> None:
        assert declare(
            CountedModel, "Short", pk=KeyAttribute("SHORT#{s}", hash_key=True), n=CounterField(), e=TTLAttribute()
        )


def COUNTED(**options: Any) -> CountedIn:
    return CountedIn(Post.like_tally, **options)


class TestPlace:
    """Children in their parent's partition must be told from the rest of it: else the parent counts itself."""

    @pytest.mark.parametrize(
        "sort_key",
        [UnicodeAttribute(range_key=True, attr_name="SK"), KeyAttribute("{user_id}", range_key=True, attr_name="SK")],
        ids=["plain", "no literal"],
    )
    def test_a_sort_key_without_a_prefix_is_refused(self, sort_key: Any) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: the children lie in their parent's partition"):
            declare(sk=sort_key, up=COUNTED())

    def test_a_child_with_the_parents_key_alone_is_refused(self) -> None:
        lone: Any = declare(CountedModel, "Lone", pk=KeyAttribute("L#{lone_id}", hash_key=True), n=CounterField())
        with pytest.raises(DeclarationError, match=r"Wrong\.up"):
            declare(CountedModel, pk=KeyAttribute("L#{lone_id}", hash_key=True), up=CountedIn(lone.n))

    def test_plain_keys_are_held_to_it_too(self) -> None:
        class Topic(CountedModel):
            class Meta:
                table_name = "DeclarationsPlain"

            topic = UnicodeAttribute(hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            tally = CounterField()

        with pytest.raises(DeclarationError, match="partition"):

            class Entry(CountedModel):
                class Meta:
                    table_name = "DeclarationsPlain"

                topic = UnicodeAttribute(hash_key=True)
                sk = UnicodeAttribute(range_key=True)
                up = CountedIn(Topic.tally)

    def test_a_variable_of_another_name_is_held_to_it_too(self) -> None:
        with pytest.raises(DeclarationError, match="partition"):
            declare(
                pk=KeyAttribute("POST#{article}", hash_key=True, attr_name="PK"),
                sk=KeyAttribute("{user_id}", range_key=True, attr_name="SK"),
                up=CountedIn(Post.like_tally, post_id="article"),
            )


class TestIndex:
    def test_an_unknown_index_is_named_with_those_there_are(self) -> None:
        with pytest.raises(DeclarationError, match=r"Wrong\.up: Wrong declares no index named 'by-post'; it has none"):
            declare(up=COUNTED(index="by-post"))

    def test_an_index_must_be_keyed_by_what_names_the_parent(self) -> None:
        class ByText(GlobalSecondaryIndex[Any]):
            class Meta:
                index_name = "by-text"
                projection = AllProjection()

            text = UnicodeAttribute(hash_key=True)

        with pytest.raises(DeclarationError, match=r"index 'by-text' is keyed by text.*post_id"):
            declare(up=COUNTED(index="by-text"), by_text=ByText())

    @pytest.mark.parametrize("projection", [KeysOnlyProjection(), IncludeProjection(["text"])])
    def test_an_index_must_hold_what_the_child_counts_by(self, projection: Any) -> None:
        with pytest.raises(DeclarationError, match=r"does not hold stars.*IncludeProjection\(\['stars'\]\)"):
            self.elsewhere(projection)

    @pytest.mark.parametrize("projection", [AllProjection(), IncludeProjection(["stars"])])
    def test_an_index_that_holds_it_is_taken(self, projection: Any) -> None:
        assert self.elsewhere(projection).up.trails

    def elsewhere(self, on: Any) -> Any:
        class ByPost(GlobalSecondaryIndex[Any]):
            class Meta:
                index_name = "by-post"
                projection = on

            post_id = UnicodeAttribute(hash_key=True, attr_name="postId")

        return declare(
            CountedModel,
            "Elsewhere",
            pk=KeyAttribute("RATING#{rating_id}", hash_key=True, attr_name="PK"),
            sk=KeyAttribute("META", range_key=True, attr_name="SK"),
            post_id=UnicodeAttribute(attr_name="postId"),
            stars=NumberAttribute(),
            by_post=ByPost(),
            up=CountedIn(Post.like_tally, amount="stars", index="by-post"),
        )


class TestCountedSet:
    def test_its_tally_must_be_a_counter(self) -> None:
        for wrong in ("lik_tally", "body"):
            with pytest.raises(DeclarationError, match=rf"Wrong\.kids: tally='{wrong}' is no counter of Wrong"):
                declare(Post, kids=CountedSet("Like", tally=wrong))

    def test_a_child_that_never_appears_fails_at_first_use(self, tables: Tables) -> None:
        lonely: Any = declare(Post, "Lonely", kids=CountedSet("Liek", tally="star_tally"))
        tables(lonely)
        lonely(post_id="a").save()
        for use in (
            lambda: lonely.ref(post_id="a").kids.add(user_id="b"),
            lambda: lonely.ref(post_id="a").kids.recount(),
            lambda: list(lonely.ref(post_id="a").kids),
        ):
            with pytest.raises(DeclarationError, match=r"Lonely\.kids speaks of 'Liek'.*declare class Liek.*import"):
                use()

    def test_a_child_that_never_appears_is_not_seeded_as_zero(self, tables: Tables) -> None:
        lonely: Any = declare(Post, "LonelyToo", kids=CountedSet("Liek", tally="star_tally"))
        tables(lonely)
        lonely._get_connection().put_item("POST#a", "META")
        with pytest.raises(DeclarationError, match="Liek"):
            lonely.star_tally.seed(lonely.ref(post_id="a"))

    def test_a_child_may_be_named_with_its_module(self) -> None:
        full: Any = declare(Post, "Full", kids=CountedSet(f"{__name__}:Like", tally="like_tally"))
        assert full.kids.relation.owner is Like

    def test_a_child_may_be_given_as_a_class(self) -> None:
        by_class: Any = declare(Post, "ByClass", kids=CountedSet(Like, tally="like_tally"))
        assert by_class.kids.relation.owner is Like

    def test_two_children_of_one_name_must_be_told_apart(self) -> None:
        page = page_of_fans("Page", "PG")
        for module, prefix in (("one", "L"), ("two", "M")):
            declare(
                CountedModel,
                "Fan",
                __module__=module,
                pk=KeyAttribute("PG#{g}", hash_key=True, attr_name="PK"),
                sk=KeyAttribute(f"{prefix}#{{u}}", range_key=True, attr_name="SK"),
                up=CountedIn(page.n),
            )
        with pytest.raises(DeclarationError, match=r"several models of that name.*CountedSet\(\"one:Fan\""):
            _ = page.fans.relation

    def test_a_set_cannot_be_assigned(self) -> None:
        with pytest.raises(AttributeError, match=r"Post\.likes cannot be assigned"):
            Post(post_id="a").likes = []  # type: ignore[assignment]

    def test_a_child_is_given_its_parents_variables(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"Post\.likes: post_id='b' is not the parent's, which is 'a'"):
            Post.ref(post_id="a").likes.add(post_id="b", user_id="c")


def page_of_fans(name: str, prefix: str) -> Any:
    """A parent with a set of children of a model named Fan."""
    return declare(
        CountedModel,
        name,
        pk=KeyAttribute(f"{prefix}#{{g}}", hash_key=True, attr_name="PK"),
        sk=KeyAttribute("META", range_key=True, attr_name="SK"),
        n=CounterField(),
        fans=CountedSet("Fan", tally="n"),
    )


class TestReadyMade:
    @pytest.fixture
    def social(self, tables: Tables) -> Iterator[tuple[Any, Any]]:
        class Post(models.PostMeta):
            class Meta:
                table_name = "DeclarationsReady"

        class Like(models.Like):
            post = CountedIn(Post.like_tally)

            class Meta:
                table_name = "DeclarationsReady"

        tables(Post, Like)
        yield Post, Like

    def test_three_lines_each_are_enough(self, social: Any) -> None:
        post, like = social
        post(post_id="a91f", body="hi").save()
        assert post.ref(post_id="a91f").likes.add(user_id="7c20")
        like(post_id="a91f", user_id="other").save()
        assert post.get(post_id="a91f").like_tally == 2

    def test_the_items_are_the_articles(self, social: Any) -> None:
        post, like = social
        item = post(post_id="a91f", body="hi", author_id="u1").plan_save().request()["Item"]
        assert set(item) == {"PK", "SK", "likeTally", "body", "authorId", "createdAt"}
        assert (item["PK"], item["SK"]) == ({"S": "POST#a91f"}, {"S": "META"})
        put = like(post_id="a91f", user_id="7c20").plan_save().request()["TransactItems"][0]["Put"]
        assert set(put["Item"]) == {"PK", "SK", "likedAt"}
        assert put["Item"]["SK"] == {"S": "LIKE#USER#7c20"}

    def test_the_inherited_counter_speaks_of_the_subclass(self, social: Any) -> None:
        post, _ = social
        assert post.like_tally is not models.PostMeta.like_tally
        assert post.like_tally.owner is post
        assert post.like_tally.label == "Post.like_tally"
        assert post.likes.owner is post

    def test_two_subclasses_keep_their_children_apart(self, social: Any) -> None:
        post, like = social
        other: Any = declare(models.PostMeta, "Other", __module__="other")
        assert [relation.owner for relation in post.like_tally.counted_relations] == [like]
        assert other.like_tally.counted_relations == []

    def test_a_like_that_names_no_parent_is_told_what_to_write(self) -> None:
        with pytest.raises(DeclarationError, match=r"in MyLike write post = CountedIn\(<your model>\.like_tally\)"):
            declare(models.Like, "MyLike")

    def test_any_attribute_can_be_renamed(self, tables: Tables) -> None:
        class Post(models.PostMeta):
            class Meta:
                table_name = "DeclarationsRenamed"

            pk = KeyAttribute("P/{post_id}", hash_key=True, attr_name="p")
            sk = KeyAttribute("M", range_key=True, attr_name="s")
            like_tally = CounterField(attr_name="likes_count")
            created_at = NumberAttribute(attr_name="ts", default=1)

        class Like(models.Like):
            class Meta:
                table_name = "DeclarationsRenamed"

            pk = KeyAttribute("P/{post_id}", hash_key=True, attr_name="p")
            sk = KeyAttribute("L/{user_id}", range_key=True, attr_name="s")
            liked_at = NumberAttribute(attr_name="at", default=2)
            post = CountedIn(Post.like_tally)

        tables(Post, Like)
        Post(post_id="a").save()
        assert Post.ref(post_id="a").likes.add(user_id="b")
        item = Post._get_connection().get_item("P/a", "M")["Item"]
        assert item == {"p": {"S": "P/a"}, "s": {"S": "M"}, "likes_count": {"N": "1"}, "ts": {"N": "1"}}
        assert Post.ref(post_id="a").likes.recount() == 1

    def test_an_attribute_can_be_added(self) -> None:
        added: Any = declare(
            models.PostMeta, "Added", __module__="added", title=UnicodeAttribute(), version=VersionAttribute()
        )
        (write,) = added(post_id="a", title="t").plan_save().request()["TransactItems"]
        assert write["Put"]["Item"]["title"] == {"S": "t"}

    def test_a_model_without_a_table_says_so_when_it_is_used(self) -> None:
        for use in (models.PostMeta.ref, models.PostMeta(post_id="a").save):
            with pytest.raises(DeclarationError, match=r"PostMeta has no table; subclass it with class Meta"):
                use(post_id="a") if use == models.PostMeta.ref else use()


class TestSeveralLikes:
    def test_models_of_one_name_count_each_in_its_own_parent(self, tables: Tables) -> None:
        def declared(kind: str) -> tuple[Any, Any]:
            class Thing(CountedModel):
                class Meta:
                    table_name = "DeclarationsSeveral"

                pk = KeyAttribute(f"{kind}#{{thing_id}}", hash_key=True)
                sk = KeyAttribute("META", range_key=True)
                tally = CounterField()
                likes: CountedSet[Any] = CountedSet("Like", tally="tally")

            class Like(CountedModel):
                class Meta:
                    table_name = "DeclarationsSeveral"

                pk = KeyAttribute(f"{kind}#{{thing_id}}", hash_key=True)
                sk = KeyAttribute("LIKE#{user_id}", range_key=True)
                thing = CountedIn(Thing.tally)

            return Thing, Like

        (photo, _), (song, _) = declared("PHOTO"), declared("SONG")
        tables(photo, song)
        for thing in (photo, song):
            thing(thing_id="1").save()
        assert photo.ref(thing_id="1").likes.add(user_id="u")
        assert (photo.get(thing_id="1").tally, song.get(thing_id="1").tally) == (1, 0)
        assert photo.ref(thing_id="1").likes.recount() == 1

    def test_a_class_defined_again_takes_the_place_of_its_former_self(self) -> None:
        page = page_of_fans("Again", "AG")
        for prefix in "LM":
            last = declare(
                CountedModel,
                "Fan",
                pk=KeyAttribute("AG#{g}", hash_key=True, attr_name="PK"),
                sk=KeyAttribute(f"{prefix}#{{u}}", range_key=True, attr_name="SK"),
                up=CountedIn(page.n),
            )
        assert page.fans.relation.owner is last
        assert len(page.n.sources()) == 1


class TestSelfReference:
    class Comment(CountedModel):
        class Meta:
            table_name = "DeclarationsComments"

        class ByParent(GlobalSecondaryIndex[Any]):
            class Meta:
                index_name = "by-parent"
                projection = KeysOnlyProjection()

            parent_id = UnicodeAttribute(hash_key=True, attr_name="parentId")

        pk = KeyAttribute("COMMENT#{comment_id}", hash_key=True, attr_name="PK")
        parent_id = UnicodeAttribute(null=True, attr_name="parentId")
        by_parent = ByParent()
        reply_tally = CounterField(attr_name="replyTally", settle=0)
        replies: CountedSet[Any] = CountedSet("Comment", tally="reply_tally")
        parent = CountedIn(reply_tally, index="by-parent", comment_id="parent_id")

    def test_a_comment_counts_its_replies_and_counts_as_one(self, tables: Tables) -> None:
        comment = self.Comment
        tables(comment)
        comment(comment_id="1").save()
        assert comment.ref(comment_id="1").replies.add(comment_id="2")
        comment(comment_id="3", parent_id="2").save()
        assert [comment.get(comment_id=n).reply_tally for n in "123"] == [1, 1, 0]
        assert comment.ref(comment_id="1").replies.recount() == 1

    def test_a_root_counts_nowhere(self) -> None:
        assert len(self.Comment(comment_id="1").plan_save().writes) == 1

    def test_a_reply_to_itself_is_counted_once_and_can_be_deleted(self, tables: Tables) -> None:
        tables(self.Comment)
        self.Comment(comment_id="1", parent_id="1").save()
        comment = self.Comment.get("COMMENT#1")
        assert comment.reply_tally == 1
        comment.delete()
        assert self.Comment.count() == 0

    def test_an_unseeded_comment_is_seeded_from_its_index(self, tables: Tables) -> None:
        comment = self.Comment
        tables(comment)
        connection = comment._get_connection()
        connection.put_item("COMMENT#1")
        connection.put_item("COMMENT#2", attributes={"parentId": {"S": "1"}})
        assert comment.reply_tally.seed(comment.ref(comment_id="1")) == 1

    def test_a_subclass_counts_in_itself(self) -> None:
        answer: Any = declare(self.Comment, "Answer")
        assert answer.parent.counter is answer.reply_tally


class TestInheritance:
    class Base(CountedModel):
        class Meta:
            table_name = "DeclarationsHeirs"

        pk = KeyAttribute("B#{b}", hash_key=True)
        sk = KeyAttribute("META", range_key=True)
        tally = CounterField()
        fans: CountedSet[Any] = CountedSet("BaseFan", tally="tally")

    class Heir(Base):
        class Meta:
            table_name = "DeclarationsHeirs"

        title = UnicodeAttribute(null=True)

    class BaseFan(CountedModel):
        pk = KeyAttribute("B#{b}", hash_key=True)
        sk = KeyAttribute("FAN#{user}", range_key=True)

    class Fan(BaseFan):
        class Meta:
            table_name = "DeclarationsHeirs"

    @pytest.fixture
    def heirs(self, tables: Tables) -> tuple[Any, Any, Any]:
        class BaseFan(self.BaseFan):  # type: ignore[name-defined,misc]
            __module__ = "fans"  # another program's than Fan

            class Meta:
                table_name = "DeclarationsHeirs"

            up = CountedIn(self.Base.tally)

        tables(self.Base)
        return self.Base, self.Heir, BaseFan

    def test_an_heir_shares_the_children_of_its_base(self, heirs: Any) -> None:
        base, heir, _ = heirs
        heir(b="1", title="t").save()
        assert heir.ref(b="1").fans.add(user="u")
        assert heir.get(b="1").tally == base.get(b="1").tally == 1
        assert heir.ref(b="1").fans.recount() == 1

    def test_the_number_in_memory_follows_on_an_heir_too(self, heirs: Any) -> None:
        _, heir, _ = heirs
        heir(b="1").save()
        loaded = heir.get(b="1")
        loaded.fans.add(user="u")
        assert loaded.tally == 1

    def test_an_heir_of_a_child_counts_as_its_base_does_and_once(self, heirs: Any) -> None:
        base, _, fan = heirs

        class Superfan(fan):  # type: ignore[misc,valid-type]
            __module__ = "fans"

            class Meta:
                table_name = "DeclarationsHeirs"

            since = NumberAttribute(null=True)

        base(b="1").save()
        Superfan(b="1", user="u", since=3).save()
        fan(b="1", user="v").save()
        assert base.get(b="1").tally == base.ref(b="1").fans.recount() == 2


class TestOtherTables:
    """Hash-only tables, plain keys, and two tables."""

    class Shop(CountedModel):
        class Meta:
            table_name = "DeclarationsShops"

        shop = UnicodeAttribute(hash_key=True)
        orders = CounterField()
        big: CountedSet[Any] = CountedSet("Order", tally="orders")

    class Order(CountedModel):
        shop = UnicodeAttribute(hash_key=True)
        number = NumberAttribute(range_key=True)
        up: CountedIn

    @pytest.fixture
    def shops(self, tables: Tables) -> tuple[Any, Any]:
        class Order(self.Order):  # type: ignore[name-defined,misc]
            class Meta:
                table_name = "DeclarationsOrders"

            up = CountedIn(self.Shop.orders)

        tables(self.Shop, Order)
        return self.Shop, Order

    def test_plain_keys_count_across_tables(self, shops: Any) -> None:
        shop, order = shops
        shop("s1").save()
        assert shop.ref(shop="s1").big.add(number=1)
        order("s1", 2).save()
        assert not shop.ref("s1").big.add(number=2)
        assert shop.get("s1").orders == shop.ref("s1").big.recount() == 2
        assert [child.number for child in shop.ref("s1").big] == [1, 2]

    def test_the_guard_of_a_hash_only_parent_is_its_tally(self, shops: Any) -> None:
        _, order = shops
        put, update = order("s1", 1).plan_save().request()["TransactItems"]
        assert put["Put"]["ConditionExpression"] == "attribute_not_exists(#n0)"  # number is a reserved word
        assert update["Update"]["Key"] == {"shop": {"S": "s1"}}

    def test_an_unseeded_hash_only_parent_is_seeded(self, shops: Any) -> None:
        shop, order = shops
        shop._get_connection().put_item("s1")
        order._get_connection().put_item("s1", "7")
        assert shop.orders.seed(shop.ref(shop="s1")) == 1

    def test_a_hash_only_child_is_guarded_on_its_hash_key(self) -> None:
        vote: Any = declare(
            CountedModel,
            "Vote",
            pk=KeyAttribute("VOTE#{shop}#{user}", hash_key=True, attr_name="PK"),
            up=CountedIn(self.Shop.orders),
        )
        put, update = vote(shop="s1", user="u").plan_save().request()["TransactItems"]
        assert put["Put"]["ConditionExpression"] == "attribute_not_exists(PK)"
        assert update["Update"]["Key"] == {"shop": {"S": "s1"}}

    def test_the_parents_key_may_come_from_an_attribute_of_another_name(self) -> None:
        sale: Any = declare(
            CountedModel,
            "Sale",
            pk=KeyAttribute("SALE#{sale_id}", hash_key=True, attr_name="PK"),
            seller=UnicodeAttribute(null=True),
            up=CountedIn(self.Shop.orders, shop="seller"),
        )
        assert sale.up.parent_key(sale(sale_id="1", seller="s1")) == ItemKey(
            "DeclarationsShops", ("shop",), (("S", "s1"),)
        )
        assert sale.up.parent_key(sale(sale_id="1")) is None

    def test_a_child_that_names_no_parent_counts_nowhere(self) -> None:
        sale: Any = declare(
            CountedModel,
            "FreeSale",
            pk=KeyAttribute("SALE#{sale_id}", hash_key=True, attr_name="PK"),
            seller=UnicodeAttribute(null=True),
            up=CountedIn(self.Shop.orders, shop="seller"),
        )
        assert len(sale(sale_id="1").plan_save().writes) == 1

    def test_a_bad_value_where_the_parents_key_comes_from_is_refused(self) -> None:
        sale: Any = declare(
            CountedModel,
            "BadSale",
            pk=KeyAttribute("BADSALE#{sale_id}", hash_key=True, attr_name="PK"),
            seller=UnicodeAttribute(null=True),
            up=CountedIn(Post.like_tally, post_id="seller"),
        )
        with pytest.raises(KeyTemplateError, match=r"Post\.pk: .*contains '#'"):
            sale(sale_id="1", seller="a#b").save()

    def test_a_table_renamed_at_start_up_is_followed(self) -> None:
        late: Any = declare(CountedModel, "Late", pk=KeyAttribute("L#{n}", hash_key=True), tally=CounterField())
        assert late.ref(n="1")._item_key.table == "Declarations"
        late.Meta.table_name = "DeclarationsLate"
        assert late.ref(n="1")._item_key.table == "DeclarationsLate"


class TestNames:
    """A name that would hide a method of the model, or an id, is refused where it is declared."""

    def declare(self, **body: Any) -> Any:
        pk = KeyAttribute("NAMED#{post_id}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("META", range_key=True, attr_name="SK")
        return declare(CountedModel, "Named", **{"pk": pk, "sk": sk, **body})

    @pytest.mark.parametrize("name", ["save", "get", "ref", "delete", "serialize", "key_variables", "DoesNotExist"])
    def test_a_counter_may_not_hide_what_every_model_has(self, name: str) -> None:
        with pytest.raises(DeclarationError, match=rf"Named\.{name} would hide .*, such as {name}_tally"):
            self.declare(**{name: CounterField(attr_name="n")})

    def test_but_it_may_be_called_count(self) -> None:
        assert self.declare(count=CounterField()).count.label == "Named.count"

    def test_neither_may_a_set_nor_a_relation(self) -> None:
        with pytest.raises(DeclarationError, match=r"Named\.get would hide .*, such as get_items"):
            self.declare(n=CounterField(), get=CountedSet("Like", tally="n"))
        with pytest.raises(DeclarationError, match=r"Wrong\.save would hide"):
            declare(save=CountedIn(Post.like_tally))

    def test_a_counter_may_not_have_the_name_of_an_id(self) -> None:
        with pytest.raises(DeclarationError, match=r"Named\.post_id is a counter, and 'post_id' is also a variable"):
            self.declare(post_id=CounterField(attr_name="n"))

    def test_a_counter_may_take_the_place_of_a_base_models_counter(self) -> None:
        pk = KeyAttribute("NAMED2#{post_id}", hash_key=True, attr_name="PK")
        assert declare(models.PostMeta, "Sub", pk=pk, like_tally=CounterField(missing="zero"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: CountedSet(None, tally="n"), r"CountedSet\(None\) must be given the child's model or its name"),  # type: ignore[call-overload]
        (lambda: CountedSet("", tally="n"), r"CountedSet\(''\) must be given"),
        (lambda: CountedSet("Like", tally=None), r"CountedSet\(tally=None\) must be the name of a counter"),  # type: ignore[call-overload]
        (lambda: CountedIn(Post.like_tally, reads="body"), r"reads='body'\) must be a tuple of names"),  # type: ignore[arg-type]
        (lambda: CountedIn(Post.like_tally, reads=3), r"reads=3\) must be a tuple of names"),  # type: ignore[arg-type]
        (lambda: CounterField(3), r"CounterField\(3\): attr_name must be the name of an attribute"),  # type: ignore[arg-type]
        (lambda: CounterField(settle=float("inf")), r"settle=inf\) must be a number of seconds"),
        (lambda: KeyAttribute(None, hash_key=True), "key template None must be text"),  # type: ignore[arg-type]
        (lambda: KeyAttribute("A#{a}", hash_key=True, delimiter=3), "delimiter=3 must be text"),  # type: ignore[arg-type]
    ],
)
def test_what_is_given_in_place_of_a_name_is_refused_in_words(wrong: Callable[[], Any], said: str) -> None:
    with pytest.raises((DeclarationError, KeyTemplateError), match=said):
        wrong()


def test_an_unknown_variable_is_told_as_that_by_the_model_as_by_its_ref() -> None:
    with pytest.raises(KeyTemplateError, match="nope specified does not exist; its key variables are post_id"):
        Post(post_id="1", nope=1)
    with pytest.raises(KeyTemplateError, match="nope is no key variable"):
        Post.ref(post_id="1", nope=1)
