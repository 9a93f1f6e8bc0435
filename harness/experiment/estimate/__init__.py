"""The cost of a run from first principles: for runs of models of which the store has no run to go by. No torch, nothing measured.

`memory` counts bytes on one GPU, `fit` says what does not fit and what would, `work` counts tokens, products and seconds and puts all in
lines. Every assumption is a key of `runtime.assumed`.
"""
