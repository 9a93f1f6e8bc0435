"""The fault of an update that ends a run."""

from __future__ import annotations

from typing import Any


class NumericalFault(RuntimeError):
    """Loss, gradient or advantages stopped being finite; `batch` is what the update was made of, for inspection."""

    def __init__(self, message: str, batch: dict[str, Any]) -> None:
        super().__init__(message)
        self.batch = batch
