"""The page of an audit: one HTML file that stands by itself, to be mailed, kept and opened years later."""

from pynacount.auditing.page.page import Page

__all__ = ["Page"]
