"""Finding a Java that can run DynamoDB Local."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from pynacount.testing.dynamodb_package import EngineUnavailable

JAVA_NEEDED = 17
"""The oldest Java that this is tested with, and what AWS asks for DynamoDB Local 2.3 and later (its user guide)."""


def find_java() -> str:
    """The path of a ``java`` of version 17 or later: ``$JAVA_HOME``'s, else the one on the path.

    Raises :class:`EngineUnavailable` if there is none, or it is older.
    """
    advice = f"install Java {JAVA_NEEDED} or later (Debian: apt-get install openjdk-17-jre-headless)"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java")) if home else None
    java = java or shutil.which("java")
    if java is None:
        raise EngineUnavailable(f"DynamoDB Local needs Java, which is not installed: {advice}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
    version = java_version(said)
    if version is None or version < JAVA_NEEDED:
        raise EngineUnavailable(f"DynamoDB Local needs a newer Java than {java} ({said.strip()}): {advice}")
    return java


def java_version(said: str) -> int | None:
    """The feature release that ``java -version`` printed: 17 for ``17.0.15``, 8 for ``1.8.0_392``."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
