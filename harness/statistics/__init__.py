"""Statistics over replicates (seeds, base policies, problems): intervals, families, power, looks and effects of patches.

Pure functions of numbers and arrays, on NumPy and SciPy alone. May import: nothing of ours. Imports no torch.
"""
