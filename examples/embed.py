"""Run a team from a script and print its answers.

Usage: python examples/embed.py humaneval/12
"""

import sys

import collab


def main(address: str, model: str = "smollm2-135m") -> None:
    team = collab.load("coding", model=model, samples=2, seed=1)
    rollout = team.run(address)
    for episode in rollout.episodes:
        if episode.score is not None:  # a failed episode may have none
            print(f"{episode.id}: reward {episode.reward} of {episode.score.maximum}")
        for agent, code in (episode.turns[-1].artifacts if episode.turns else {}).items():
            print(f"--- {agent}\n{code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
