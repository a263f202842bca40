"""A fake vLLM that a rank starts: `python stand_in.py --model FOLDER --port PORT ...`."""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.local_server import Handler
from support.vllm_servers.twin import VLLMTwin


class LoggingTwin(VLLMTwin):
    """Prints a line to stdout for every answer."""

    def answer(self, handler: Handler, body: dict[str, Any]) -> None:
        super().answer(handler, body)
        print(f"answered by {body['model']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    options, others = parser.parse_known_args()
    print(" ".join(others), flush=True)
    with LoggingTwin(Path(options.model), options.port) as server:
        server.closing.wait()


if __name__ == "__main__":
    main()
