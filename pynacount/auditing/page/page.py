"""The page: what it takes in, and how it is put together."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from string import Template

from pynacount.auditing.page.census import Census
from pynacount.auditing.page.chart import chart
from pynacount.auditing.page.distribution import Distribution
from pynacount.auditing.page.headline import headline
from pynacount.auditing.page.kept import Kept
from pynacount.auditing.page.states import states
from pynacount.auditing.page.table import table
from pynacount.auditing.page.texts import lines, text
from pynacount.auditing.page.worst import worst
from pynacount.tallies.results import Audited


class Page:
    """Takes the results of an audit one by one, in constant memory, and makes one HTML file of them.

    It counts all of them, and keeps the ``most_rows`` that drifted most and the first ``most_rows`` others that need
    attention; the page says how many it left out.
    """

    def __init__(self, title: str, most_rows: int = 1000) -> None:
        """``title`` is the title of the document, and stands above the headline."""
        self._title = title
        self._census = Census()
        self._distribution = Distribution()
        self._kept = Kept(most_rows)

    def take(self, found: Audited) -> None:
        """Take in one result."""
        self._census.take(found)
        self._kept.take(found)
        # In other states the two were not told beside each other: one is missing, or was of another time.
        if found.state in ("ok", "drifted") and (drift := found.drift) is not None:
            self._distribution.take(drift)

    def html(self, facts: Mapping[str, str], *, stopped: bool = False) -> str:
        """The page so far; it loads nothing from anywhere. ``facts`` stand in its head: labels, and some lines each.

        ``stopped``: the audit did not come to its end, so that its headline must not be taken for a proof.
        """
        style, script = _file("audit.css"), _file("audit.js")
        top = headline(self._census, stopped=stopped)
        drifted = self._kept.worst()
        return Template(_file("audit.html")).substitute(
            policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            f"base-uri 'none'; form-action 'none'",
            style=style,
            script=script,
            title=text(self._title),
            mood=top.mood,
            headline=text(top.text),
            more=text(top.more),
            facts="\n".join(f"<div><dt>{text(name)}</dt><dd>{lines(fact)}</dd></div>" for name, fact in facts.items()),
            states=states(self._census),
            chart=chart(self._distribution),
            worst=worst(drifted),
            rows=table(drifted, self._kept.others(), self._census),
        )


def _file(name: str) -> str:
    return resources.files("pynacount.data").joinpath(name).read_text("utf-8")


def _hash(source: str) -> str:
    """What a policy calls this very text by: no other style or script is let in, also none that a key smuggled in."""
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
