"""Every name of a file or folder that a run leaves, in a module without imports.

A run (`collab run`):

recipe.yaml            the resolved recipe, which refers to the user's files in this folder
functions/  data/      the user's functions, and the rows of a suite that is a file
run.json               the team or trainer, the versions, and the outcome
episodes.jsonl         one episode per line, appended as they end
best.jsonl             with --best-of: one problem per line, the best of all combinations of answers
probe.json             of `collab probe`: `collab.probe.results.TeamProbe`
report.html            the page of `collab report`
.lock                  locked while a process writes the folder; it may stay afterwards

In a training run (`collab train`), `recipe.yaml` is the trained team. It also has:

training.yaml          the recipe as it was trained
metrics.jsonl          one step or evaluation per line
evaluation.jsonl       one held-out episode per line, with its step and mode
logs/rank-1.log        output of another rank than the first, if there are several
logs/vllm-0-rank-0.log    output of the vLLM server that a rank starts, if there are several ranks
adapters/POLICY/       the policies in PEFT's format; models/AGENT/ for whole models
checkpoints/step-000012/   each whole or not there:
    policies/NAME/     the policy's parameters; an adapter's in PEFT's format
    state.pt           the states of learner, algorithm and random numbers
    state.json         the step, the best step so far, and the sizes of the run's files

An evaluation (`collab eval`):

eval.json              settings, numbers, intervals: `collab.evaluation.results.Results`
report.html, .lock     like those of a run
TEAM/                  one folder per team, like that of a run

A study (`collab study`):

study.json             cells, numbers, intervals: `collab.study.results.StudyResults`
study.yaml             the study
report.html, .lock     like those of a run
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
LOGS = "logs"
RANK_LOG = "rank-{rank}.log"
SERVER_LOG = f"vllm-{{place}}-{RANK_LOG}"
ADAPTERS = "adapters"
MODELS = "models"
CHECKPOINTS = "checkpoints"
CHECKPOINT_PREFIX = "step-"
"""Prefix of the names of checkpoints, before the number of the step."""
CHECKPOINT_POLICIES = "policies"
CHECKPOINT_TENSORS = "state.pt"
CHECKPOINT_STATE = "state.json"

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
"""The two files of an adapter, as PEFT names them."""
MODEL_CONFIG = "config.json"
"""The file that every model has, as transformers names it."""

REFERENCED_FILES = (ADAPTER_CONFIG, MODEL_CONFIG, EPISODES)
"""A folder that a recipe names, an adapter, a model or a run, holds at least one of these."""

EVAL = "eval.json"
LOCK = ".lock"

REPORT = "report.html"

STUDY = "study.json"
STUDY_RECIPE = "study.yaml"
TRAINING_LOG = "log.txt"

RECORD_FILES = (RUN, EPISODES, METRICS, EVALUATION, EVAL, RECIPE, TRAINING)
"""Files of a record that a report or a model card may show."""

RUN_MARKERS = (RUN, EPISODES, TRAINING, EVAL)
"""The folder of a run, a training run or an evaluation holds at least one of these."""

RUNS, EVALS, STUDIES = DEFAULT_FOLDERS = ("runs", "evals", "studies")
"""Folders in which commands leave their records by default."""
