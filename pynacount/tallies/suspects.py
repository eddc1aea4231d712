"""Looking again at the parents whose tally seems wrong: all of them, then a pause, then all that are left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.keys import ItemKey
from pynacount.protocols.standings import MOST_LOOKS, Standing, is_the_same, look
from pynacount.tallies.results import Audited, AuditState
from pynacount.tallies.scanning import Tracking

PASSING = ("closed", "repairing")
"""What a cascade or a repair that is under way looks like, too: told only where it stays through every look."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A parent to be looked at, and how it stood when it last was."""

    tally: Tally
    key: ItemKey
    before: Standing | None = None


def confirmed(
    suspects: Sequence[Suspect], driver: Driver, track: Tracking, stopping: threading.Event | None = None
) -> Iterator[Audited]:
    """What becomes of the suspects, each told as soon as it can be. Those that are gone by now are left out."""
    for looks in range(1, MOST_LOOKS + 1):
        left: list[Suspect] = []
        for suspect in suspects:
            if stopping is not None and stopping.is_set():
                return
            found = replace(driver.run(look(suspect.tally, suspect.key)), looks=looks)
            track.note_looks(1)
            if looks == MOST_LOOKS and found.drift and not is_the_same(suspect.before, found):
                found = replace(found, moving=True)
            elif looks < MOST_LOOKS and not _is_told(suspect.before, found):
                left.append(replace(suspect, before=found))
                continue
            told = audited(suspect.tally, suspect.key, found)
            if told is not None:
                yield told
        suspects = left
        if not suspects:
            return
        time.sleep(max(suspect.tally.settle for suspect in suspects))


def _is_told(before: Standing | None, found: Standing) -> bool:
    """Whether another look could show nothing else."""
    if is_right(found):
        return True
    if before is None or found.state in PASSING:
        return False
    if found.drift:
        return is_the_same(before, found)
    return (before.state, before.count, before.problem) == (found.state, found.count, found.problem)


def is_right(found: Standing) -> bool:
    """Whether nobody need look again: tally and count agree, or there is no tally, or no parent and no children."""
    if found.problem:
        return False
    if found.state == "missing":
        return not found.count
    return found.state in ("present", "zero", "unseeded") and not found.drift


def audited(tally: Tally, key: ItemKey, found: Standing) -> Audited | None:
    """A standing as the result of an audit; None for a parent that is gone, with its children."""
    state: AuditState
    message = found.problem
    wrong = True
    match found.state:
        case "missing" if not found.problem and not found.count:
            return None
        case _ if found.problem:
            state = "unknown"
        case _ if found.moving:
            state = "moving"
            message = f"its children came and went at each of {found.looks} looks: audit it again when it is quieter"
        case "missing":
            state, wrong = "orphaned", tally.on_delete != "leave"
            message = "children without a parent: save the parent, or delete the children"
        case "closed":
            state = "closed"
            message = "a cascade that deletes it has not finished: call delete() again, or repair with --sweep"
        case "repairing":
            state = "repairing"
            message = (
                "it is being counted anew, or that was broken off"
                if tally.is_streamed
                else "a repair took the tally away and has not finished: repair it again, or seed it"
            )
        case "unreadable":
            state = "unreadable"
            message = f"{tally.attr_name} is stored as something that is no number"
            message += "" if tally.is_streamed else ": repair it, or remove it and seed it"
        case "unseeded":
            state, wrong = "unseeded", False
        case _ if found.drift:
            state = "drifted"
        case _:
            state, wrong = "ok", False
    stored = found.was if found.state == "repairing" else found.tally
    return Audited(tally.label, key, state, stored, found.count, message, wrong)
