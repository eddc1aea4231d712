"""The app, as Django knows it."""

from __future__ import annotations

from django.apps import AppConfig


class PynacountConfig(AppConfig):
    """``pynacount``."""

    name = "pynacount.contrib.django"
    label = "pynacount"
    verbose_name = "Counters"

    def ready(self) -> None:
        """Make the system checks known."""
        from pynacount.contrib.django import checks  # noqa: F401
