"""Plugins for Hydra: a launcher that supervises runs in processes of this machine, and a sweeper that declares experiments."""
