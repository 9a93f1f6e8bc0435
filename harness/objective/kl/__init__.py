"""KL estimators to the reference policy, per token. A member defines `Config` and

`estimate(log_probs_N, reference_log_probs_N) -> kl_N`: [N] nats, differentiable in the first argument. With x = log π - log π_ref:
k1 = x, k2 = x²/2, k3 = exp(-x) - 1 + x (Schulman, "Approximating KL divergence", 2020). As a *loss* only k2's gradient is that of the
KL divergence; k3's is not (it is the reverse-direction one), and k1's has zero mean. All three are offered, since papers use them.

Optional: `RATIO_WEIGHTED = True`: in the loss the objective multiplies the estimate by its importance ratio, with gradient.
"""
