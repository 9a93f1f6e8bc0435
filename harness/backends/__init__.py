"""Training backends: who trains a run. A member defines `Config` and

* `check(config: RunConfig) -> list[str]`: every choice of the configuration that the backend cannot express, with the key to change; such
  an arm is refused by `harness plan` and `harness run`, never trained as something else;
* `train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool`: trains and evaluates into the run directory;
  returns whether the run is complete (False: it stopped in a resumable state because `stop()` said so);
* `TRAINER: str`, if it starts ranks by `harness.training.torchrun`: the module whose `train_run` each of them calls as `train` is called.

Optional:

* `differences(config: RunConfig) -> list[str]`: what it does otherwise than the built-in trainer, without changing what is asked; plan and
  answer say it;
* `absent(config: RunConfig) -> list[str]`: packages, programs and the like that this machine lacks to train it, with the fix. It is not
  asked for runs that are sent to other machines.

May import: configuration, exchange, model, objective, problems, reward, rollout, sampling, store, training, verify.
"""

FUNCTIONS = ("check", "train")  # of a member
