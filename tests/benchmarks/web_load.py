"""The example boards under gunicorn and 64 visitors for a minute, while workers are killed.

    python -m tests.benchmarks.web_load [--seconds 60] [--connections 64] [--kill-every 2] [threads forks preloaded]

On DynamoDB Local, on this machine. Each visitor likes and unlikes posts at random, one request after another, each by
a key of its own, and sends again what got no answer. At the end every tally must be its count, every like that was told
must be there and no other, and no answer may be anything but 200 and 503. It exits with 1 if that is not so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pynacount.testing import DynamoDBLocalEngine
from serving import APPLICATIONS, deployed
from storming import board_posts, storm, told, wrong
from test_under_load import SERVERS


def main() -> None:
    parser = argparse.ArgumentParser(description="The example boards under load, while workers are killed.")
    parser.add_argument("servers", nargs="*", default=list(SERVERS), metavar="SERVER", help=", ".join(SERVERS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--kill-every", type=float, default=2.0, metavar="SECONDS", help="0: no worker is killed")
    options = parser.parse_args()
    APPLICATIONS["warmed"] = "warmed:app"
    right = True
    for server in options.servers:
        board, settings = SERVERS[server]
        with DynamoDBLocalEngine(), tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with deployed(board, log, *settings, before=board_posts) as (url, gunicorn):
                found = storm(url, gunicorn.pid, options.seconds, options.connections, options.kill_every)
                said = wrong(found)
            print(f"{server}: {told(found)}", flush=True)
            if strange := set(found.statuses) - {0, 200, 503}:
                said.append(f"answers of status {sorted(strange)}")
            if "Traceback" in log.read_text():
                said.append(log.read_text()[-2000:])
            for line in said:
                print(f"  {line}", flush=True)
            right = right and not said
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
