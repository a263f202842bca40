"""A custom game in one file, and a project with it."""

from pathlib import Path

MATCH = '''\
from collab.environments import Environment, Observation, Step


class Match(Environment):
    """Both say a word at the same time; equal words earn both, the word that is drawn more."""

    seats = ("left", "right")

    def __init__(self, *, rounds: int = 2, words: tuple[str, ...] = ("go", "stay")) -> None:
        self.turns, self.returns = rounds, (0.0, float(rounds))
        self._words, self._wanted, self._said = words, "", []

    def reset(self, random):
        self._wanted, self._said = random.choice(self._words), []
        return Step(self._observed())

    def step(self, actions):
        equal = len(set(actions.values())) == 1
        right = equal and actions["left"] == self._wanted
        self._said.append(dict(actions))
        over = len(self._said) == self.turns
        return Step(
            {} if over else self._observed(),
            rewards=0.5 * equal + 0.5 * right,
            solved=right,
            summary="they agree" if equal else "they differ",
            values={"equal": float(equal)},
        )

    def render(self):
        return f"wanted {self._wanted}; said {self._said}"

    def moves(self):
        return {} if len(self._said) == self.turns else dict.fromkeys(self.seats, self._words)

    def _observed(self):
        last = ", ".join(self._said[-1].values()) if self._said else "nothing"
        return {
            "left": Observation(f"say {last}", last=last),
            "right": f"say {last} again",
        }
'''

TEAM = """\
turns: 2
agents:
  a: {prompt: "{{ observation }}"}
  b: {prompt: "{{ observation }}", revise: "you say {{ observation }}"}
"""

TASK = """\
kind: environment
environment: games.py:Match
source: {rows: 6}
splits: {train: "0-3", test: "4-5"}
"""


def make_match(folder: Path) -> None:
    """Write the game with the team `pair` and the suite `match`."""
    for subfolder in ("agents", "tasks"):
        (folder / subfolder).mkdir()
    (folder / "games.py").write_text(MATCH)
    (folder / "agents" / "pair.yaml").write_text(TEAM)
    (folder / "tasks" / "match.yaml").write_text(TASK)
