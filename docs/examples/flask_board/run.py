"""Try the board: ``python docs/examples/flask_board/run.py [PORT]``, after ``pip install -e ".[flask,demo]"``.

The table is in the memory of this process, and gone with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from board.doing import prepare
from flask_board.app import app
from pynacount.testing import MotoEngine

if __name__ == "__main__":
    with MotoEngine():
        prepare()
        app.run(port=int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
