"""Every name of a file or folder that a run leaves, in a module without imports.

A run (`collab run`):

recipe.yaml            the resolved recipe, which refers to the user's files in this folder
functions/  data/      the user's functions, and the rows of a suite that is a file
run.json               the command, the versions and the outcome
episodes.jsonl         one episode per line, appended when it ends
best.jsonl             with --best-of: the best of all combinations of answers, one problem per line
probe.json             `collab probe`: a `collab.probe.results.TeamProbe`

In a training run (`collab train`), `recipe.yaml` is the trained team. It also has:

training.yaml          the recipe that was trained
metrics.jsonl          one step or evaluation per line
rates.json             with a filter: the team's rate on each task before training
evaluation.jsonl       one held-out episode per line, with its step and mode
logs/rank-1.log        with several ranks: the output of a rank other than the first
adapters/POLICY/       the policies in PEFT's format, or models/AGENT/ for whole models
checkpoints/step-000012/   each either complete or absent:
    policies/NAME/     the policy's parameters, in PEFT's format for adapters
    state.pt           the states of learner, algorithm and random numbers
    state.json         the step, the best step so far, and the sizes of the run's files

An evaluation (`collab eval`):

eval.json              settings, numbers, intervals
TEAM/                  one folder per team, like that of a run

A study (`collab study`):

study.json             cells, numbers, intervals
study.yaml             the study
CELL/                  one folder per training run, with its output in log.txt
"""

RECIPE = "recipe.yaml"
FUNCTIONS = "functions"
DATA = "data"
RUN = "run.json"
EPISODES = "episodes.jsonl"
BEST = "best.jsonl"
PROBE = "probe.json"

TRAINING = "training.yaml"
METRICS = "metrics.jsonl"
EVALUATION = "evaluation.jsonl"
RATES = "rates.json"
LOGS = "logs"
ADAPTERS = "adapters"
MODELS = "models"
CHECKPOINTS = "checkpoints"
CHECKPOINT = "step-"
"""Prefix of the names of checkpoints, before the number of the step."""
CHECKPOINT_POLICIES = "policies"
CHECKPOINT_TENSORS = "state.pt"
CHECKPOINT_STATE = "state.json"

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
"""The two files of an adapter, as PEFT names them."""

EVAL = "eval.json"
LOCK = ".lock"

REPORT = "report.html"

STUDY = "study.json"
STUDY_RECIPE = "study.yaml"
TRAINING_LOG = "log.txt"

MARKS = (RUN, EPISODES, TRAINING, EVAL)
"""The folder of a run, a training run or an evaluation holds at least one of these."""

PLACES = ("runs", "evals", "studies")
"""Folders in which commands leave their records by default."""
