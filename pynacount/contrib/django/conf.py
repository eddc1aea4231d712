"""The setting ``PYNACOUNT``, a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from pynacount.contrib.answers import RETRY_AFTER
from pynacount.contrib.overview import SAMPLE

DEFAULTS: Mapping[str, Any] = {
    "MODELS": (),
    "RETRY_AFTER": RETRY_AFTER,
    "SAMPLE": SAMPLE,
    "CHECK_TABLES": True,
    "MAY_LOOK": None,
}
"""What each is where it is left out.

``MODELS``: the targets, as in ``["board.models"]``. ``RETRY_AFTER``: seconds after which a client is to try again.
``SAMPLE``: parents of each counter that the page and the checks look at. ``CHECK_TABLES``: whether system checks ask
DynamoDB. ``MAY_LOOK``: who may see the page, a callable of the request or its dotted path.
"""


def given() -> Mapping[str, Any]:
    """The dictionary as it is in the settings."""
    found: Any = getattr(settings, "PYNACOUNT", {})
    return found if isinstance(found, Mapping) else {}


def setting(name: str) -> Any:
    """One setting."""
    return given().get(name, DEFAULTS[name])


def targets() -> list[str]:
    """``MODELS``, one or more."""
    models = setting("MODELS")
    return [models] if isinstance(models, str) else list(models)


def mistakes() -> list[str]:
    """What is wrong with the dictionary."""
    found: Any = getattr(settings, "PYNACOUNT", {})
    if not isinstance(found, Mapping):
        return [f'PYNACOUNT must be a dictionary, as in {{"MODELS": ["board.models"]}}, not {found!r}']
    said = [f"PYNACOUNT has no setting {name!r}; it has {', '.join(DEFAULTS)}" for name in found.keys() - DEFAULTS]
    models = found.get("MODELS", ())
    if not isinstance(models, (str, list, tuple)) or not all(isinstance(model, str) for model in models):
        said.append(f'PYNACOUNT["MODELS"] must be a list of targets, as in ["board.models"], not {models!r}')
    wanted: list[tuple[str, str, Callable[[Any], bool]]] = [
        ("RETRY_AFTER", "seconds above 0", lambda value: _is_number(value) and value > 0),
        ("SAMPLE", "a number of parents, 0 or more", lambda value: type(value) is int and value >= 0),
        ("CHECK_TABLES", "True or False", lambda value: isinstance(value, bool)),
        ("MAY_LOOK", "a callable or its dotted path", lambda value: callable(value) or isinstance(value, str)),
    ]
    for name, what, holds in wanted:
        value = found.get(name)
        if value is not None and not holds(value):
            said.append(f"PYNACOUNT[{name!r}] must be {what}, not {value!r}")
    looks = found.get("MAY_LOOK")
    if isinstance(looks, str):
        try:
            import_string(looks)
        except ImportError as error:
            said.append(f'PYNACOUNT["MAY_LOOK"]: {looks!r} does not import: {error}')
    return sorted(said)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
