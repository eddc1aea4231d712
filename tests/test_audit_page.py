"""The page of an audit: what it counts and keeps, that nothing in it is markup of a user's, and how it behaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browsing import chromium, errors
from pynacount.amounts import Amount
from pynacount.auditing.page import Page
from pynacount.auditing.page.distribution import Distribution
from pynacount.auditing.page.kept import Kept
from pynacount.keys import ItemKey
from pynacount.tallies.results import Audited, AuditState

SCRIPT = "<script>alert(1)</script>"


def key(post: str) -> ItemKey:
    return ItemKey("Social", ("PK", "SK"), (("S", f"POST#{post}"), ("S", "META")))


def ok(post: str = "a") -> Audited:
    return Audited("Post.like_tally", key(post), "ok", 3, 3)


def drifted(post: str, tally: Amount, count: Amount = 0, message: str = "") -> Audited:
    return Audited("Post.like_tally", key(post), "drifted", tally, count, message, wrong=True)


def other(post: str, state: AuditState = "orphaned", *, wrong: bool = True) -> Audited:
    return Audited("Post.like_tally", key(post), state, None, 2, "children without a parent", wrong)


def page(*found: Audited, most_rows: int = 1000, title: str = "Audit", **facts: str) -> str:
    made = Page(title, most_rows)
    for one in found:
        made.take(one)
    return made.html(facts)


class Reading(HTMLParser):
    """The texts of a page, and its elements with their attributes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(source)
        self.text = " ".join("".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def body(source: str) -> str:
    """What is read on the page, as one line."""
    return Reading(source[source.index("<body>") : source.index("<script>")]).text


# -- what it comes to


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param([], "Nothing was audited", id="nothing"),
        pytest.param([ok(), ok()], "No drift 2 of 2 tallies ok. Every tally equals its count.", id="clean"),
        pytest.param([ok(), other("b", "unseeded", wrong=False)], "need no attention: 1 unseeded.", id="unseeded"),
        pytest.param([ok(), other("b")], "No drift, but 1 tally needs attention 1 orphaned, of 2.", id="others"),
        pytest.param([ok(), drifted("b", 1)], "1 of 2 tallies has drifted Nothing else", id="one"),
        pytest.param([drifted("a", 1), drifted("b", 1), other("c")], "2 of 3 tallies have drifted Also: 1", id="both"),
    ],
)
def test_the_headline_says_what_the_audit_comes_to(found: list[Audited], said: str) -> None:
    assert said in body(page(*found))


@pytest.mark.parametrize("found", [[], [ok()], [ok(), other("b")], [drifted("a", 1)]])
def test_an_audit_that_was_stopped_is_headed_so_whatever_it_found(found: list[Audited]) -> None:
    made = Page("Audit")
    for one in found:
        made.take(one)
    said = re.findall("<h1[^>]*>.*?</svg>(.*)</h1>", made.html({}, stopped=True), re.DOTALL)
    assert said[0].startswith("Stopped before its end")


def test_a_clean_page_shows_neither_a_chart_nor_rows() -> None:
    assert re.findall("<h2[^>]*>(.*)</h2>", page(ok())) == ["States"]


def test_orphans_that_were_left_on_purpose_are_counted_and_not_listed() -> None:
    said = body(page(ok(), other("left", wrong=False)))
    assert "need no attention: 1 orphaned" in said
    assert "POST#left" not in said


def test_the_ten_furthest_off_are_told_by_magnitude() -> None:
    made = page(*(drifted(f"p{size}", size if size % 2 else -size) for size in range(1, 13)))
    listed = re.findall(r'<li><span class="drift \w+">(.*?)</span>', made)
    assert listed == ["-12", "+11", "-10", "+9", "-8", "+7", "-6", "+5", "-4", "+3"]


def test_the_facts_stand_in_the_head_in_order_and_in_their_lines() -> None:
    made = page(Table="Social", Counters="likes\ncomments")
    assert re.findall("<dt>(.*)</dt>", made) == ["Table", "Counters"]
    assert "<dd>likes\ncomments</dd>" in made


