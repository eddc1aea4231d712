"""A handle on an item of which nothing was read."""

from __future__ import annotations

from typing import Any

from pynacount.keys import ItemKey


class Ref:
    """What ``Post.ref(post_id="a91f")`` gives: the key, and the sets that hang on it.

    Equal refs name the same item; a ref can be a dictionary's key.
    """

    __slots__ = ("_item_key", "_model", "_variables")

    def __init__(self, model: Any, item_key: ItemKey, variables: dict[str, Any]) -> None:
        self._model = model
        self._item_key = item_key
        self._variables = variables

    def key_variables(self) -> dict[str, Any]:
        """The variables that make up the key."""
        return self._variables

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # also while it is copied, before it has anything
        if name in self._variables:
            return self._variables[name]
        counted_set = self._model._counting.sets_by_name.get(name)
        if counted_set is not None:
            return counted_set.__get__(self, self._model)
        raise AttributeError(
            f"a ref of {self._model.__name__} has read nothing, so it has no {name!r}; read the item with "
            f"{self._model.__name__}.get({', '.join(f'{n}={v!r}' for n, v in self._variables.items())})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other._model is self._model and other._item_key == self._item_key

    def __hash__(self) -> int:
        return hash(self._item_key)

    def __repr__(self) -> str:
        return f"{self._model.__name__}.ref({', '.join(f'{n}={v!r}' for n, v in self._variables.items())})"
