"""Key templates: what is put in comes out again, and two ids never meet in one key."""

from __future__ import annotations

import enum
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedModel, KeyAttribute
from pynacount.errors import KeyTemplateError, PynacountError
from pynacount.keys import MAX_HASH_BYTES, MAX_RANGE_BYTES, ItemKey, KeyTemplate


class Place(CountedModel):
    """Both kinds of variables, in both keys."""

    class Meta:
        table_name = "KeysPlaces"

    pk = KeyAttribute("CITY#{city}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STREET#{street}#NR#{number:int}", range_key=True, attr_name="SK")


def render(text: str, **values: Any) -> str:
    return KeyTemplate.compile(text).render(values, "Place.pk")


def parse(text: str, key: str) -> dict[str, Any] | None:
    return KeyTemplate.compile(text).parse(key)


class TestBothWays:
    @pytest.mark.parametrize(
        ("text", "values", "key"),
        [
            ("POST#{post_id}", {"post_id": "a91f"}, "POST#a91f"),
            ("LIKE#USER#{user_id}", {"user_id": "7c20"}, "LIKE#USER#7c20"),
            ("META", {}, "META"),
            ("{a}", {"a": "x"}, "x"),
            ("{a}#{b}", {"a": "x", "b": "y"}, "x#y"),
            ("{a}#{b}#{a}", {"a": "x", "b": "y"}, "x#y#x"),
            ("V{n:int}", {"n": -12}, "V-12"),
            ("V{n:int}", {"n": 0}, "V0"),
            ("{n:int}-{m:int}", {"n": 5, "m": -3}, "5--3"),
            ("{year:int}-{month}", {"year": 2026, "month": "07"}, "2026-07"),
            ("{{{a}}}", {"a": "x"}, "{x}"),
            ("{a}x#{b}", {"a": "xx", "b": "y"}, "xxx#y"),
            ("{a}END", {"a": "END"}, "ENDEND"),
            ("Straße·{ort}", {"ort": "Köln"}, "Straße·Köln"),
            ("T#{a}", {"a": "line\nbreak"}, "T#line\nbreak"),
            ("T#{a}", {"a": "50%25"}, "T#50%25"),
            ("T#{a}", {"a": "^.*$[]"}, "T#^.*$[]"),
            ("T.{a}", {"a": "#"}, "T.#"),
        ],
    )
    def test_a_template_is_rendered_and_read_back(self, text: str, values: dict[str, Any], key: str) -> None:
        assert render(text, **values) == key
        assert parse(text, key) == values

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ("POST#{post_id}", "POST#"),
            ("POST#{post_id}", "POST#a#b"),
            ("POST#{post_id}", "post#a"),
            ("POST#{post_id}", "POST#a\n#"),
            ("POST#{post_id}", " POST#a"),
            ("POST.{post_id}", "POST#a"),
            ("META", "META#1"),
            ("META", "META\n"),
            ("{a}#{a}", "x#y"),
            ("LIKE#USER#{user_id}", "LIKE#7c20"),
        ],
    )
    def test_a_key_of_another_shape_is_not_read(self, text: str, key: str) -> None:
        assert parse(text, key) is None

    @pytest.mark.parametrize("raw", ["007", "-0", "+5", "00", "1_000", " 5", "5 ", "5\n", "٣", "²", "5.0", "1e3", "-"])
    def test_an_int_has_one_spelling(self, raw: str) -> None:
        assert parse("N#{n:int}", f"N#{raw}") is None

    def test_an_int_comes_back_as_an_int(self) -> None:
        assert parse("N#{n:int}", "N#-7") == {"n": -7}

    def test_digits_in_a_str_variable_stay_a_str(self) -> None:
        assert parse("N#{n}", "N#007") == {"n": "007"}

    def test_an_int_enum_is_keyed_by_its_number(self) -> None:
        class Level(int, enum.Enum):
            LOW = 1

        assert render("N#{n:int}", n=Level.LOW) == "N#1"


SHAPES = (
    "{a}#{b}",
    "A#{a}#B#{b}",
    "{a}|{b}",
    "{a}::{b}",
    "X{a}#{b}#{a}",
    "{a}x#x{b}",
    "%{a}%{b}%",
    "{a}/{b}.{c}",
    "{a}·{b}",
    "{a}{{{b}}}{c}",
    "{a}\ud7ff{b}-",
)
SHAPES_WITH_INTS = (
    "{a}#{n:int}",
    "{n:int}#{a}",
    "{n:int}-{m:int}",
    "{n:int}#{m:int}#{n:int}",
    "T{n:int}.{a}0",
    "{a}-{n:int}1",
)

