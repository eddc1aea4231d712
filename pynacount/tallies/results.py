"""What a pass over a table says of one parent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from pynacount.amounts import Amount, difference
from pynacount.keys import ItemKey

AuditState: TypeAlias = Literal[
    "ok", "drifted", "unseeded", "repairing", "closed", "orphaned", "moving", "unreadable", "unknown"
]

RepairStatus: TypeAlias = Literal["repaired", "unchanged", "planned", "swept", "gone", "left", "failed"]
RepairMeans: TypeAlias = Literal["fence", "revision", "seed", "sweep"]
Status: TypeAlias = Literal["seeded", "planned", "closed", "gone", "failed"]
SpreadStatus: TypeAlias = Literal["resharded", "planned", "gone", "unseeded", "failed"]


@dataclass(frozen=True, slots=True)
class Seeded:
    """What became of one parent that had no tally.

    ``planned``: it would be seeded, but for ``dry_run``. ``closed``: a cascade that was interrupted has begun to delete
    it; ``gone``: it was deleted meanwhile; ``failed``: it is left without a tally, and ``message`` says why. Where a
    child that lies elsewhere does not tell its parent, ``key`` is the child's.
    """

    counter: str
    key: ItemKey
    status: Status
    tally: Amount | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """What became of one parent whose tally was to be brought into another number of shards: from ``was`` to ``now``.

    ``planned``: it would be, but for ``dry_run``; ``gone``: the parent was deleted meanwhile, or is being deleted;
    ``unseeded``: it was asked for, and has no tally yet; ``failed``: it is as ``message`` says, and nothing is lost.
    """

    counter: str
    key: ItemKey
    status: SpreadStatus
    was: int | None = None
    now: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Audited:
    """One parent's tally beside its count.

    ``state``: ``ok``; ``drifted``: they differ, and did so again at another look; ``unseeded``: there is no tally;
    ``repairing``: a repair took it away and was not finished; ``closed``: a cascade began to delete the parent and was
    not finished; ``orphaned``: there are children and no parent; ``moving``: children came and went at every look, so
    it could not be told; ``unreadable``: the tally is stored as something else than a number; ``unknown``: a child
    cannot be counted. ``message`` says what else there is to say. Where a child that lies elsewhere does not tell its
    parent, ``key`` is the child's, in ``unknown``.

    ``tally`` is what is stored (in ``repairing``, what was), ``count`` what the children come to; None where there is
    none. ``wrong``: whether somebody must see to it; only ``ok`` and ``unseeded`` are not, and orphans that
    ``on_delete="leave"`` left.
    """

    counter: str
    key: ItemKey
    state: AuditState
    tally: Amount | None
    count: Amount | None
    message: str = ""
    wrong: bool = False

    @property
    def drift(self) -> Amount | None:
        """Tally minus count; None where one of them is not known."""
        if self.tally is None or self.count is None:
            return None
        return difference(self.tally, self.count)


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one parent that an audit found wrong.

    ``status``: ``repaired``; ``unchanged``: counted anew, and it was right; ``planned``: it would be repaired, but for
    ``dry_run``; ``swept``: the cascade that had begun to delete it was finished; ``gone``: it is not there any more;
    ``left``: not a repair's business, and ``message`` says whose; ``failed``: ``message`` says why.

    ``was`` is the number that was there, None where there was none, or something else than a number; ``now`` the one
    that is there. ``by``: by which means, None where nothing was done: a ``fence``, a ``revision``, or a ``seed`` where
    there was no tally to take away; ``sweep``: a deletion finished. ``when``: the moment at which it was done, in UTC.

    ``waited``: for how many seconds writers of this parent were held up, from the fence's answer to that of the write
    that set the number; 0 where nothing was taken away. A parent that an earlier run left fenced was so before, too.
    """

    counter: str
    key: ItemKey
    status: RepairStatus
    was: Amount | None
    now: Amount | None
    by: RepairMeans | None
    when: datetime
    waited: float = 0.0
    message: str = ""
