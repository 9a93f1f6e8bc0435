"""Weights between sampler and trainer by hand, and their recorded distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

