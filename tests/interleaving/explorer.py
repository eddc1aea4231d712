"""Every order of every atomic step of several protocols, with crashes, lost messages and late visibility.

The very generators that the library drives are driven here. A generator cannot be copied, so where an actor
stands is told by the answers that it has been sent: its *log*. The logs of one actor form a tree, and a node of
that tree (:class:`Local`) is the actor's part of a state. To go on from a node in a second way, the generator is
made anew and the log replayed; a protocol that then says anything else than it did before cannot be searched,
which is :class:`NotDeterministic`.

From a state, any of these may come next:

* an actor takes its step: its request is executed and answered, or its wait is over;
* an actor crashes and is never heard of again (at most ``crashes`` in a run);
* a write is executed but its answer is lost, or never arrives at all, and the actor sends it again under the
  same token (at most ``lost_responses`` in a run). Only a transaction has a token; a single-item write is run again;
* a hidden change becomes visible to queries.

The search is breadth first, so that the trace of a violation is a shortest one.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from unittest import mock

from pynamodb.exceptions import PynamoDBException

from pynacount import marks
from pynacount.steps import Answer, Protocol, Refusal, Send, Step, Wait

from .store import Key, Prepared, Store
from .values import freeze
from .wire import is_write

Factory: TypeAlias = Callable[[], Protocol[Any]]
Mutate: TypeAlias = Callable[[Send], Send]
Results: TypeAlias = Mapping[str, Any]
"""What each actor that finished returned, or the library's exception that it raised."""

Invariant: TypeAlias = Callable[[Store, Results, frozenset[str]], str | None]
"""Asked when all is quiet, with the names of the actors that crashed: what is wrong, or None."""

Safety: TypeAlias = Callable[[Store], str | None]
"""Asked of every store that occurs: what is wrong, or None."""


class NotDeterministic(Exception):
    """A protocol, given the same answers again, did something else."""


class SearchLimit(Exception):
    """The search was given up: it has found nothing wrong, and proves nothing."""


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a trace; ``actor`` is empty where a change became visible."""

    actor: str
    act: str
    step: Step | None = None
    answer: Answer | None = None
    detail: str = ""

    def __str__(self) -> str:
        said = f"{self.actor or '(table)'} {self.act}"
        if isinstance(self.step, Send):
            said += f" {self.step.operation} {self.step.request}"
        elif self.step is not None:
            said += f" {self.step}"
        if self.answer is not None:
            said += f" -> {self.answer}"
        return f"{said} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Violation:
    """What went wrong, and a shortest way there. ``kind``: invariant, safety, exception or livelock."""

    kind: str
    message: str
    trace: tuple[Event, ...]

    def __str__(self) -> str:
        lines = (f"{number:3}. {event}" for number, event in enumerate(self.trace, 1))
        return "\n".join((f"{self.kind}: {self.message}", *lines))


@dataclass(frozen=True, slots=True)
class Report:
    """How far the search went, every different request that it saw (before any mutation), and what it found."""

    states: int
    transitions: int
    quiescent: int
    sends: tuple[Send, ...]
    violation: Violation | None = None


class _Run:
    """A live generator, and the steps that it has yielded so far."""

    __slots__ = ("generator", "steps")

    def __init__(self, generator: Protocol[Any]) -> None:
        self.generator = generator
        self.steps: list[Step] = []


class Local:
    """Where one actor stands: a node in the tree of its logs. Two nodes are the same only if they are identical."""

    __slots__ = (
        "actor", "answer", "children", "crashed", "depth", "error", "finished", "parent", "prepared", "result",
        "run", "sent", "step", "token",
    )  # fmt: skip

    def __init__(self, actor: str, parent: Local | None = None, answer: Answer | None = None) -> None:
        self.actor = actor
        self.parent = parent
        self.answer = answer
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[Hashable, Local] = {}
        self.step: Step | None = None
        self.sent: Send | None = None
        self.prepared: Prepared | None = None
        self.token: Hashable = None
        self.run: _Run | None = None
        self.crashed = False
        self.finished = False
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def ended(self) -> bool:
        return self.finished or self.crashed


class _Actor:
    """Makes and remembers the nodes of one actor's tree."""

    def __init__(self, name: str, factory: Factory, store: Store, mutate: Mutate | None) -> None:
        self.name = name
        self.factory = factory
        self.store = store
        self.mutate = mutate
        self.sends: dict[Hashable, Send] = {}
        self.ends: dict[Hashable, Local] = {}
        self.crash = Local(name)
        self.crash.crashed = True
        self.root = self._arrive(Local(name), _Run(factory()), None)

    def after(self, local: Local, answer: Answer) -> Local:
        """The node that an answer leads to."""
        key = freeze_answer(answer)
        child = local.children.get(key)
        if child is None:
            run, local.run = local.run or self._replay(local), None
            child = local.children[key] = self._arrive(Local(self.name, local, answer), run, answer)
        return child

    def _arrive(self, local: Local, run: _Run, answer: Answer | None) -> Local:
        try:
            step = _resume(run, answer)
        except StopIteration as stop:
            local.result = stop.value
        except PynamoDBException as refused:
            local.result = refused
        except NotDeterministic:
            raise
        except Exception as error:
            local.error = error
        else:
            self._stand(local, run, step)
            return local
        local.finished = True
        if local.parent is not None:
            # The search may never need to replay this log; whether it could is worth knowing all the same.
            self._replay(local.parent)
        # Actors that ended alike are alike, whatever way they came.
        return self.ends.setdefault((freeze(local.result), freeze(local.error)), local)

    def _stand(self, local: Local, run: _Run, step: Step) -> None:
        local.step, local.run = step, run
        local.token = (self.name, _first_try(run.steps))
        if isinstance(step, Send):
            self.sends.setdefault((step.operation, freeze(step.request)), step)
            # A protocol may build its next request out of this one: keep it as it was sent.
            kept = Send(step.operation, copy.deepcopy(step.request))
            local.step = kept
            local.sent = self.mutate(kept) if self.mutate else kept
            local.prepared = self.store.prepare(local.sent)

    def _replay(self, local: Local) -> _Run:
        path: list[Local] = []
        node: Local | None = local
        while node is not None:
            path.append(node)
            node = node.parent
        run = _Run(self.factory())
        for node in reversed(path):
            try:
                step = _resume(run, node.answer)
            except Exception as end:
                raise NotDeterministic(f"{self.name} ended with {end!r}, where it had yielded {node.step}") from end
            if step != node.step or (self.name, _first_try(run.steps)) != node.token:
                raise NotDeterministic(f"{self.name} yielded {step}, where it had yielded {node.step}")
        return run