NASTY = st.text(alphabet=st.sampled_from("#|:%/.·-x0123B{}\\"), min_size=1, max_size=5)
IDS = st.one_of(NASTY, st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=5))
INTS = st.one_of(st.integers(-20, 120), st.integers())


@st.composite
def values_for(draw: st.DrawFn, template: KeyTemplate) -> dict[str, Any]:
    return {v.name: draw(INTS if v.is_int else IDS) for v in template.variables}


@st.composite
def a_template_and_two_sets(draw: st.DrawFn, escape: bool) -> tuple[KeyTemplate, tuple[dict[str, Any], dict[str, Any]]]:
    shapes = [shape for shape in SHAPES + SHAPES_WITH_INTS if not escape or "%" not in shape]
    template = KeyTemplate.compile(draw(st.sampled_from(shapes)), escape=escape)
    return template, (draw(values_for(template)), draw(values_for(template)))


class TestBijection:
    @given(a_template_and_two_sets(escape=False))
    def test_what_renders_is_read_back_the_same_and_meets_no_other(self, drawn: Any) -> None:
        template, (one, other) = drawn
        keys = []
        for values in (one, other):
            try:
                keys.append(template.render(values, "Place.pk"))
            except KeyTemplateError:
                assume(False)
        assert [template.parse(key) for key in keys] == [one, other]
        assert (keys[0] == keys[1]) == (one == other)

    @given(a_template_and_two_sets(escape=True))
    def test_with_escape_every_id_renders_and_none_meet(self, drawn: Any) -> None:
        template, (one, other) = drawn
        keys = [template.render(values, "Place.pk") for values in (one, other)]
        assert [template.parse(key) for key in keys] == [one, other]
        assert (keys[0] == keys[1]) == (one == other)

    @settings(max_examples=500)
    @given(st.sampled_from(SHAPES + SHAPES_WITH_INTS), st.text(alphabet="#|:/.·-xX0123ABT{}", max_size=12))
    def test_a_key_that_is_read_renders_to_itself(self, shape: str, key: str) -> None:
        template = KeyTemplate.compile(shape)
        values = template.parse(key)
        if values is not None:
            assert template.render(values, "Place.pk") == key

    @given(st.text(alphabet="#%012345ABCDEFabcdef", max_size=8))
    def test_an_escaped_key_that_is_read_renders_to_itself(self, raw: str) -> None:
        template = KeyTemplate.compile("T#{a}", escape=True)
        values = template.parse(f"T#{raw}")
        if values is not None:
            assert template.render(values, "Place.pk") == f"T#{raw}"


class TestTemplates:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{}",
            "{0}",
            "{a b}",
            "{a-b}",
            "{a.b}",
            "{a[0]}",
            "{a!r}",
            "{a:str}",
            "{a:05d}",
            "{a:{b}}",
            "{a",
            "a}",
            "POST#{",
            "{a}{b}",
            "{a}x{b}",
            "{n:int}{m:int}",
            "{n:int}0{m:int}",
            "{a}#{a:int}",
        ],
    )
    def test_a_template_that_could_not_be_read_back_is_refused(self, text: str) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile(text)

    def test_a_separator_without_the_declared_delimiter_is_refused(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"nothing tells where {a} ends"):
            KeyTemplate.compile("{a}-{b}", delimiter="#")

    def test_a_declared_delimiter_is_the_only_one_refused(self) -> None:
        template = KeyTemplate.compile("A-B#{a}", delimiter="#")
        assert template.render({"a": "x-y"}, "Place.pk") == "A-B#x-y"
        with pytest.raises(KeyTemplateError):
            template.render({"a": "x#y"}, "Place.pk")

    @pytest.mark.parametrize("delimiter", ["x", "#x", "0", "é"])
    def test_a_letter_or_digit_cannot_be_a_delimiter(self, delimiter: str) -> None:
        with pytest.raises(KeyTemplateError, match="use punctuation"):
            KeyTemplate.compile("P#{a}#x0é{b}", delimiter=delimiter)

    @pytest.mark.parametrize("delimiter", ["0", "1-"])
    def test_a_digit_cannot_delimit_ints(self, delimiter: str) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile(f"{{n:int}}{delimiter[0]}{{m:int}}", delimiter=delimiter)

    def test_a_brace_between_letters_separates_only_where_it_delimits(self) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile("T#{x}a{{b{y}", delimiter="#")

    def test_a_template_must_be_able_to_go_over_the_wire(self) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile("T\ud800#{a}")

    def test_a_template_longer_than_a_key_is_refused(self) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile("x" * (MAX_HASH_BYTES + 1))


