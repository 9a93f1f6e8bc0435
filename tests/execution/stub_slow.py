"""A worker whose libraries take long to load."""

import time

from stub_worker import steps  # noqa: F401

time.sleep(15)
