"""What a command works on: ``module``, ``module:Model`` or ``module:Model.counter``, and the key of one item."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pynamodb.attributes import NumberAttribute

from pynacount.errors import DeclarationError, TargetError
from pynacount.fields import CounterField
from pynacount.model import CountedModel
from pynacount.schema import KeyPart

FORMS = "module, module:Model or module:Model.counter"
"""What a TARGET looks like."""


def resolve(target: str) -> tuple[CounterField, ...]:
    """The counters that ``target`` names and that children are counted in, in the order of their definition.

    The module is imported, from the current directory too. Of a whole module these are the counters of all the
    models in its namespace, imported ones included, each once: a model that has two names there, or that is a
    subclass with the keys and the table of another, is counted in one place.

    Raises :class:`TargetError`, in one line that says what there is instead.
    """
    module_name, colon, rest = target.partition(":")
    if not module_name or (colon and not rest):
        raise TargetError(f"the target {target!r} is not complete; write {FORMS}")
    model_name, dot, counter_name = rest.partition(".")
    if dot and (not counter_name or not model_name):
        raise TargetError(f"the target {target!r} is not complete; write {FORMS}")
    module = _imported(module_name)
    if not rest:
        return _of_module(module)
    model = _model(module, model_name)
    counters = _counted(model)
    if not dot:
        return counters
    return (_named(model, counters, counter_name),)


def one_model(target: str) -> tuple[CounterField, ...]:
    """As :func:`resolve`, for a command that looks at one item: the counters are all of one model.

    Raises :class:`TargetError` where several models are meant.
    """
    counters = resolve(target)
    models = list(dict.fromkeys(counter.owner for counter in counters))
    if len(models) > 1:
        module_name = target.partition(":")[0]
        raise TargetError(
            f"{target} has several counted models; name one of {_listed(f'{module_name}:{m.__name__}' for m in models)}"
        )
    return counters


def tables_of(counters: Iterable[CounterField]) -> str:
    """The tables of the counters' parents, for a message."""
    return _listed(dict.fromkeys(counter.owner._counting.table for counter in counters))


def one_model_of_any(target: str) -> tuple[CounterField, ...]:
    """As :func:`one_model`, with the plain counters of the model, in which no children are counted."""
    module_name, _, rest = target.partition(":")
    model_name, _, counter_name = rest.partition(".")
    if not module_name:
        return one_model(target)
    module = _imported(module_name)
    models = [model for model in _models(module) if model._counting.counters]
    named = [model for model in models if model is vars(module).get(model_name)] if rest else models
    if len(named) != 1:
        return one_model(target)
    _check_sets(named[0])
    counters = named[0]._counting.counters
    if not counter_name:
        return tuple(counters.values())
    return (counters[counter_name],) if counter_name in counters else one_model(target)


def key_variables(model: type[CountedModel], pairs: Iterable[str]) -> dict[str, Any]:
    """The arguments of ``model.ref()`` from pairs such as ``post_id=a91f``; ints where the key's template says so.

    Raises :class:`TargetError` for a pair that is none, and for variables that are missing, strange or given twice.
    """
    given = pairs_of(pairs)
    needed = model._counting.schema.variables
    if strange := [name for name in given if name not in needed]:
        raise TargetError(f"{_listed(strange)}: no key variable of {model.__name__}, which has {_listed(needed)}")
    if lacking := [name for name in needed if name not in given]:
        example = " ".join(f"{name}={given.get(name, '...')}" for name in needed)
        raise TargetError(f"{_listed(lacking)}: missing from the key of {model.__name__}; write {example}")
    return {name: variable_of(model, name, given[name]) for name in needed}


