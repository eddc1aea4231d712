"""The models of the example boards, for tests that look at their table."""

from __future__ import annotations

import sys

from serving import EXAMPLES

if str(EXAMPLES) not in sys.path:
    sys.path.append(str(EXAMPLES))

from board.models import TABLES, Like, Post

__all__ = ["TABLES", "Like", "Post"]
