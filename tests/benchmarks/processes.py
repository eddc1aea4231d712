"""Running a command by itself: its output, its time, and the most memory that it ever had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Linux takes the memory of a process that starts another for the other's own, until that has more: so the command is
# started by one that is small. It must not import what it does not need.
LAUNCHER = """
import os, sys, time
began = time.perf_counter()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
cpu = usage.ru_utime + usage.ru_stime
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, time.perf_counter() - began, cpu)
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """``peak`` in bytes; ``seconds`` from the start of the process to its end; ``cpu``: what it computed of those."""

    lines: list[str]
    seconds: float
    peak: int
    cpu: float

    @property
    def last(self) -> dict[str, object]:
        """The last line, which is a JSON object."""
        found: dict[str, object] = json.loads(self.lines[-1])
        return found


def measured(arguments: Sequence[str], environment: Mapping[str, str]) -> Measured:
    """Run Python with these arguments, its output going to a file, so that nobody's reading holds it up."""
    command = [sys.executable, "-S", "-c", LAUNCHER, sys.executable, *arguments]
    with tempfile.TemporaryFile("w+") as output:
        subprocess.run(command, stdout=output, env={**os.environ, **environment}, check=True)
        output.seek(0)
        *lines, launcher = output.read().splitlines()
    status, peak, seconds, cpu = launcher.split()
    if status != "0":
        raise RuntimeError(f"{' '.join(arguments)} ended with status {status}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(lines, float(seconds), int(peak) * unit, float(cpu))
