"""Try the board: ``python docs/examples/flask_board/run.py [PORT]``, after ``pip install -e ".[flask,demo]"``.

The table is in the memory of this process, and gone with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

import click

from board.doing import prepare
from flask_board.app import app
from pynacount.testing import MotoEngine


@click.command()
@click.argument("port", type=click.IntRange(1, 65535), default=5000)
def run(port: int) -> None:
    """Try the board on this PORT, 5000 if none is said; its table is gone with the process."""
    with MotoEngine():
        prepare()
        app.run(port=port)


if __name__ == "__main__":
    run()
