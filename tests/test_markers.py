"""No id of a model that is keyed by plain attributes reaches the marker of a ``once=`` token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pynamodb.attributes import UnicodeAttribute

import files
from files import batch
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.connections import connection_for
from pynacount.errors import KeyTemplateError
from pynacount.streams import StreamTally
from pynacount.testing import record_requests


class Coupon(CountedModel):
    class Meta:
        table_name = "Coupons"

    code = UnicodeAttribute(hash_key=True)
    note = UnicodeAttribute(null=True)
    used = CounterField()


class Seat(CountedModel):
    """Both keys are plain."""

    class Meta:
        table_name = "Seats"

    hall = UnicodeAttribute(hash_key=True)
    seat = UnicodeAttribute(range_key=True)
    taken = CounterField()


class Sale(CountedModel):
    """Another model of the coupons' table, with markers of its own."""

    class Meta:
        table_name = "Coupons"

    pk = KeyAttribute("SALE#{sale_id}", hash_key=True, attr_name="code")
    sold = CounterField(once_key="TOKEN#{once}#{sale_id}")


class Named(CountedModel):
    """Kept from a stream, by markers that lie among its items."""

    class Meta:
        table_name = "Named"

    name = UnicodeAttribute(hash_key=True)
    uploads = CounterField(missing="zero")


class NamedUpload(CountedModel):
    class Meta:
        table_name = "NamedUploads"

    upload_id = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(null=True)
    named = CountedIn(Named.uploads, by="stream")


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(Coupon, Seat, Named, NamedUpload)


def test_an_id_that_is_a_marker_s_key_is_refused_before_anything_is_sent() -> None:
    taken = "ONCE#o2#A#used"
    said = r"Coupon: the key code='ONCE#o2#A#used' is kept for a marker of Coupon\.used.*once_key="
    calls: list[Callable[[], Any]] = [
        lambda: Coupon.used.increment(Coupon.ref(code=taken)),
        lambda: Coupon(code=taken).save(),
        lambda: Coupon.used.increment_many([Coupon(code=taken)]),
        lambda: Coupon.used.compare_and_set(Coupon(code=taken), None, 1),
    ]
    with record_requests(connection_for(Coupon.Meta).client) as sent:
        for call in calls:
            with pytest.raises(KeyTemplateError, match=said):
                call()
    assert sent == []
    assert Coupon.used.increment(Coupon.ref(code="A"), once="o2") == 1
    assert Coupon.used.increment(Coupon.ref(code="A"), once="o2") == 1


@pytest.mark.parametrize("code", ["ONCE", "ONCE#", "ONCE#a", "ONCE#a#b", "once#a#b#used", "A#used", "ONCE#a#b#usedx"])
def test_an_id_that_can_be_no_marker_is_an_id(code: str) -> None:
    assert Coupon.used.increment(Coupon.ref(code=code)) == 1


def test_the_markers_of_every_model_of_the_table_are_kept_free() -> None:
    with pytest.raises(KeyTemplateError, match=r"a marker of Sale\.sold"):
        Coupon.ref(code="TOKEN#t#s")


def test_of_two_plain_keys_both_must_be_a_marker_s() -> None:
    assert Seat.taken.increment(Seat.ref(hall="ONCE#t", seat="1")) == 1
    with pytest.raises(KeyTemplateError, match=r"a marker of Seat\.taken"):
        Seat.ref(hall="ONCE#t", seat="h#s#taken")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=st.text(min_size=1, max_size=8), code=st.text(min_size=1, max_size=8))
def test_no_token_s_marker_is_at_an_id(token: str, code: str) -> None:
    try:
        marker = Coupon.used.markers.marker(token, {"code": code})
    except KeyTemplateError:
        return
    with pytest.raises(KeyTemplateError, match="is kept for a marker"):
        Coupon.ref(code=marker.key.values[0][1])


def test_a_marker_is_no_parent_of_a_stream_s_counter() -> None:
    stream = files.Source("NamedUploads", "upload_id")
    StreamTally(NamedUpload).handle(batch(stream.put(upload_id="1", name="a"), stream.put(upload_id="2", name="b")))
    items = connection_for(Named.Meta).client.scan(TableName="Named")["Items"]
    assert len(items) == 4  # two counters, two markers
    found = []
    for item in items:
        try:
            found.append(Named._counting.schema.read(item["name"]["S"], None))
        except KeyTemplateError:
            assert item["name"]["S"].startswith("ONCE#stream-")
    assert sorted(one["name"] for one in found) == ["a", "b"]
