"""Try the board: ``python docs/examples/django_board/run.py [PORT]``, after ``pip install -e ".[django,demo]"``.

The table is in the memory of this process, and gone with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

import click
import django
from django.core.management import call_command

from board.doing import prepare
from pynacount.testing import MotoEngine


@click.command()
@click.argument("port", type=click.IntRange(1, 65535), default=8000)
def run(port: int) -> None:
    """Try the board on this PORT, 8000 if none is said; its table is gone with the process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_board.settings")
    django.setup()
    with MotoEngine():
        prepare()
        call_command("runserver", str(port), "--noreload")


if __name__ == "__main__":
    run()
