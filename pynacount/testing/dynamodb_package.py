"""Where DynamoDB Local comes from: an npm package that carries its jar, kept in a cache folder."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "amplify-dynamodb-simulator"
VERSION = "2.9.30"
SHA512 = "xTeeRLvzEfqyd5lh3bH4c0kHvSHHmmhD5ZDsHFKAQ5g2Zl6JqlFdutaQhCLHzxEp6Ry1o7TB6niIoXuQAnSewQ=="
"""Digest of the package's archive, as npm publishes it (``npm view amplify-dynamodb-simulator dist.integrity``)."""

JAR = "DynamoDBLocal.jar"


class EngineUnavailable(RuntimeError):
    """An engine cannot be started on this machine; the message says what is missing and how to get it."""


def cache_folder() -> Path:
    """``$PYNACOUNT_CACHE``, else ``$XDG_CACHE_HOME/pynacount``, else ``~/.cache/pynacount``."""
    own = os.environ.get("PYNACOUNT_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pynacount"


def dynamodb_local_folder() -> Path:
    """The folder that holds ``DynamoDBLocal.jar``, fetched by ``npm pack`` (55 MB) if it is not in the cache yet.

    Two processes may do this at once. Raises :class:`EngineUnavailable` if npm is absent or fails, or if the
    archive is not the one that was published.
    """
    folder = cache_folder() / f"dynamodb-local-{VERSION}"
    if not (folder / JAR).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Aside, in the same file system: the rename that publishes the folder is then one step.
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as aside:
            _publish(_unpack(_npm_pack(Path(aside)), Path(aside)), folder)
    return folder


def _npm_pack(aside: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise EngineUnavailable(
            f"DynamoDB Local is fetched by npm, which is not installed: install it (Debian: apt-get install npm), "
            f"or unpack {PACKAGE}@{VERSION} so that {cache_folder() / f'dynamodb-local-{VERSION}' / JAR} exists"
        )
    command = [npm, "pack", "--silent", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, cwd=aside, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    archive = aside / f"{PACKAGE}-{VERSION}.tgz"
    if done.returncode != 0 or not archive.exists():
        raise EngineUnavailable(f"{' '.join(command)} failed with status {done.returncode}: {done.stderr.strip()}")
    return archive


def _unpack(archive: Path, aside: Path) -> Path:
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != SHA512:
        raise EngineUnavailable(f"{archive.name} is not what was published: its SHA-512 is {digest}, not {SHA512}")
    with tarfile.open(archive) as tar:
        tar.extractall(aside, [member for member in tar if member.name.startswith("package/emulator/")])
    return aside / "package" / "emulator"


def _publish(unpacked: Path, folder: Path) -> None:
    try:
        unpacked.rename(folder)
    except OSError:
        # Another process was first, and its copy is as good.
        if not (folder / JAR).exists():
            raise
