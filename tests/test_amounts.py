"""What a child may count for, and what is refused before anything is sent."""

from __future__ import annotations

import enum
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.amounts import amount, stored_amount
from pynacount.connections import connection_for
from pynacount.errors import CounterTypeError, PynacountError
from pynacount.testing import record_requests

Tables = Callable[..., None]


class Shop(CountedModel):
    class Meta:
        table_name = "Amounts"

    pk = KeyAttribute("SHOP#{shop_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    total = CounterField()
    sales: CountedSet[Any] = CountedSet("Sale", tally="total")


class Sale(CountedModel):
    class Meta:
        table_name = "Amounts"

    pk = KeyAttribute("SHOP#{shop_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SALE#{n:int}", range_key=True, attr_name="SK")
    price = NumberAttribute(null=True)
    shop = CountedIn(Shop.total, amount="price")


class Entry(CountedModel):
    """Its amount is whatever the test says."""

    class Meta:
        table_name = "Amounts"

    given: Any = None

    pk = KeyAttribute("SHOP#{shop_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("ENTRY#{n:int}", range_key=True, attr_name="SK")
    text = UnicodeAttribute(null=True)
    shop = CountedIn(Shop.total, amount=lambda entry: entry.given, reads=("text",))


def entry(value: Any) -> Any:
    one: Any = Entry(shop_id="1", n=1)
    one.given = value
    return one


BIG = 10**37

GOOD: list[tuple[Any, str]] = [
    (1, "1"),
    (-7, "-7"),
    (10**9, "1000000000"),
    (10**37 + 1, "1" + "0" * 36 + "1"),
    (10**40, "1" + "0" * 40),
    (0.1, "0.1"),
    (2.0, "2"),
    (-2.5, "-2.5"),
    (1e22, "1" + "0" * 22),
    (1e-7, "1E-7"),
    (Decimal("1.10"), "1.10"),
    (Decimal("1e3"), "1000"),
    (Decimal("5.000"), "5"),
    (Decimal("9" * 38), "9" * 38),
    (Decimal("0." + "1" * 38), "0." + "1" * 38),
    (Decimal("1e125"), "1E+125"),
    (Decimal("1e-130"), "1E-130"),
    (Decimal("-1e-130"), "-1E-130"),
]

BAD: list[Any] = [
    pytest.param(True, "True is a bool", id="True"),
    pytest.param(False, "False is a bool", id="False"),
    pytest.param(float("nan"), "nan", id="nan"),
    pytest.param(float("inf"), "inf", id="inf"),
    pytest.param(float("-inf"), "-inf", id="-inf"),
    pytest.param(Decimal("NaN"), "NaN", id="Decimal nan"),
    pytest.param(Decimal("sNaN"), "sNaN", id="Decimal snan"),
    pytest.param(Decimal("-Infinity"), "Infinity", id="Decimal inf"),
    pytest.param("5", "is a str", id="str"),
    pytest.param("", "is a str", id="empty str"),
    pytest.param(b"5", "is a bytes", id="bytes"),
    pytest.param([1], "is a list", id="list"),
    pytest.param(1 + 0j, "is a complex", id="complex"),
    pytest.param(Fraction(1, 2), "is a Fraction", id="Fraction"),
    pytest.param(object, "is a type", id="class"),
    pytest.param(10**38 + 1, "39 significant digits; DynamoDB keeps 38", id="39 digits"),
    pytest.param(-(10**38) - 1, "39 significant digits", id="39 digits below zero"),
    pytest.param(Decimal("1." + "0" * 37 + "1"), "39 significant digits", id="39 digits after the point"),
    pytest.param(Decimal("1e126"), "out of DynamoDB's range", id="too large"),
    pytest.param(1e200, "out of DynamoDB's range", id="float too large"),
    pytest.param(Decimal("1e-131"), "out of DynamoDB's range", id="too small"),
    pytest.param(5e-324, "out of DynamoDB's range", id="float too small"),
    pytest.param(10**126, "out of DynamoDB's range", id="int too large"),
]


class TestAmount:
    @pytest.mark.parametrize(("value", "text"), GOOD)
    def test_a_number_is_taken_as_it_is(self, value: Any, text: str) -> None:
        assert str(amount(value, "x")) == text

    @pytest.mark.parametrize(("value", "message"), BAD)
    def test_what_is_no_number_to_dynamodb_is_refused(self, value: Any, message: str) -> None:
        with pytest.raises(CounterTypeError, match=rf"Sale\.shop: the amount .*{message}"):
            amount(value, "Sale.shop")

    @pytest.mark.parametrize("value", [10**5000, Decimal("1." + "1" * 5000)], ids=["int", "Decimal"])
    def test_a_number_of_thousands_of_digits_is_refused_as_such(self, value: Any) -> None:
        with pytest.raises(CounterTypeError):
            amount(value, "x")

    @pytest.mark.parametrize("value", [0, 0.0, -0.0, Decimal(0), Decimal("-0.00"), Decimal("0e200"), Decimal("0e-200")])
    def test_every_zero_is_zero(self, value: Any) -> None:
        assert amount(value, "x") == 0

    def test_an_int_enum_counts_for_its_number(self) -> None:
        class Weight(enum.IntEnum):
            HEAVY = 5

        assert str(Decimal(amount(Weight.HEAVY, "x"))) == "5"

    @given(st.integers(-(10**38) + 1, 10**38 - 1))
    def test_every_int_of_38_digits_is_exact(self, value: int) -> None:
        assert amount(value, "x") == value
        assert stored_amount(str(amount(value, "x"))) == value

    @given(st.decimals(min_value=-(10**20), max_value=10**20, places=17))
    def test_every_decimal_of_38_digits_is_exact(self, value: Decimal) -> None:
        assert amount(value, "x") == value
        assert stored_amount(str(amount(value, "x"))) == value

    @given(st.floats(-1e15, 1e15).filter(lambda x: x == 0 or abs(x) > 1e-100))
    def test_a_float_is_its_shortest_decimal(self, value: float) -> None:
        assert float(amount(value, "x")) == value


class TestStoredAmount:
    @pytest.mark.parametrize(
        ("text", "value"), [("5", 5), ("-5", -5), ("5.0", 5), ("1E+3", 1000), ("2.5", Decimal("2.5")), ("0", 0)]
    )
    def test_a_whole_number_is_an_int(self, text: str, value: Any) -> None:
        assert stored_amount(text) == value
        assert type(stored_amount(text)) is type(value)


class TestCountingByAmount:
    @pytest.fixture
    def shop(self, tables: Tables) -> Any:
        tables(Shop)
        Shop(shop_id="1").save()
        return Shop.ref(shop_id="1")

    @pytest.mark.parametrize(("value", "message"), BAD)
    def test_a_bad_amount_is_refused_before_anything_is_sent(self, shop: Any, value: Any, message: str) -> None:
        with (
            record_requests(connection_for(Entry.Meta).client) as sent,
            pytest.raises(CounterTypeError, match=rf"Entry\.shop of .*{message}"),
        ):
            entry(value).save()
        assert sent == []

    @pytest.mark.parametrize("value", [True, float("nan"), float("inf"), 10**38 + 1, "5"])
    def test_a_bad_attribute_is_refused_before_anything_is_sent(self, shop: Any, value: Any) -> None:
        with record_requests(connection_for(Sale.Meta).client) as sent, pytest.raises(CounterTypeError):
            shop.sales.add(n=1, price=value)
        assert sent == []

    @pytest.mark.parametrize("value", [0, 0.0, Decimal(0), None])
    def test_an_amount_of_zero_writes_nothing_to_the_parent(self, shop: Any, value: Any) -> None:
        with record_requests(connection_for(Entry.Meta).client) as sent:
            entry(value).save()
        ((_, request),) = sent
        (write,) = request["TransactItems"]
        assert write["Put"]["Item"]["SK"] == {"S": "ENTRY#1"}
        assert Shop.total.value(shop) == 0

    def test_a_running_total_adds_and_takes_away(self, shop: Any) -> None:
        for n, price in enumerate([5, 2.5, -1, 0, None]):
            shop.sales.add(n=n, price=price)
        assert Shop.total.value(shop) == Decimal("6.5")
        shop.sales.discard(n=1)
        assert Shop.total.value(shop) == 4
        shop.sales.discard(n=2)
        assert Shop.total.value(shop) == 5

    def test_a_total_may_go_below_zero(self, shop: Any) -> None:
        shop.sales.add(n=1, price=-3)
        assert Shop.total.value(shop) == -3
        assert shop.sales.recount() == -3

    def test_tenths_add_up(self, shop: Any) -> None:
        for n in range(10):
            shop.sales.add(n=n, price=0.1)
        assert Shop.total.value(shop) == 1
        assert shop.sales.recount() == 1

    def test_an_edit_to_a_bad_amount_leaves_all_as_it_was(self, shop: Any) -> None:
        shop.sales.add(n=1, price=5)
        sale = Sale.get(shop_id="1", n=1)
        sale.price = float("nan")
        with pytest.raises(PynacountError):
            sale.save()
        assert Shop.total.value(shop) == 5
        assert Sale.get(shop_id="1", n=1).price == 5

    def test_an_edit_to_nothing_takes_it_out(self, shop: Any) -> None:
        shop.sales.add(n=1, price=5)
        sale = Sale.get(shop_id="1", n=1)
        sale.price = None
        sale.save()
        assert Shop.total.value(shop) == 0
        sale.price = 7
        sale.save()
        assert Shop.total.value(shop) == 7

    def test_a_price_stored_as_text_is_named(self, shop: Any) -> None:
        Sale._get_connection().put_item("SHOP#1", "SALE#1", attributes={"price": {"S": "5"}})
        with pytest.raises(CounterTypeError, match=r"SALE#1.*cannot be read"):
            shop.sales.recount()

    def test_large_totals_stay_exact(self, shop: Any) -> None:
        shop.sales.add(n=1, price=BIG)
        shop.sales.add(n=2, price=1)
        shop.sales.discard(n=1)
        assert Shop.total.value(shop) == 1
