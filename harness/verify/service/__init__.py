"""Slow cases in processes that can be killed."""