def pairs_of(pairs: Iterable[str]) -> dict[str, str]:
    """``name=value`` pairs as a mapping. Raises :class:`TargetError` for one that is none, or comes twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise TargetError(f"{pair!r} says of no name what it is; write name=value, as in post_id=a91f")
        if name in found:
            raise TargetError(f"{name} is given twice, as {found[name]!r} and as {value!r}; give it once")
        found[name] = value
    return found


def repeated_pairs_of(pairs: Iterable[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """``name=value`` pairs as a mapping; and those names that come several times, with all that they are said to be."""
    values: dict[str, list[str]] = {}
    for pair in pairs:
        for name, value in pairs_of([pair]).items():
            values.setdefault(name, []).append(value)
    once = {name: several[0] for name, several in values.items() if len(several) == 1}
    return once, {name: several for name, several in values.items() if len(several) > 1}


def variable_of(model: type[CountedModel], name: str, text: str) -> Any:
    """The value of one key variable from its text. Raises :class:`TargetError` for what is no number but must be."""
    for part in model._counting.parts:
        if name in part.variables and (kind := number_kind(part, name)) is not None:
            try:
                return _number(text) if kind == "number" else int(text)
            except (ValueError, InvalidOperation, OverflowError):
                raise TargetError(f"{name}={text!r}: the key of {model.__name__} has {_a(kind)} there") from None
    return text


def number_kind(part: KeyPart, name: str) -> Literal["int", "number"] | None:
    """What kind of number a key variable is; None for text."""
    if part.template is None:
        return "number" if isinstance(part.attribute, NumberAttribute) else None
    return "int" if any(v.is_int for v in part.template.variables if v.name == name) else None


def _number(text: str) -> int | Decimal:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "int" else f"a {kind}"


# -- finding


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise TargetError(f"{name} is a file; name its module, {dotted}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise TargetError(
                f"there is no module {error.name}; run the command where it can be imported, or set PYTHONPATH"
            ) from error
        raise TargetError(_broken(name, error)) from error
    except (Exception, SystemExit) as error:  # whatever the application's own code raises
        raise TargetError(_broken(name, error)) from error


def _broken(name: str, error: BaseException) -> str:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    # The first is this module's own call; the last is where it happened.
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if len(own) > 1 else ""
    said = " ".join(str(error).split())
    return f"{name} does not import: {type(error).__name__}: {said}{place}; mend that, or name another module"


def _models(module: ModuleType) -> list[type[CountedModel]]:
    """The counted models in a module's namespace that have a table, each once."""
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, CountedModel) and value._counting.table is not None
    ]
    return list(dict.fromkeys(found))


def _of_module(module: ModuleType) -> tuple[CounterField, ...]:
    by_place: dict[tuple[Any, ...], CounterField] = {}
    for model in _models(module):
        for counter in _counters(model):
            place = _place(counter)
            known = by_place.get(place)
            # Of two that speak of one number, the one that knows more of its children speaks for both.
            if known is None or len(counter.counted_relations) > len(known.counted_relations):
                by_place[place] = counter
    if not by_place:
        children = [model.__name__ for model in _models(module) if model._counting.is_child]
        hint = f"; it has only the children {_listed(children)}" if children else ""
        raise TargetError(
            f"{module.__name__} has no model whose counters children are counted in{hint}; name the module that "
            f"imports the parents and their children"
        )
    for owner in dict.fromkeys(counter.owner for counter in by_place.values()):
        _check_sets(owner)
    return tuple(by_place.values())


def _place(counter: CounterField) -> tuple[Any, ...]:
    counting = counter.owner._counting
    return counting.table, counting.keys, counter.attr_name


def _model(module: ModuleType, name: str) -> type[CountedModel]:
    model = vars(module).get(name)
    if isinstance(model, type) and issubclass(model, CountedModel):
        if model._counting.table is not None:
            return model
        raise TargetError(f"{module.__name__}:{name} has no table; name a subclass with class Meta: table_name = ...")
    parents = [m.__name__ for m in _models(module) if _counters(m)]
    what = "is no counted model" if model is not None else "is not there"
    raise TargetError(
        f"{module.__name__}:{name} {what}; {module.__name__} has {_listed(parents) or 'no counted model at all'}"
    )


def _counters(model: type[CountedModel]) -> tuple[CounterField, ...]:
    return tuple(counter for counter in model._counting.counters.values() if counter.is_counted)


def _counted(model: type[CountedModel]) -> tuple[CounterField, ...]:
    _check_sets(model)
    counters = _counters(model)
    if counters:
        return counters
    counting = model._counting
    if counting.declared:
        parents = dict.fromkeys(relation.counter.owner for relation in counting.declared)
        shown = _listed(f"{parent.__module__}:{parent.__name__}" for parent in parents)
        raise TargetError(f"{model.__name__} is a child, and has no counter of its own; name its parent, {shown}")
    plain = _listed(counting.counters)
    one = len(counting.counters) == 1
    raise TargetError(
        f"no children are counted in {model.__name__}"
        + (f": {plain} {'is a plain counter' if one else 'are plain counters'}" if plain else ", which has no counter")
        + "; name another model, or the module that imports its children"
    )


def _named(model: type[CountedModel], counters: Sequence[CounterField], name: str) -> CounterField:
    for counter in counters:
        if counter.name == name:
            return counter
    there = _listed(c.name if c.name == c.attr_name else f"{c.name} (stored as {c.attr_name})" for c in counters)
    if name in model._counting.counters:
        raise TargetError(f"no children are counted in {model.__name__}.{name}; {model.__name__} has {there}")
    raise TargetError(f"{model.__name__} has no counter {name!r}; it has {there}")


def _check_sets(model: type[CountedModel]) -> None:
    try:
        model._counting.check_sets()
    except DeclarationError as error:
        raise TargetError(error.msg) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
