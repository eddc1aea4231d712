"""Many visitors at once on the board's like button, while its workers are killed; and what became of their likes."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from social_board import Post

POSTS = 40


@dataclass
class Storm:
    """What was answered, and what each visitor was told last of each post."""

    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    again: int = 0
    killed: int = 0
    told: dict[tuple[str, str], bool] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Visitor:
    """One connection, one name."""

    def __init__(self, url: str, storm: Storm, seed: int) -> None:
        self.address = urlsplit(url).netloc
        self.storm, self.random = storm, random.Random(seed)
        self.connection: http.client.HTTPConnection | None = None
        self.cookies: dict[str, str] = {}
        page = ""
        while not page:
            _, page, _ = self.send("GET", "/group", {}, "text/html")
        self.name = re.search(r"You are ([\w-]+)", page)[1]  # type: ignore[index]
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page)
        self.form = {"csrfmiddlewaretoken": token[1]} if token else {}

    def send(self, method: str, path: str, form: dict[str, str], accept: str, key: str = "") -> tuple[int, str, str]:
        """Status, text and ``Retry-After``; status 0 where the connection broke."""
        headers = {"Accept": accept, "Cookie": "; ".join(f"{n}={v}" for n, v in self.cookies.items())}
        headers |= {"Idempotency-Key": key} if key else {}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            self.connection.request(method, path, urlencode(form) if form else None, headers)
            answer = self.connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            with self.storm.lock:
                self.storm.lost += 1
            time.sleep(0.05)
            return 0, "", ""
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer.status, text, answer.headers.get("Retry-After", "")

    def press(self, post: str) -> None:
        """Like, or take it back; until there is an answer, under one key."""
        liked = self.storm.told.get((self.name, post), False)
        form = {"do": "unlike" if liked else "like", **self.form}
        key = str(uuid.UUID(int=self.random.getrandbits(128)))
        for attempt in range(200):
            began = time.monotonic()
            status, text, after = self.send("POST", f"/posts/{post}/like", form, "application/json", key)
            with self.storm.lock:
                self.storm.statuses[status] += 1
                self.storm.again += attempt > 0
                self.storm.seconds.append(time.monotonic() - began)
            if status == 503:
                time.sleep(float(after) / 10)
            elif status:
                break
        if status != 200 or json.loads(text)["liked"] is liked:
            with self.storm.lock:
                self.storm.troubles.append(f"{status} {text[:300]}")
        else:
            self.storm.told[self.name, post] = not liked


def workers_of(master: int) -> list[int]:
    """The processes that gunicorn has now."""
    return [int(pid) for pid in Path(f"/proc/{master}/task/{master}/children").read_text().split()]


def storm(url: str, master: int, seconds: float, connections: int = 64, kill_every: float = 2.0) -> Storm:
    """So many visitors press for so long, while a worker is killed now and then."""
    found = Storm()
    until = time.monotonic() + seconds

    def visit(number: int) -> None:
        try:
            visitor = Visitor(url, found, number)
            while time.monotonic() < until:
                visitor.press(f"p{visitor.random.randrange(POSTS)}")
        except Exception as error:
            found.troubles.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    while kill_every and time.monotonic() < until:
        time.sleep(kill_every * random.uniform(0.5, 1.5))
        workers = workers_of(master)
        if workers:
            os.kill(random.choice(workers), random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            found.killed += 1
    for thread in threads:
        thread.join()
    return found


def board_posts() -> None:
    """The posts that are pressed on."""
    for number in range(POSTS):
        Post(post_id=f"p{number}", author_id="ada", body="hello").save()


def wrong(found: Storm) -> list[str]:
    """What is not as it was told; nothing, if all is well."""
    said = list(found.troubles)
    present = set()
    for number in range(POSTS):
        ref = Post.ref(post_id=f"p{number}")
        likes = {(like.user_id, like.post_id) for like in ref.likes}
        present |= likes
        tally = Post.like_tally.value(ref, consistent_read=True)
        if tally != len(likes):
            said.append(f"p{number}: tally {tally}, count {len(likes)}")
    accepted = {place for place, liked in found.told.items() if liked}
    said += [f"accepted and not there: {place}" for place in sorted(accepted - present)]
    said += [f"there and not accepted: {place}" for place in sorted(present - accepted)]
    return said


def told(found: Storm) -> str:
    """The storm in a line."""
    taken = sorted(found.seconds)
    statuses = ", ".join(f"{number:,} x {status or 'lost'}" for status, number in sorted(found.statuses.items()))
    return (
        f"{statuses}; {found.again:,} sent again, {found.killed} workers killed, "
        f"median {taken[len(taken) // 2] * 1000:.0f} ms, p99 {taken[len(taken) * 99 // 100] * 1000:.0f} ms"
    )