# -- the distribution


@pytest.mark.parametrize(
    ("sizes", "place"),
    [((1,), 0), ((2, 9), 1), ((10, 99), 2), ((100, 999), 3), ((1000, 10**37), 4)],
    ids=["1", "2 to 9", "10 to 99", "100 to 999", "1000 and more"],
)
def test_a_bin_holds_both_its_edges_on_either_side(sizes: tuple[int, ...], place: int) -> None:
    expected = [len(sizes) if each == place else 0 for each in range(5)]
    distribution = Distribution()
    for size in sizes:
        distribution.take(size)
    assert (distribution.low, distribution.high, distribution.none) == ([0] * 5, expected, 0)
    for size in sizes:
        distribution.take(-size)
    assert (distribution.low, distribution.high, distribution.none) == (expected, expected, 0)


def test_no_drift_is_counted_apart_and_told_in_words() -> None:
    made = page(ok(), ok(), drifted("a", -1))
    assert "2 tallies without drift, not drawn." in body(made)
    assert made.count("<rect") == 1


@pytest.mark.parametrize(("drift", "place"), [("0.5", 0), ("1.999", 0), ("9.5", 1), ("999." + "9" * 35, 3)])
def test_a_decimal_between_two_bins_is_in_the_lower_one_and_the_labels_say_so(drift: str, place: int) -> None:
    distribution = Distribution()
    distribution.take(Decimal(drift).copy_negate())
    assert distribution.low.index(1) == place
    assert distribution.labels[:2] == ("under 2", "2 to under 10")


def test_only_tallies_that_were_told_beside_their_count_are_in_the_distribution() -> None:
    was = Audited("Post.like_tally", key("r"), "repairing", 700, 2, wrong=True)
    moving = Audited("Post.like_tally", key("m"), "moving", 5, 2, wrong=True)
    assert "Distribution" not in body(page(was, moving))


# -- what is kept


def test_of_a_hundred_thousand_rows_it_keeps_the_most_it_may_and_counts_all() -> None:
    made = Page("Audit", most_rows=50)
    for number in range(100_000):
        made.take(drifted(f"d{number}", (number * 7919) % 100_003 + 1) if number % 2 else other(f"o{number}"))
    kept = made._kept
    assert (len(kept.worst()), len(kept.others()), len(kept._worst), len(kept._others)) == (50, 50, 50, 50)
    source = made.html({})
    assert len(re.findall("<tr><td class=.counter", source)) == 100
    assert "50,000 of 100,000 tallies have drifted" in body(source)
    assert (
        "Rows were left out to keep this page small. It lists the 50 furthest off of 50,000 that drifted and the "
        "first 50 of 50,000 in other states." in body(source)
    )


def test_the_worst_are_kept_however_they_come_and_the_first_of_equals() -> None:
    kept = Kept(3)
    for post, drift in (("a", 1), ("b", -5), ("c", 2), ("d", 5), ("e", -2), ("f", 2)):
        kept.take(drifted(post, drift))
    assert [str(found.key) for found in kept.worst()] == [str(key(post)) for post in "bdc"]


def test_nothing_is_said_of_rows_left_out_where_none_were() -> None:
    assert "left out" not in body(page(drifted("a", 1), drifted("b", 2), other("c"), most_rows=2))


def test_a_page_without_rows_still_says_that_there_were_some() -> None:
    assert "It lists the 0 furthest off of 1 that drifted." in body(page(drifted("a", 1), most_rows=0))


# -- numbers


def ranks(source: str, column: int) -> list[str]:
    rows = re.findall('data-rank="([^"]*)"', source)
    return rows[column::3]


def test_numbers_that_differ_in_their_38th_digit_alone_have_different_ranks() -> None:
    big = 10**37
    made = page(drifted("a", big + 2, 1), drifted("b", big + 1, 1), drifted("c", Decimal(big) + 0, 1))
    assert ranks(made, 0) == ["2", "1", "0"]


