"""``path("counters/", include("pynacount.contrib.django.urls"))``."""

from __future__ import annotations

from django.urls import path

from pynacount.contrib.django import pages

app_name = "pynacount"
urlpatterns = [
    path("", pages.counters, name="counters"),
    path("<str:target>/", pages.parent, name="parent"),
]
