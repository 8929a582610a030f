"""How many connections the tools of an agent may have, so that there are always some left for the owner."""

from ninep.server import Conn
from ollie.olliesrv.errors import RefusedError
from ollie.sandbox.open_files import scarce

EXHAUSTED = "olliesrv has at most as many open files as the system lets it have, and none to spare; close connections"


class Connections:
    """The connections of all agents.

    Args:
        most: of one agent.
        most_of_run: of one run of a tool.
    """

    def __init__(self, most: int, most_of_run: int) -> None:
        self._most = most
        self._most_of_run = most_of_run
        self._held: dict[Conn, tuple[str, str]] = {}

    def admit(self, conn: Conn, agent: str, run: str = "") -> None:
        """One more, unless it is known.

        Args:
            conn: the connection.
            agent: the id of the agent that it belongs to.
            run: the number of the run that it was made for; empty where that is not known.

        Raises:
            RefusedError: there may be no more; the text names the setting.
        """
        self._held = {held: whose for held, whose in self._held.items() if held.socket.fileno() >= 0}
        if conn in self._held:
            return
        agents = [its_run for its_agent, its_run in self._held.values() if its_agent == agent]
        if run and agents.count(run) >= self._most_of_run:
            raise RefusedError(
                f"one run may have at most {self._most_of_run} connections (max_run_connections in config.yaml); "
                "close one"
            )
        if len(agents) >= self._most:
            raise RefusedError(
                f"the tools of an agent may have at most {self._most} connections (max_connections in config.yaml); "
                "close one"
            )
        if scarce():
            raise RefusedError(EXHAUSTED)
        self._held[conn] = agent, run
