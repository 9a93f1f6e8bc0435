// The objective's algebra for one group, in plain JavaScript; agrees with the Python objective to 1e-9 (tests/explain).
// A group: {rewards, lengths, ratios} with one importance ratio a rollout; tokens of a rollout share it.
"use strict";

const sum = (xs) => xs.reduce((a, b) => a + b, 0);

function moments(values, weights, ddof) {
  const total = sum(weights);
  const mean = sum(values.map((v, i) => v * weights[i])) / Math.max(total, 1);
  const square = sum(values.map((v, i) => (v - mean) ** 2 * weights[i]));
  return [mean, Math.sqrt(square / Math.max(total - ddof, 1))];
}

const withoutSpread = (values, std) => std <= 1e-12 * values.reduce((a, v) => Math.max(a, Math.abs(v)), 0);

function centre(rewards, baseline) {
  if (baseline === "none") return rewards.slice();
  const n = rewards.length, mean = sum(rewards) / n;
  if (Math.max(...rewards) <= Math.min(...rewards)) return rewards.map(() => 0);
  const scale = baseline === "leave_one_out" ? n / Math.max(n - 1, 1) : 1;
  return rewards.map((r) => (r - mean) * scale);
}

const constant = (perRollout, lengths) => perRollout.map((v, i) => new Array(lengths[i]).fill(v));

function whiten(tokens, lengths, over, ddof, epsilon) {
  const weights = tokens.flatMap((row, i) => row.map(() => (over === "sequences" ? 1 / lengths[i] : 1)));
  const flat = tokens.flat(), [mean, std] = moments(flat, weights, ddof);
  if (withoutSpread(flat, std)) return tokens.map((row) => row.map(() => 0));
  return tokens.map((row) => row.map((v) => (v - mean) / (std + epsilon)));
}

const ADVANTAGES = {
  group(c, g) {
    let a = centre(g.rewards, c.baseline);
    const ones = a.map(() => 1);
    if (c.scale === "group_std") {
      const [, std] = moments(g.rewards, ones, c.ddof);
      a = a.map((v) => v / (std + c.epsilon));
    } else if (c.scale === "group_mean") {
      const mean = sum(g.rewards) / g.rewards.length;
      a = a.map((v) => (mean === 0 ? 0 : v / (mean + c.epsilon)));
    } else if (c.scale !== "none") {
      const [mean, std] = moments(c.scale === "batch_reward_std" ? g.rewards : a, c.whiten_over === "tokens" ? g.lengths : ones, c.ddof);
      const centred = c.baseline !== "none" && c.whiten_over === "sequences";
      const shift = c.scale === "batch_whiten" && !centred ? mean : 0;
      const flat = c.scale === "batch_whiten" && withoutSpread(g.rewards, std);
      a = a.map((v) => (flat ? 0 : (v - shift) / (std + c.epsilon)));
    }
    return constant(a, g.lengths);
  },
  return_to_go(c, g) {
    return whiten(constant(centre(g.rewards, c.baseline), g.lengths), g.lengths, c.whiten_over, c.ddof, c.epsilon);
  },
  gae(c, g) {
    const value = sum(g.rewards) / g.rewards.length;
    const tokens = g.lengths.map((length, i) => {
      const alpha = c.length_adaptive_alpha;
      const lambda = alpha === null ? c.lambda_policy : Math.min(1, Math.max(0, 1 - 1 / (alpha * length)));
      const row = new Array(length);
      let running = 0;
      for (let t = length - 1; t >= 0; t--) {
        const following = t === length - 1 ? 0 : value, reward = t === length - 1 ? g.rewards[i] : 0;
        running = reward + c.discount * following - value + c.discount * lambda * running;
        row[t] = running;
      }
      return row;
    });
    return c.whiten_over === "none" ? tokens : whiten(tokens, g.lengths, c.whiten_over, c.ddof, c.epsilon);
  },
  decoupled(c, g) {
    const ones = g.rewards.map(() => 1), [, std] = moments(g.rewards, ones, c.ddof);
    let a = centre(g.rewards, "group_mean").map((v) => (c.outcome_weight * v) / (std + c.epsilon));
    if (c.batch_normalise) {
      const [, spread] = moments(a, ones, c.ddof);
      a = a.map((v) => v / (spread + c.epsilon));
    }
    return constant(a, g.lengths);
  },
  best_worst(c, g) {
    const high = Math.max(...g.rewards), low = Math.min(...g.rewards);
    const a = g.rewards.map(() => 0);
    if (high > low) {
      a[g.rewards.indexOf(high)] = 1;
      a[g.rewards.indexOf(low)] = -1;
    }
    return constant(a, g.lengths);
  },
  imitation(c, g) {
    return constant(g.correct.map((right) => (c.imitate === "all" || right ? 1 : 0)), g.lengths);
  },
};

function aggregationWeights(c, lengths) {
  const n = lengths.length, tokens = sum(lengths);
  if (c.kind === "response_mean") return lengths.map((l) => 1 / (l * n));
  if (c.kind === "token_sum") return lengths.map(() => 1);
  if (c.kind === "constant_sum") return lengths.map(() => 1 / (c.constant_tokens * n));
  if (c.kind !== "microbatch_token_mean") return lengths.map(() => 1 / tokens);
  const index = [], filled = [];
  for (const length of lengths) {
    const last = filled.length - 1;
    if (last < 0 || (filled[last] && filled[last] + length > c.micro_batch_tokens)) filled.push(length);
    else filled[last] += length;
    index.push(filled.length - 1);
  }
  return index.map((i) => 1 / (filled[i] * filled.length));
}