BAD_IDS = [
    pytest.param("", "empty", id="empty"),
    pytest.param(5, r"must be a str, not int; write {city:int}", id="int"),
    pytest.param(True, "must be a str, not bool", id="bool"),
    pytest.param(b"a91f", "must be a str, not bytes", id="bytes"),
    pytest.param(None, "must be a str, not NoneType", id="None"),
    pytest.param(1.5, "must be a str, not float", id="float"),
    pytest.param(["a"], "must be a str, not list", id="list"),
    pytest.param("a#b", "contains '#', the delimiter of 'CITY#{city}'", id="delimiter"),
    pytest.param("a\ud800", "lone surrogate", id="high surrogate"),
    pytest.param("\udfff", "lone surrogate", id="low surrogate"),
]


class TestBadIds:
    @pytest.mark.parametrize(("bad", "message"), BAD_IDS)
    def test_a_bad_id_is_refused_before_anything_is_sent(self, bad: Any, message: str) -> None:
        for make in (Place.ref, Place, Place.get):
            with pytest.raises(KeyTemplateError, match=message) as error:
                make(city=bad, street="Main", number=1)
            assert "Place.pk" in str(error.value)

    @pytest.mark.parametrize("bad", ["5", True, 5.0, None, b"5"])
    def test_an_int_variable_takes_nothing_but_ints(self, bad: Any) -> None:
        with pytest.raises(KeyTemplateError, match=r"number=.* must be an int"):
            Place.ref(city="Ulm", street="Main", number=bad)

    def test_a_missing_variable_is_named_with_those_that_were_given(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"Place\.sk.*needs number=.*city, street"):
            Place.ref(city="Ulm", street="Main")

    def test_a_variable_of_no_key_is_named(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"Place\.ref: country is no key variable"):
            Place.ref(city="Ulm", street="Main", number=1, country="DE")

    def test_a_key_and_a_variable_that_contradict_are_refused(self) -> None:
        with pytest.raises(KeyTemplateError, match="contradict"):
            Place("CITY#Ulm", "STREET#Main#NR#1", city="Bonn")

    def test_a_key_that_does_not_follow_its_template_is_refused(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"does not follow 'CITY#{city}'"):
            Place("TOWN#Ulm", "STREET#Main#NR#1")

    def test_the_error_is_a_value_error_too(self) -> None:
        with pytest.raises(ValueError):
            Place.ref(city="", street="Main", number=1)

    @pytest.mark.parametrize(("limit", "hash_key"), [(MAX_HASH_BYTES, True), (MAX_RANGE_BYTES, False)])
    @pytest.mark.parametrize("filling", ["x", "é", "€", "😀"])
    def test_a_key_may_have_as_many_bytes_as_dynamodb_takes(self, limit: int, hash_key: bool, filling: str) -> None:
        attribute = KeyAttribute("K#{a}", hash_key=hash_key, range_key=not hash_key)
        size = len(filling.encode())
        room = limit - len("K#")
        fits = filling * (room // size) + "y" * (room % size)
        assert len(attribute.template.render({"a": fits}, "Place.pk").encode()) == limit
        with pytest.raises(KeyTemplateError, match=f"{limit + 1} bytes long; DynamoDB takes {limit}"):
            attribute.template.render({"a": fits + "y"}, "Place.pk")

    def test_the_whole_key_counts_not_the_id_alone(self) -> None:
        with pytest.raises(KeyTemplateError, match=str(MAX_RANGE_BYTES)):
            Place.ref(city="Ulm", street="x" * (MAX_RANGE_BYTES - 5), number=1)

    def test_an_int_too_long_for_a_key_is_refused_as_such(self) -> None:
        with pytest.raises(PynacountError):
            Place.ref(city="Ulm", street="Main", number=10**5000)


class TestEscape:
    @pytest.mark.parametrize(
        ("value", "key"),
        [("a#b", "T#a%23b"), ("50%", "T#50%25"), ("%23", "T#%2523"), ("é", "T#é"), ("plain", "T#plain")],
    )
    def test_only_the_delimiter_and_the_percent_sign_are_encoded(self, value: str, key: str) -> None:
        template = KeyTemplate.compile("T#{a}", escape=True)
        assert template.render({"a": value}, "Place.pk") == key
        assert template.parse(key) == {"a": value}

    @pytest.mark.parametrize("key", ["T#%41", "T#%c3", "T#%2f", "T#a%2", "T#%", "T#%zz", "T#a%23b%2g"])
    def test_a_second_spelling_of_an_id_is_not_read(self, key: str) -> None:
        assert KeyTemplate.compile("T#{a}", escape=True).parse(key) is None

    def test_a_foreign_key_with_a_percent_sign_is_not_of_the_template(self) -> None:
        assert KeyTemplate.compile("T#{a}", escape=True).parse("T#%FF") is None

    @pytest.mark.parametrize("delimiter", ["·", "→", "😀"])
    def test_a_delimiter_beyond_ascii_is_encoded_too(self, delimiter: str) -> None:
        template = KeyTemplate.compile(f"T{delimiter}{{a}}", escape=True)
        value = f"x{delimiter}y"
        assert template.parse(template.render({"a": value}, "Place.pk")) == {"a": value}

    def test_a_percent_sign_cannot_be_a_delimiter_when_it_escapes(self) -> None:
        with pytest.raises(KeyTemplateError, match="escape=True"):
            KeyTemplate.compile("%{a}%{b}", escape=True)

    @pytest.mark.parametrize("bad", ["", 5, "a\ud800"])
    def test_what_no_encoding_can_mend_is_refused(self, bad: Any) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile("T#{a}", escape=True).render({"a": bad}, "Place.pk")

    def test_the_encoded_key_counts_against_the_limit(self) -> None:
        template = KeyTemplate.compile("T#{a}", escape=True)
        with pytest.raises(KeyTemplateError, match="bytes long"):
            template.render({"a": "#" * 700}, "Place.pk")

    def test_an_encoded_id_reaches_the_model_as_it_was(self) -> None:
        class Page(CountedModel):
            class Meta:
                table_name = "KeysPages"

            pk = KeyAttribute("PAGE#{url}", hash_key=True, escape=True)

        page = Page(url="/a#b%")
        assert page.pk == "PAGE#/a%23b%25"
        assert page.url == "/a#b%"  # type: ignore[attr-defined]
        assert Page("PAGE#/a%23b%25").url == "/a#b%"  # type: ignore[attr-defined]


class TestPrefix:
    @pytest.mark.parametrize(
        ("text", "values", "prefix", "whole"),
        [
            ("LIKE#USER#{user_id}", {}, "LIKE#USER#", False),
            ("{a}#L#{b}", {"a": "x"}, "x#L#", False),
            ("{a}#L#{b}", {"b": "x"}, "", False),
            ("{a}#L#{b}", {"a": "x", "b": "y"}, "x#L#y", True),
            ("META", {}, "META", True),
            ("N{n:int}#", {"n": -1}, "N-1#", True),
        ],
    )
    def test_the_prefix_ends_before_the_first_unknown_variable(
        self, text: str, values: dict[str, Any], prefix: str, whole: bool
    ) -> None:
        assert KeyTemplate.compile(text).prefix(values, "Place.pk") == (prefix, whole)

    def test_the_prefix_is_escaped_as_the_key_is(self) -> None:
        template = KeyTemplate.compile("{a}#{b}", escape=True)
        assert template.prefix({"a": "x#"}, "Place.pk") == ("x%23#", False)

    @pytest.mark.parametrize("bad", ["", "a#b", 5])
    def test_a_bad_id_is_no_prefix_either(self, bad: Any) -> None:
        with pytest.raises(KeyTemplateError):
            KeyTemplate.compile("{a}#{b}").prefix({"a": bad}, "Place.pk")


class TestPlainKeys:
    class Plain(CountedModel):
        class Meta:
            table_name = "KeysPlain"

        name = UnicodeAttribute(hash_key=True)
        nr = NumberAttribute(range_key=True)

    def test_a_plain_key_is_its_own_variable(self) -> None:
        assert self.Plain.ref(name="a", nr=5)._item_key == ItemKey(
            "KeysPlain", ("name", "nr"), (("S", "a"), ("N", "5"))
        )

    @pytest.mark.parametrize("bad", ["", 5, None, b"a", "\ud800", "é" * 1025])
    def test_a_bad_plain_key_is_refused(self, bad: Any) -> None:
        with pytest.raises(KeyTemplateError, match=re.escape("Plain.name")):
            self.Plain.ref(name=bad, nr=5)

    @pytest.mark.parametrize("bad", [True, None, "5", float("nan"), float("inf")])
    def test_a_number_key_takes_nothing_but_numbers(self, bad: Any) -> None:
        with pytest.raises(KeyTemplateError, match=re.escape("Plain.nr")):
            self.Plain.ref(name="a", nr=bad)

    def test_an_equal_number_is_the_same_key(self) -> None:
        assert self.Plain.ref(name="a", nr=5) == self.Plain.ref(name="a", nr=5.0)
