"""
Cancel unpaid orders, in Django.

    python manage.py migrate
    python manage.py tickwheel &
    python manage.py runserver

`shop/views.py` sets the jobs, and `shop/jobs.py` has their handler. The admin site lists the pending jobs.
"""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
