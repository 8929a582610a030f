"""What tests put into a store."""

from ollie.store.interface import AgentRow, SessionRow

SESSION = SessionRow(id="s1", number=1, name="one", cwd="/w", paused=True, created_at=1.5)


def agent(agent_id: str, number: int, session: str = "s1", *, temporary: bool = False) -> AgentRow:
    """An agent with something in every field."""
    return AgentRow(
        id=agent_id,
        number=number,
        session=session,
        name=f"name of {agent_id}",
        cwd="/",
        profile="default",
        settings={"max_steps": 3, "stop": ["x"], "model": "m"},
        ceiling=b"\0bound",
        parent="p",
        temporary=temporary,
    )