def _resume(run: _Run, answer: Answer | None) -> Step:
    step = next(run.generator) if answer is None else run.generator.send(copy.deepcopy(answer))
    run.steps.append(step)
    return step


def _first_try(steps: list[Step]) -> int:
    """Where the last step was first yielded: a ``Send`` again, with no other transaction between, has one token."""
    first = len(steps) - 1
    for index in range(first - 1, -1, -1):
        if steps[index] is steps[-1]:
            first = index
        elif isinstance(between := steps[index], Send) and between.operation == "TransactWriteItems":
            break
    return first


def freeze_answer(answer: Answer) -> Hashable:
    """What tells one answer from another."""
    if isinstance(answer, Refusal):
        reasons = tuple(reason and (reason.code, freeze(reason.item)) for reason in answer.reasons)
        return answer.code, reasons
    return freeze(answer)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that decides what can still happen."""

    store: Store
    locals: tuple[Local, ...]
    crashes: int
    losses: int


@dataclass(frozen=True, slots=True)
class _Move:
    """How a state was reached from the one before, in the little that is needed to tell it as an event."""

    act: str
    actor: int = -1
    keys: tuple[Key, ...] = ()
    answer: Answer | None = None


_NOTHING: Answer = {}
"""The answer to a Wait."""


class _Search:
    """One exploration."""

    def __init__(
        self,
        actors: Mapping[str, Factory],
        store: Store,
        crashes: int,
        lost_responses: int,
        mutate: Mutate | None,
        heed_waits: bool,
    ) -> None:
        self.heed_waits = heed_waits
        self.actors = [_Actor(name, factory, store, mutate) for name, factory in actors.items()]
        self.memo: dict[tuple[Store, Local], tuple[Store, Local, Answer]] = {}
        self.stores: dict[Store, Store] = {}
        for actor in self.actors:
            store = self._settle_in(store, actor.root)
        self.start = State(self._known(store), tuple(actor.root for actor in self.actors), crashes, lost_responses)

    def _known(self, store: Store) -> Store:
        """The one object for all equal stores: states are then compared by identity."""
        return self.stores.setdefault(store, store)

    def _waits(self, local: Local) -> bool:
        return self.heed_waits and isinstance(local.step, Wait) and local.step.seconds > 0

    def _settle_in(self, store: Store, local: Local) -> Store:
        """What follows at once from an actor's arrival at a node."""
        if local.ended:
            return store.stop_awaiting(local.actor).forget(lambda token: _owner(token) == local.actor)
        return store.await_visibility(local.actor) if self._waits(local) else store

    def _answered(self, store: Store, index: int, local: Local) -> tuple[Store, Local, Answer]:
        """One step of one actor: a function of the store and of where it stands, so worked out once."""
        known = self.memo.get((store, local))
        if known is None:
            after, answer = (store, _NOTHING) if local.prepared is None else store.run(local.prepared, local.token)
            child = self.actors[index].after(local, answer)
            known = self.memo[store, local] = (self._known(self._settle_in(after, child)), child, answer)
        return known

    def moves(self, state: State) -> Iterator[tuple[State, _Move]]:
        """All states that may come next."""
        store, places = state.store, state.locals
        active = [index for index, local in enumerate(places) if not local.ended]
        if not active:
            if store.veil:
                # Nobody looks any more, so the order in which the rest shows can make no difference.
                yield (
                    State(self._known(store.reveal_all()), places, state.crashes, state.losses),
                    _Move("shows", keys=tuple(store.veil)),
                )
            return
        for key in store.veil:
            yield (
                State(self._known(store.reveal(key)), places, state.crashes, state.losses),
                _Move("shows", keys=(key,)),
            )
        for index in active:
            local, actor = places[index], self.actors[index]
            if not (self._waits(local) and store.is_awaited_by(local.actor)):
                after, child, answer = self._answered(store, index, local)
                moved = State(after, _put(places, index, child), state.crashes, state.losses)
                yield moved, _Move("waited" if local.prepared is None else "sends", index, answer=answer)
            if state.crashes:
                gone = self._known(self._settle_in(store, actor.crash))
                yield (
                    State(gone, _put(places, index, actor.crash), state.crashes - 1, state.losses),
                    _Move("crashes before it", index),
                )
            if state.losses and local.sent is not None and is_write(local.sent) and local.prepared is not None:
                # It sends the same again, and stands where it stood. (One that never arrived changes nothing at all.)
                after, answer = store.run(local.prepared, local.token)
                yield (
                    State(self._known(after), places, state.crashes, state.losses - 1),
                    _Move("gets no answer to", index, answer=answer),
                )

    def event(self, before: State, move: _Move) -> Event:
        """A move, told."""
        if move.actor < 0:
            return Event("", move.act, detail=", ".join(_spell(key) for key in move.keys))
        local = before.locals[move.actor]
        return Event(local.actor, move.act, local.sent or local.step, move.answer)


