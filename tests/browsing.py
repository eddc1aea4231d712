"""A Chromium without a window, for tests that look at a page as its reader does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service


def missing() -> list[str]:
    return [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]


@contextmanager
def chromium(profile: Path, *, scripts: bool = True) -> Iterator[webdriver.Chrome]:
    """A browser of its own profile; without JavaScript, where ``scripts`` is False."""
    if missing():
        why = f"{' and '.join(missing())} not found"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}: the page is to be looked at in a browser here")
        pytest.skip(why)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for switch in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "disable-dev-shm-usage",
        "window-size=1280,1000",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{switch}")
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # The path is given, or Selenium would look for a driver on the network.
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def errors(browser: webdriver.Chrome) -> list[Any]:
    """What the browser complains of."""
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def as_phone(browser: webdriver.Chrome) -> None:
    """A phone's window."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefers(browser: webdriver.Chrome, scheme: str) -> None:
    """A reader who prefers it light, or dark."""
    preferred = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", preferred)
