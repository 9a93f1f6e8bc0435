"""Whether this installation computes the numbers that it should: short runs against reference points that ship with the package.

`protocol` says which runs, `measured` reads them from the store, `reference` holds what they gave where the package was made, `compare` is
the statistics, `check` puts them together for `harness doctor numbers=true`, and `make_reference` writes the reference points anew.
"""
