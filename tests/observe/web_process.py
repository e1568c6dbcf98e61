"""
A web application's process, which sets jobs and serves the API, but fires nothing.

    python web_process.py PORT STORE
"""

from __future__ import annotations

import sys

import uvicorn

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service import tickwheel_app

if __name__ == "__main__":
    port, store = sys.argv[1:]
    uvicorn.run(tickwheel_app(AsyncScheduler(store)), host="127.0.0.1", port=int(port), log_level="warning")
