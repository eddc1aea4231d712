"""``python docs/examples/django_board/manage.py tallies audit``, with a table to lead to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_board.settings")
    execute_from_command_line(sys.argv)
