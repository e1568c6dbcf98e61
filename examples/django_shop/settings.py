"""
The settings of a small Django project, which keeps its jobs in its own database.
"""

from __future__ import annotations

import os
from pathlib import Path

DEBUG = True
SECRET_KEY = "of an example"  # noqa: S105  nothing is behind it
ROOT_URLCONF = "urls"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(os.environ.get("SHOP", ".")).absolute() / "shop.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},  # a transaction takes the write lock when it begins
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "tickwheel.integrations.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tickwheel.integrations.django.middleware.RuleMiddleware",  # replies 422 if a user's cron rule is invalid
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "Europe/Zurich"
