"""pynacount in a Django project: ``INSTALLED_APPS += ["pynacount.contrib.django"]``. No database is needed.

It answers the errors of counting in views (:func:`counted_view`, :class:`CountedViewMixin`), honours the
``Idempotency-Key`` header there, and adds ``manage.py tallies ...``, system checks, the template filter ``short_count``
and a page of counters and their drift. Needs ``pip install "pynacount[django]"``.
"""

from pynacount.contrib.django.views import CountedViewMixin, counted_view

__all__ = ["CountedViewMixin", "counted_view"]
