"""The page of experiments that still run, served to a browser on this machine: reads the store, never writes into it."""
