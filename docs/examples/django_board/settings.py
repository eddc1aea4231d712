"""The settings. There is no database: a visitor's name is in a signed cookie, all else is in DynamoDB."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent

SECRET_KEY = os.environ.get("BOARD_SECRET", "for trying it only")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "django_board.urls"
INSTALLED_APPS = ["pynacount.contrib.django"]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [HERE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django_board.views.names"]},
    }
]
CSRF_FAILURE_VIEW = "django_board.views.stale"
PYNACOUNT = {"MODELS": ["board.models"], "MAY_LOOK": "django_board.views.anybody"}
