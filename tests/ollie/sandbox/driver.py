"""The process that scenarios run in: a JSON object a line on standard input, an answer a line on standard output."""

import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import deaths
import scenarios


def main() -> None:
    """Serve until standard input ends."""
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = runner.run(_scenario(request["scenario"])(**request["arguments"]))
            except BaseException:  # noqa: BLE001  it goes to the test as it is
                answer = {"failure": traceback.format_exc()}
            print(json.dumps(answer), flush=True)  # noqa: T201  the answer
        runner.run(scenarios.close())


def _scenario(name: str) -> Callable[..., Coroutine[None, None, dict[str, object]]]:
    return getattr(scenarios if hasattr(scenarios, name) else deaths, name)


main()
