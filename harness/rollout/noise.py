"""Noise by counters: a number belongs to (seed, step, problem, sample, position), so that a resume needs no generator's state. No torch."""

import hashlib
from collections.abc import Sequence

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(state: np.ndarray) -> np.ndarray:
    """SplitMix64's bijective finaliser on uint64 arrays (wraps silently)."""
    z = state.astype(np.uint64, copy=True)
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def key(*parts: int | str) -> np.uint64:
    """A 64-bit key of a tuple of integers and strings, stable across processes and versions."""
    digest = hashlib.blake2b("\x1f".join(str(part) for part in parts).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def sample_seeds(stream: np.uint64, prompt_keys: Sequence[int] | np.ndarray, samples: int) -> np.ndarray:
    """Seeds [P, G]: one for each (prompt key, sample index) within a stream such as (run seed, step, round)."""
    prompts_P = mix(np.asarray(prompt_keys, dtype=np.uint64) * _GOLDEN + stream)
    index_G = (np.arange(samples, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    return mix(prompts_P[:, None] + index_G[None, :])


def uniforms(seeds_R: np.ndarray, positions: int) -> np.ndarray:
    """Uniform numbers in (0, 1], float64 [R, positions]: entry (r, t) depends on `seeds_R[r]` and t alone."""
    counter_T = (np.arange(positions, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    bits = mix(seeds_R.astype(np.uint64)[:, None] + counter_T[None, :])
    return ((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
