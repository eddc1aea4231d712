"""The example boards in a browser: counts are right on the page and in the table, whatever is done to the button."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

from browsing import as_phone, chromium, errors, prefers
from serving import BOARDS, board_site

SEATS = 3
SETTLES = 0.5
"""Seconds after which a page takes clicks on its like buttons, and a little more."""
DOUBLE_CLICK = 0.04
"""Seconds between two clicks of one."""


@pytest.fixture(scope="module", params=BOARDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with board_site(request.param, request, tmp_path_factory.mktemp(request.param) / "log") as url:
        yield url


class Visitor:
    """A person with a browser."""

    def __init__(self, browser: webdriver.Chrome, site: str) -> None:
        self.browser, self.site = browser, site

    def open(self, path: str = "/") -> None:
        self.browser.get(self.site + path)

    def find(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def wait(self, holds: Any) -> None:
        # Between two pages ChromeDriver has errors of its own for an element that is gone.
        waiting = WebDriverWait(self.browser, 15, 0.05, ignored_exceptions=[WebDriverException])
        waiting.until(lambda _: holds())

    def post(self, text: str) -> str:
        """Write a post; its id."""
        self.open()
        self.find("#body").send_keys(text)
        self.find("form[action='/posts'] button").click()
        self.wait(lambda: "/posts/" in self.browser.current_url)
        return self.browser.current_url.rpartition("/")[2]

    def on_feed(self, post: str) -> None:
        self.open("/")
        self.find(f"#post-{post}")

    def button(self, post: str) -> Any:
        return self.find(f"form[action='/posts/{post}/like'] button")

    def click(self, post: str) -> None:
        """As soon as the page takes it."""

        def taken() -> bool:
            with suppress(ElementClickInterceptedException):
                self.button(post).click()
                return True
            return False

        self.wait(taken)

    def press(self, post: str) -> None:
        before = self.shown(post)
        self.click(post)
        self.wait(lambda: self.settled(post) and self.shown(post) != before)

    def ready(self) -> bool:
        return bool(self.browser.execute_script("return document.readyState") == "complete")

    def submit(self, button: str) -> None:
        """Press it, and wait for the page that comes."""
        page = self.find("html")
        self.find(button).click()
        self.wait(lambda: staleness_of(page)(self.browser) and self.ready())

    def restored(self, selector: str) -> str:
        """What stands in a field."""
        return str(self.find(selector).get_attribute("value"))

    def cards(self, text: str) -> list[Any]:
        """The posts, or the comments, that have this in them."""
        return [
            card for card in self.browser.find_elements(By.CSS_SELECTOR, "article[aria-label]") if text in card.text
        ]

    def settled(self, post: str) -> bool:
        return self.ready() and not self.browser.find_elements(By.CSS_SELECTOR, "form[data-busy]")

    def shown(self, post: str) -> tuple[int, bool]:
        """How many likes the page shows, and whether it says that this visitor likes it."""
        button = self.button(post)
        count = button.find_element(By.CSS_SELECTOR, ".count").get_attribute("textContent")
        spoken = button.find_element(By.CSS_SELECTOR, ".spoken").get_attribute("textContent")
        assert spoken == f"{count} like{'' if count == '1' else 's'}"
        pressed = button.get_attribute("aria-pressed") == "true"
        assert button.get_attribute("value") == ("unlike" if pressed else "like")
        return int(count), pressed

    def in_table(self, post: str, counter: str = "likeTally") -> tuple[int, int]:
        """The tally and the count, as the table has them; the page stays as it is."""
        script = "const [url, done] = arguments; fetch(url).then((a) => a.text()).then(done, (e) => done(String(e)))"
        source = self.browser.execute_async_script(script, f"/tallies/{post}")
        found = re.search(rf'data-counter="{counter}">.*?<td>(\d+)</td>\s*<td>(\d+)</td>', source, re.S)
        assert found, source
        return int(found[1]), int(found[2])


class Browsers:
    """Browsers that are used again, as strangers: starting one takes a second or two."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._idle: dict[bool, list[webdriver.Chrome]] = {True: [], False: []}
        self._made = 0

    def take(self, *, scripts: bool) -> webdriver.Chrome:
        if self._idle[scripts]:
            return self._idle[scripts].pop()
        self._made += 1
        return self._stack.enter_context(chromium(self._folder / f"profile{self._made}", scripts=scripts))

    def give_back(self, browser: webdriver.Chrome, *, scripts: bool) -> None:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        for handle in browser.window_handles[1:]:
            browser.switch_to.window(handle)
            browser.close()
        browser.switch_to.window(browser.window_handles[0])
        browser.get("about:blank")
        self._idle[scripts].append(browser)


