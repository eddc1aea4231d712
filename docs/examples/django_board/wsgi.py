"""``gunicorn django_board.wsgi``, with a table to lead to."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_board.settings")
application = get_wsgi_application()