def test_decimals_and_ints_are_ranked_and_kept_together_with_all_their_digits() -> None:
    exact = Decimal("0.12345678901234567890123456789012345678")
    made = page(drifted("a", exact), drifted("b", exact.copy_negate()), drifted("c", 0, 1), other("d"))
    assert ranks(made, 2) == ["0", "2", "1", ""]  # c, a, b: the worst first
    assert "+0.12345678901234567890123456789012345678" in body(made)


def test_a_drift_that_dynamodb_could_not_hold_is_told_all_the_same() -> None:
    found = drifted("a", Decimal("1E+100"), Decimal("0.5"))
    assert found.drift == Decimal("9" * 100 + ".5")
    assert "1 of 1 tally has drifted" in body(page(found))


# -- what comes from a user


def test_nothing_from_a_user_is_markup() -> None:
    found = Audited(f"{SCRIPT}.tally", key(SCRIPT), "drifted", 1, 2, f'"{SCRIPT}', wrong=True)
    made = page(found, title=f"</title>{SCRIPT}", **{SCRIPT: f"{SCRIPT}\n</dl>"})
    tags = [tag for tag, _ in Reading(made).elements]
    assert tags.count("script") == tags.count("title") == tags.count("dl") == 1
    assert SCRIPT not in made
    assert f"PK='POST#{SCRIPT}' SK='META'" in body(made)
    assert body(made).count(f'"{SCRIPT}') == 1


def test_a_dollar_in_a_text_stays_what_it_is() -> None:
    assert "$title ${script} $$" in body(page(Read="$title ${script} $$"))


def test_what_turns_a_line_around_or_is_no_text_is_spelled_out() -> None:
    made = page(drifted("a\u202eb", 1, message="x\ud800\x00y"), title="\u2066t")
    assert made.encode("utf-8")
    assert "POST#a\\u202eb" in body(made)
    assert "x\\ud800\\x00y" in body(made)
    assert "\\u2066t" in body(made)


def test_the_page_loads_nothing_and_its_policy_lets_in_its_own_style_and_script_alone() -> None:
    made = Reading(page(drifted("a", 1)))
    (policy,) = [found["content"] for _, found in made.elements if found.get("http-equiv")]
    assert policy is not None
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == ["'none'"]
    assert set(rules) == {"style-src", "script-src"}
    assert all(len(sources) == 1 and sources[0].startswith("'sha256-") for sources in rules.values())
    loading = {"src", "href", "srcset", "action", "data", "poster", "style"}
    assert [found for _, found in made.elements if loading & set(found)] == []


# -- in a browser


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path / "profile") as driver:
        yield driver


def opened(browser: webdriver.Chrome, source: str, folder: Path) -> None:
    file = folder / "audit.html"
    file.write_text(source, "utf-8")
    browser.get(file.as_uri())


def head(browser: webdriver.Chrome, name: str) -> Any:
    return browser.find_element(By.XPATH, f"//table[@id='rows']//th[button[text()='{name}']]")


def column(browser: webdriver.Chrome, place: int) -> list[str]:
    """The texts of one column, of the rows that are shown."""
    script = """
        return [...document.querySelectorAll("#rows tbody tr")].filter((row) => row.offsetParent !== null)
            .map((row) => row.cells[arguments[0]].textContent)
    """
    return browser.execute_script(script, place)


COUNTER, KEY, STATE, TALLY, COUNT, DRIFT = range(6)


@pytest.fixture
def audit(browser: webdriver.Chrome, tmp_path: Path) -> webdriver.Chrome:
    """A page of two hundred drifted tallies and some in other states, in the browser."""
    rows = [drifted(f"p{place}", 5000 + (place * 37 % 401 - 200 or 999), 5000) for place in range(198)]
    rows += [drifted("big1", 10**37 + 1), drifted("big0", 10**37)]
    rows += [other("gone"), other("half", "closed"), drifted(SCRIPT, 7, message=SCRIPT), ok()]
    opened(browser, page(*rows, Table="Social", Audited="2026-12-01 10:00 UTC"), tmp_path)
    return browser


