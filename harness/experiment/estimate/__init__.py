"""The cost of a run from first principles: for runs of models of which the store has no run to go by. No torch, nothing measured.

`memory` counts bytes on one GPU, `work` counts tokens, products and seconds, `fit` says what does not fit and what would, `words` puts it
in lines. Every assumption is a key of `runtime.assumed`.
"""
