"""``{% load pynacount %}``, and then ``{{ post.like_tally|short_count }}``."""

from __future__ import annotations

from django import template

from pynacount.contrib.counts import short_count

register = template.Library()
register.filter("short_count", short_count)
