"""`session/{session}/agent/{agent}/stats`: what it has used, and what it is doing."""

from ollie.olliesrv.door.peer import OlliePeer
from ollie.olliesrv.sessions.agent import Agent
from ollie.protocol import payload
from ollie.protocol.words import moment


def render(agent: Agent, _peer: OlliePeer) -> bytes:
    """`key=value` lines, values escaped as in a payload; no context limit is known of any model."""
    outfit, counts = agent.outfit, agent.account.counts
    totals, usage = counts.totals, counts.totals.usage
    values = {
        "state": agent.state,
        "activity": agent.runner.activity,
        "backend": outfit.backend_name,
        "model": outfit.model,
        "profile": agent.row.profile,
        "queue": agent.queued,
        "turns": totals.turns,
        "requests": totals.requests,
        "tool_calls": totals.tool_calls,
        "errors": totals.errors,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "estimated": totals.estimated,
        "cost_usd": f"{totals.cost_usd:.6f}",
        "cost_last_turn_usd": f"{counts.cost_last_turn_usd:.6f}",
        "context_tokens": totals.context_tokens,
        "context_limit": "",
        "chat_bytes": agent.chat.length,
        "turn_chat_offset": counts.turn_chat_offset,
        "started_at": moment(agent.row.created_at),
    }
    return payload.format({key: str(value) for key, value in values.items()})