// -d loss / d log-probability of one token with advantage a and ratio rho, before the aggregation's weight.
const COEFFICIENTS = {
  ppo_clip(c, a, rho) {
    const clipped = Math.min(Math.max(rho, 1 - c.clip_low), 1 + c.clip_high);
    const moves = rho * a <= clipped * a;
    if (c.dual_clip !== null && a < 0 && Math.min(rho * a, clipped * a) < c.dual_clip * a) return 0;
    return moves ? rho * a : 0;
  },
  clip_cov: (c, a, rho) => (rho * a <= Math.min(Math.max(rho, 1 - c.clip_low), 1 + c.clip_high) * a ? rho * a : 0),
  kl_cov: (c, a, rho) => rho * a,
  soft_gate(c, a, rho) {
    const gate = 1 / (1 + Math.exp(-(a > 0 ? c.temperature_positive : c.temperature_negative) * (rho - 1)));
    return 4 * gate * (1 - gate) * rho * a;
  },
  geometric_mean(c, a, rho) {
    const x = Math.log(rho), held = a > 0 ? x <= c.clip_high : x >= -c.clip_low;
    return held ? rho * a : 0;
  },
  divergence_mask(c, a, rho, length, oldLogProb) {
    const old = Math.exp(oldLogProb), now = old * rho, tiny = 1e-8;
    const kl = -old * Math.log(rho) + (1 - old) * Math.log((1 - old + tiny) / (1 - now + tiny));
    const rises = c.divergence === "tv" ? now - old <= c.threshold_high : kl <= c.threshold_high || now <= old;
    const falls = c.divergence === "tv" ? now - old >= -c.threshold_low : kl <= c.threshold_low || now >= old;
    return (a > 0 ? rises : falls) ? Math.min(rho, c.cap) * a : 0;
  },
  gamma_weight(c, a, rho, length) {
    const moved = Math.min(Math.max(Math.log(rho), -20), 20) * length;
    const x = Math.min(Math.max(moved, Math.log(1e-8)), 20);
    const [power, decay] = a >= 0 ? [c.power_positive, c.decay_positive] : [c.power_negative, c.decay_negative];
    return Math.exp(decay + power * x - decay * Math.exp(x)) * a;
  },
  clipped_is: (c, a, rho) => Math.min(Math.max(rho, c.cap_min), c.cap_max) * a,
  policy_gradient: (c, a, rho) => (c.importance_weighted ? rho * a : a),
};

function pairCoefficients(c, g, advantages) {
  const gain = g.ratios.map((rho, i) => Math.log(rho) * (c.log_prob === "mean" ? 1 : g.lengths[i]));
  const sign = advantages.map((row) => Math.sign(row[0])), best = sign.indexOf(1);
  if (best < 0) return advantages.map((row) => row.map(() => 0));
  const margin = sum(gain.map((v, i) => v * sign[i]));
  const slope = c.beta / (1 + Math.exp(c.beta * margin)) / g.lengths.length;
  return advantages.map((row, i) => row.map(() => sign[i] * slope / (c.log_prob === "mean" ? g.lengths[i] : 1)));
}

function klSlope(kl, x) {
  return { k1: 1, k2: x, k3: 1 - Math.exp(-x), k3_k2: x, k3_ratio: x * Math.exp(x) }[kl.kind] * kl.coefficient;
}

function tokenCoefficients(system, g, advantages) {
  if (system.surrogate.kind === "best_worst_dpo") return pairCoefficients(system.surrogate, g, advantages);
  const weights = aggregationWeights(system.aggregation, g.lengths);
  const rightTokens = Math.max(sum(g.lengths.filter((_, i) => g.correct[i])), 1);
  return advantages.map((row, i) => {
    const kl = system.kl.coefficient > 0 && system.kl.placement === "loss" ? klSlope(system.kl, Math.log(g.ratios[i])) : 0;
    const likelihood = g.correct[i] ? system.positive_nll_coefficient / rightTokens : 0;
    const limit = system.off_policy_mask_nats, left = limit !== null && -Math.log(g.ratios[i]) > limit;
    const slope = COEFFICIENTS[system.surrogate.kind], old = g.old_log_probs ? g.old_log_probs[i] : -1;
    return row.map((a) => {
      const policy = left && a < 0 ? 0 : slope(system.surrogate, a, g.ratios[i], g.lengths[i], old);
      return (policy - kl) * weights[i] + likelihood;
    });
  });
}

// System -> one {reward, length, advantage, coefficient, share} a rollout.
function explainGroup(systems, group) {
  const high = Math.max(...group.rewards), low = Math.min(...group.rewards), middle = (high + low) / 2;
  const correct = group.rewards.map((r) => (high > low ? r > middle : r > 0));
  const g = { ...group, correct, ratios: group.ratios || group.rewards.map(() => 1) };
  const result = {};
  for (const [name, system] of Object.entries(systems)) {
    const advantages = ADVANTAGES[system.advantage.kind](system.advantage, g);
    const coefficients = tokenCoefficients(system, g, advantages);
    const mass = coefficients.map((row) => sum(row.map(Math.abs))), total = sum(mass);
    result[name] = g.rewards.map((reward, i) => ({
      reward,
      length: g.lengths[i],
      advantage: sum(advantages[i]) / g.lengths[i],
      coefficient: sum(coefficients[i]) / g.lengths[i],
      share: total ? mass[i] / total : 0,
    }));
  }
  return result;
}