def _owner(token: Hashable) -> Hashable:
    return token[0] if isinstance(token, tuple) else None


def _put(places: tuple[Local, ...], index: int, local: Local) -> tuple[Local, ...]:
    return (*places[:index], local, *places[index + 1 :])


def _spell(key: Key) -> str:
    return " ".join((key[0], *(str(content) for _, content in key[1])))


@mock.patch.object(marks, "birth_mark", lambda: 1_000_000)  # a replay wants the same requests each time
@mock.patch("pynacount.shards.MOST_HINTS", 0)  # what is remembered of a parent is no part of the state
def explore(
    actors: Mapping[str, Factory],
    store: Store,
    invariant: Invariant,
    *,
    crashes: int = 1,
    lost_responses: int = 1,
    mutate: Mutate | None = None,
    safety: Safety | None = None,
    heed_waits: bool = True,
    max_states: int = 500_000,
    max_steps: int = 100,
) -> Report:
    """Search every interleaving of the actors' protocols from a store.

    ``mutate`` changes each request on its way to the table (see :mod:`.mutations`); the protocol does not notice.
    ``heed_waits=False`` makes every ``Wait`` end at once, whatever is hidden. The invariant is asked only when no
    actor can go on and nothing is hidden, ``safety`` always. An actor that takes more than ``max_steps`` steps is a
    livelock; more than ``max_states`` states raise :class:`SearchLimit`, which is no verdict.
    An exception that is not PynamoDB's or the library's own is a violation too.
    """
    search = _Search(actors, store, crashes, lost_responses, mutate, heed_waits)
    came_from: dict[State, tuple[State, _Move] | None] = {search.start: None}
    safe: set[Store] = set()
    queue = deque(came_from)
    transitions = quiescent = 0

    def report(violation: Violation | None = None) -> Report:
        sends = tuple(send for actor in search.actors for send in actor.sends.values())
        return Report(len(came_from), transitions, quiescent, sends, violation)

    def trace(state: State) -> tuple[Event, ...]:
        events: list[Event] = []
        while (step := came_from[state]) is not None:
            events.append(search.event(*step))
            state = step[0]
        return tuple(reversed(events))

    while queue:
        state = queue.popleft()
        kind, message = "safety", None
        if safety is not None and state.store not in safe:
            message = safety(state.store)
            safe.add(state.store)
        for local in state.locals if message is None else ():
            if local.error is not None:
                kind, message = "exception", f"{local.actor} raised {local.error!r}"
            elif local.depth > max_steps and not local.ended:
                kind, message = "livelock", f"{local.actor} took more than {max_steps} steps"
        quiet = True
        for following, move in search.moves(state) if message is None else ():
            quiet = False
            transitions += 1
            if following not in came_from:
                came_from[following] = (state, move)
                queue.append(following)
        if quiet and message is None:
            quiescent += 1
            results = {local.actor: local.result for local in state.locals if local.finished}
            crashed = frozenset(local.actor for local in state.locals if local.crashed)
            kind, message = "invariant", invariant(state.store, results, crashed)
        if message is not None:
            return report(Violation(kind, message, trace(state)))
        if len(came_from) > max_states:
            tail = "\n".join(str(event) for event in trace(state)[-10:])
            raise SearchLimit(f"more than {max_states} states; one of the last was reached by ...\n{tail}")
    return report()
