"""One parent and its children as a person wants to see them: what is there, and whether it adds up."""

from pynacount.inspecting.looking import inspect

__all__ = ["inspect"]