@pytest.fixture(scope="module")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    with ExitStack() as stack:
        yield Browsers(stack, tmp_path_factory.mktemp("browsers"))


@pytest.fixture
def visitors(site: str, browsers: Browsers) -> Iterator[Any]:
    """Makes visitors, each a stranger to the site."""
    made: list[tuple[Visitor, bool]] = []

    def visitor(*, scripts: bool = True) -> Visitor:
        one = Visitor(browsers.take(scripts=scripts), site)
        made.append((one, scripts))
        return one

    yield visitor
    complaints = [entry for one, _ in made for entry in errors(one.browser)]
    for one, scripts in made:
        browsers.give_back(one.browser, scripts=scripts)
    # A refusal is one, to a browser: a full group, a post that is not there. So is a connection that is not there.
    expected = re.compile(r"status of 40[0349]|INTERNET_DISCONNECTED")
    assert [entry for entry in complaints if not expected.search(entry["message"])] == []


@pytest.fixture
def ada(visitors: Any) -> Visitor:
    visitor: Visitor = visitors()
    return visitor


def test_a_like_and_an_unlike_without_a_reload(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    ada.browser.execute_script("window.same = true")
    ada.press(post)
    assert (ada.shown(post), ada.in_table(post)) == ((1, True), (1, 1))
    assert ada.find("#said").text == "Liked."
    ada.press(post)
    assert (ada.shown(post), ada.in_table(post)) == ((0, False), (0, 0))
    assert ada.browser.execute_script("return window.same") is True
    ada.open()
    assert ada.shown(post) == (0, False)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_double_click_is_one_like(visitors: Any, scripts: bool) -> None:
    writer = visitors()
    post = writer.post("hello")
    reader = visitors(scripts=scripts)
    reader.on_feed(post)
    double_click(reader, reader.button(post))
    reader.wait(lambda: writer.in_table(post) == (1, 1))
    reader.wait(lambda: reader.settled(post) and reader.shown(post) == (1, True))
    assert writer.in_table(post) == (1, 1)


def double_click(visitor: Visitor, button: Any) -> None:
    """Two clicks within 50 ms, as a mouse makes them."""
    time.sleep(SETTLES)
    visitor.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    box = visitor.browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", button)
    mouse = {"button": "left", "x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    for clicks in (1, 2):
        time.sleep(DOUBLE_CLICK * (clicks - 1))
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "clickCount": clicks, **mouse}
            visitor.browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def test_two_browsers_at_once(visitors: Any) -> None:
    ada, bob = visitors(), visitors()
    post = ada.post("hello")
    for round_ in range(3):
        for one in (ada, bob):
            one.on_feed(post)
        presses = [threading.Thread(target=one.click, args=[post]) for one in (ada, bob)]
        for press in presses:
            press.start()
        for press in presses:
            press.join()
        expected = 2 if round_ % 2 == 0 else 0
        ada.wait(lambda expected=expected: ada.in_table(post) == (expected, expected))
        for one in (ada, bob):
            one.wait(lambda one=one: one.settled(post))
            one.open()
            assert one.shown(post) == (expected, expected == 2)


def test_the_back_button_shows_what_is_and_pressing_again_counts_once(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    ada.press(post)
    ada.open("/group")
    ada.browser.back()
    ada.wait(lambda: ada.settled(post) and ada.shown(post) == (1, True))
    ada.browser.back()
    ada.browser.forward()
    ada.wait(lambda: ada.settled(post) and ada.shown(post) == (1, True))
    assert ada.in_table(post) == (1, 1)


def test_without_javascript_the_form_likes_and_unlikes_and_back_and_resubmit_count_once(visitors: Any) -> None:
    writer = visitors()
    post = writer.post("hello")
    reader = visitors(scripts=False)
    reader.on_feed(post)
    reader.click(post)
    reader.wait(lambda: reader.browser.current_url.endswith(f"#post-{post}"))
    assert (reader.shown(post), writer.in_table(post)) == ((1, True), (1, 1))
    reader.browser.refresh()
    assert (reader.shown(post), writer.in_table(post)) == ((1, True), (1, 1))
    reader.browser.back()
    reader.wait(lambda: reader.settled(post))
    assert reader.shown(post) == (1, True)
    reader.click(post)
    reader.wait(lambda: writer.in_table(post) == (0, 0))
    reader.wait(lambda: reader.settled(post) and reader.shown(post) == (0, False))


def test_a_button_that_shows_what_was_does_no_harm(visitors: Any) -> None:
    """Two windows of one visitor: the other one still says "like"."""
    ada = visitors()
    post = ada.post("hello")
    ada.on_feed(post)
    first = ada.browser.current_window_handle
    ada.browser.switch_to.new_window("tab")
    ada.on_feed(post)
    ada.press(post)
    ada.browser.switch_to.window(first)
    assert ada.shown(post) == (0, False)
    ada.press(post)
    assert (ada.shown(post), ada.in_table(post)) == ((1, True), (1, 1))


def test_a_like_whose_answer_is_lost_is_sent_again_and_counted_once(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    ada.browser.execute_script(
        """
        const real = window.fetch;
        window.keys = [];
        window.fetch = async (url, options) => {
            if (!options) return real(url);
            window.keys.push(options.headers["Idempotency-Key"]);
            const answer = await real(url, options);
            if (window.keys.length < 3) throw new TypeError("lost");
            return answer;
        };
        """
    )
    ada.press(post)
    keys = ada.browser.execute_script("return window.keys")
    assert len(keys) == 3 and len(set(keys)) == 1
    assert (ada.shown(post), ada.in_table(post)) == ((1, True), (1, 1))


def test_a_comment_that_is_sent_twice_is_one_comment(visitors: Any) -> None:
    writer = visitors()
    post = writer.post("hello")
    reader = visitors(scripts=False)
    reader.open(f"/posts/{post}")
    reader.find("#text").send_keys("nice <b>post</b>")
    double_click(reader, reader.find("form[action$='/comments'] button"))
    reader.wait(lambda: reader.browser.current_url.endswith("#comments"))
    reader.wait(lambda: reader.settled(post) and "nice <b>post</b>" in reader.find("main").text)
    assert writer.in_table(post, "commentTally") == (1, 1)


@pytest.mark.parametrize("scripts", [True, False])
def test_back_and_post_it_is_no_second_post(visitors: Any, scripts: bool) -> None:
    ada = visitors(scripts=scripts)
    body = f"rye bread {time.time_ns()}\non Tuesdays"
    post = ada.post(body)
    ada.browser.back()
    ada.wait(lambda: ada.ready() and ada.restored("#body") == body)
    ada.submit("form[action='/posts'] button")
    assert ada.find("h1").text == "You wrote that already"
    ada.open()
    assert [one.get_attribute("id") for one in ada.cards(body)] == [f"post-{post}"]


@pytest.mark.parametrize("scripts", [True, False])
def test_back_and_comment_is_no_second_comment_and_another_text_is_one(visitors: Any, scripts: bool) -> None:
    ada = visitors(scripts=scripts)
    post = ada.post("hello")
    ada.open(f"/posts/{post}")
    ada.find("#text").send_keys("hi")
    ada.submit("form[action$='/comments'] button")
    ada.browser.back()
    ada.wait(lambda: ada.ready() and ada.restored("#text") == "hi")
    ada.submit("form[action$='/comments'] button")
    assert ada.find("h1").text == "You wrote that already"
    ada.browser.back()
    ada.wait(lambda: ada.ready() and ada.restored("#text") == "hi")
    assert len(ada.cards("hi")) == 1
    ada.find("#text").send_keys(" there")
    ada.submit("form[action$='/comments'] button")
    assert [card.find_element(By.TAG_NAME, "p").text for card in ada.cards("hi")] == ["hi", "hi there"]


@pytest.mark.parametrize("scripts", [True, False])
def test_the_same_words_on_purpose_are_written_again_and_once(visitors: Any, scripts: bool) -> None:
    ada = visitors(scripts=scripts)
    post = ada.post("hello")
    for _ in range(2):
        ada.open(f"/posts/{post}")
        ada.find("#text").send_keys("hi")
        ada.submit("form[action$='/comments'] button")
    double_click(ada, ada.find("main form button"))
    ada.wait(lambda: ada.browser.current_url.endswith("#comments") and ada.ready() and len(ada.cards("hi")) == 2)
    ada.open(f"/posts/{post}")
    assert len(ada.cards("hi")) == 2


def test_a_group_never_has_more_than_its_seats(visitors: Any) -> None:
    people = [visitors(scripts=False) for _ in range(SEATS + 1)]
    for one in people:
        one.open("/group")
    joins = [threading.Thread(target=one.find("form[action='/group'] button").click) for one in people]
    for join in joins:
        join.start()
    for join in joins:
        join.join()
    refused = []
    for one in people:
        one.wait(lambda one=one: one.browser.execute_script("return document.readyState") == "complete")
        if one.browser.find_elements(By.CSS_SELECTOR, "[role=alert]"):
            refused.append(one)
    assert len(refused) == 1
    for one in people:
        one.open("/group")
        assert one.find("#taken").text == str(SEATS)
        if one not in refused:
            one.find("button[value=leave]").click()
            one.wait(lambda one=one: one.browser.find_elements(By.CSS_SELECTOR, "button[value=join]"))
            refused[0].open("/group")
            refused[0].find("button[value=join]").click()
            refused[0].wait(lambda: refused[0].browser.find_elements(By.CSS_SELECTOR, "button[value=leave]"))
            refused[0].find("button[value=leave]").click()
            refused[0].wait(lambda: refused[0].browser.find_elements(By.CSS_SELECTOR, "button[value=join]"))
            one.find("button[value=join]").click()
            one.wait(lambda one=one: one.browser.find_elements(By.CSS_SELECTOR, "button[value=leave]"))
    for one in people:
        one.open("/group")
        for leave in one.browser.find_elements(By.CSS_SELECTOR, "button[value=leave]"):
            leave.click()
            one.wait(lambda one=one: one.browser.find_elements(By.CSS_SELECTOR, "button[value=join]"))


# -- who reads it otherwise


def test_the_keyboard_does_all_and_shows_where_it_is(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    ada.browser.execute_script("document.body.focus()")
    for _ in range(60):
        ada.browser.switch_to.active_element.send_keys(Keys.TAB)
        if ada.browser.switch_to.active_element == ada.button(post):
            break
    assert ada.browser.switch_to.active_element == ada.button(post)
    assert ada.browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    ada.browser.switch_to.active_element.send_keys(Keys.SPACE)
    ada.wait(lambda: ada.settled(post) and ada.shown(post) == (1, True))
    assert ada.browser.switch_to.active_element == ada.button(post)  # it keeps its place


def test_what_is_on_a_page_has_a_name_and_contrast_and_room(ada: Visitor) -> None:
    post = ada.post("hello " + "x" * 300)
    as_phone(ada.browser)
    for scheme in ("light", "dark"):
        prefers(ada.browser, scheme)
        for path in ("/", f"/posts/{post}", f"/tallies/{post}", "/group", "/posts/nosuch"):
            ada.open(path)
            assert ada.browser.execute_script(NAMELESS) == []
            assert ada.browser.execute_script(FAINT) == []
            assert ada.browser.execute_script("return document.documentElement.scrollWidth") <= 390
            assert len(ada.browser.find_elements(By.TAG_NAME, "h1")) == 1


NAMELESS = """
    return [...document.querySelectorAll("a, button, textarea, input:not([type=hidden])")]
        .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length)))
        .map((e) => e.outerHTML);
"""
FAINT = """
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map((n) => n / 255)
            .map((n) => (n <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (e) => {
        for (; e; e = e.parentElement) {
            const colour = getComputedStyle(e).backgroundColor;
            if (!/, 0\\)$/.test(colour)) return colour;
        }
        return "rgb(255, 255, 255)";
    };
    return [...document.querySelectorAll("main *, header *")]
        .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) && e.offsetParent)
        .filter((e) => {
            const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05) < 4.5;
        })
        .map((e) => e.textContent.trim().slice(0, 40) + " " + getComputedStyle(e).color + " on " + ground(e));
"""


def seen_message(visitor: Visitor) -> str:
    """What the page says of the last press, if it says so where the visitor looks."""
    script = "const b = document.getElementById('said').getBoundingClientRect(); return [b.top, b.bottom, innerHeight]"
    top, bottom, height = visitor.browser.execute_script(script)
    return visitor.find("#said").text if 0 <= top < bottom <= height else ""


def test_without_a_connection_a_message_says_so_where_the_visitor_looks(ada: Visitor) -> None:
    posts = [ada.post(f"hello {number}") for number in range(12)]
    as_phone(ada.browser)
    ada.on_feed(posts[-1])
    ada.browser.execute_script("window.fetch = async () => { throw new TypeError('no connection') }")
    ada.click(posts[-1])
    ada.wait(lambda: "no connection" in seen_message(ada))
    ada.wait(lambda: ada.settled(posts[-1]))
    assert seen_message(ada) == "There is no connection. Try again."


def test_whose_cookies_are_gone_is_told_in_words(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    ada.browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    ada.click(post)
    ada.wait(lambda: ada.settled(post) and seen_message(ada))
    assert "JSON" not in seen_message(ada) and "token" not in seen_message(ada)


@pytest.mark.parametrize("path", ["/nowhere", "/posts/a%23b", "/posts/gone"])
def test_a_page_that_is_not_there_has_the_sites_header_and_no_word_of_its_code(ada: Visitor, path: str) -> None:
    ada.open(path)
    text = ada.find("body").text
    assert ada.find("header a") and "Resolver" not in text and "Error" not in text


def test_a_form_that_does_not_say_what_is_refused(ada: Visitor) -> None:
    post = ada.post("hello")
    ada.on_feed(post)
    for do in ("xx", ""):
        ada.on_feed(post)
        ada.browser.execute_script(
            "const f = document.querySelector(arguments[0]); f.querySelector('button').value = arguments[1]",
            f"form[action='/posts/{post}/like']",
            do,
        )
        ada.find(f"form[action='/posts/{post}/like'] button").click()
        ada.wait(lambda: ada.ready() and not ada.browser.find_elements(By.CSS_SELECTOR, "form[data-busy]"))
        assert ada.in_table(post) == (0, 0)


def test_a_long_name_does_not_widen_a_page(ada: Visitor) -> None:
    post = ada.post("x" * 300)
    as_phone(ada.browser)
    for path in ("/", f"/tallies/{post}"):
        ada.open(path)
        wide, window = ada.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
