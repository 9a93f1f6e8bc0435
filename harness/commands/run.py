"""Run an experiment: plan, check, train, evaluate, answer. Repeat it at any moment: finished runs are never run again.

harness run experiment=dapo_ladder
harness run experiment=dapo_ladder 'experiment.seeds=[0,1]' training.steps=20
harness run experiment=dapo_ladder 'experiment.seeds={start: 5, step: 3, most: 20}'
harness run -m 'rung=glob(dapo_*)' seed=0,1,2
harness run algorithm=dapo seed=3
harness run experiment=clip_lr_search experiment.search.trials=40
harness run experiment=dapo_ladder match=tokens
harness run claim=gspo                          # judges a paper's claim; claim=all: every declared one
harness run experiment=dapo_ladder hydra/launcher=submitit_slurm hydra.launcher.partition=gpu

It is a Hydra application (docs/hydra.md): --multirun, --cfg job, --info, --config-dir and the rest are Hydra's. --no-answer leaves out
tables and figures.
"""

HYDRA = True  # arguments are read by Hydra: see `harness.train`