def test_a_click_on_a_head_sorts_up_and_another_one_down(audit: webdriver.Chrome, tmp_path: Path) -> None:
    def click() -> tuple[str | None, list[int], list[str]]:
        head(audit, "Drift").find_element(By.TAG_NAME, "button").click()
        texts = column(audit, DRIFT)
        return head(audit, "Drift").get_attribute("aria-sort"), [int(t.replace(",", "")) for t in texts[:201]], texts

    assert head(audit, "Drift").get_attribute("aria-sort") is None
    direction, up, texts = click()
    assert direction == "ascending"
    assert up == sorted(up)
    assert up[-2:] == [10**37, 10**37 + 1]
    assert texts[201:] == ["–", "–"]  # noqa: RUF001 -- what has no drift comes last, both ways
    direction, down, texts = click()
    assert direction == "descending"
    assert down == up[::-1]
    assert texts[201:] == ["–", "–"]  # noqa: RUF001
    assert audit.save_screenshot(str(tmp_path / "audit.png"))
    assert (tmp_path / "audit.png").stat().st_size > 10_000
    assert errors(audit) == []


def test_one_head_at_a_time_is_sorted_by_and_the_keyboard_does_it(audit: webdriver.Chrome) -> None:
    for name in ("Drift", "State"):
        head(audit, name).find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head(audit, "State").get_attribute("aria-sort") == "ascending"
    assert head(audit, "Drift").get_attribute("aria-sort") is None
    states = column(audit, STATE)
    assert states == ["closed", *["drifted"] * 201, "orphaned"]
    head(audit, "Key").find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    numbers = [int(found[1]) for text in column(audit, KEY) if (found := re.match(r"PK='POST#p(\d+)'", text))]
    assert all(one < following for one, following in pairwise(numbers))
    assert errors(audit) == []


def test_the_filter_shows_the_rows_with_all_its_words_and_says_how_many(audit: webdriver.Chrome) -> None:
    box = audit.find_element(By.ID, "filter")
    shown = audit.find_element(By.ID, "shown")
    assert shown.text == "203 rows"
    box.send_keys("ORPHANED gone")
    assert column(audit, STATE) == ["orphaned"]
    assert shown.text == "1 of 203 rows"
    box.clear()
    box.send_keys(str(10**37 + 1))  # as typed, without the commas
    assert column(audit, DRIFT) == [f"+{10**37 + 1:,}"]
    box.clear()
    box.send_keys("no such row")
    assert column(audit, KEY) == []
    assert audit.find_element(By.ID, "nothing").is_displayed()
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    assert len(column(audit, KEY)) == 203
    assert errors(audit) == []


def test_a_browser_takes_the_page_without_a_complaint_or_a_request(audit: webdriver.Chrome) -> None:
    assert errors(audit) == []
    assert audit.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert audit.execute_script("return document.scripts.length") == 1
    assert audit.execute_script("return getComputedStyle(document.querySelector('.card')).borderRadius") == "8px"


def test_a_script_that_got_into_the_page_would_not_run(browser: webdriver.Chrome, tmp_path: Path) -> None:
    smuggled = page(ok()).replace("<main>", "<main><script>document.title = 'taken'</script>")
    assert "taken" in smuggled
    opened(browser, smuggled, tmp_path)
    assert browser.title == "Audit"
    assert len(errors(browser)) == 1


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_the_page_is_never_wider_than_the_window(audit: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    audit.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert audit.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_light_or_dark_as_the_reader_prefers(audit: webdriver.Chrome, scheme: str) -> None:
    preferred = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    audit.execute_cdp_cmd("Emulation.setEmulatedMedia", preferred)
    colour = audit.execute_script("return getComputedStyle(document.body).backgroundColor")
    levels = [int(level) for level in re.findall(r"\d+", colour)]
    assert min(levels) > 200 if scheme == "light" else max(levels) < 60
