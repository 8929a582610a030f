"""What the embedded model is shown: a request as chat messages and a grammar. Pure.

The model is small and runs on a processor core, which reads about 30 tokens a second: the instructions are short, and
everything up to the newest message is byte for byte what it was in the turn before, so that the engine finds it in its
cache. What is fixed comes first: our instructions, the tools, the examples; then the engine's system text and the
history. Examples name only tools that the request has, with arguments that their schemas take.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ollie.backends.local.grammar import SEPARATORS, grammar
from ollie.backends.local.trim import trimmed
from ollie.engine.messages import Assistant, Content, Message, Request, TextContent, ToolResult, ToolSpec, User

Chat = dict[str, str]
"""One message as the engine takes it: `role` and `content`."""


class Prompt(NamedTuple):
    """What the engine is given.

    Args:
        messages: the conversation.
        fixed: how many of the first ones are the same in every prompt with these tools.
        grammar: what the reply is held to, None for plain text.
    """

    messages: list[Chat]
    fixed: int
    grammar: str | None


class Step(NamedTuple):
    """A call in an example, and what it gave."""

    tool: str
    arguments: dict[str, Any]
    result: str


class Example(NamedTuple):
    """A short conversation that shows the form of replies."""

    question: str
    steps: tuple[Step, ...]
    answer: str


_NAME = "You are Ollie, a helpful assistant."
_RULES = """You are Ollie's assistant. You work for the user in a directory of their computer.
Each of your replies is one line of JSON, either a call of a tool, whose result you are then shown,
{"tool": NAME, "arguments": {...}}
or, when the task is done, your answer to the user:
{"answer": TEXT}
General questions and talk you answer at once. For whatever concerns files or the computer you use a tool first: \
you know nothing of them, and nothing is done before a tool has done it.
Go one step at a time, with simple commands: ls -S (largest first), ls -t (newest first), \
ls | wc -l (number of files), wc -l * (numbers of lines), grep, sort, awk. Look up every number.
When a call fails, try another way. Take names and numbers exactly from the results. Answer in one or two sentences."""

_AGAIN = "You have made this call before. Make another one, or answer."
_PATIENCE = 3
"""Equal calls in a row, after which only an answer is allowed."""

_BEGIN = "These were examples. What follows is real."

_EXAMPLES = (
    Example("hi, who are you?", (), "I am Ollie's assistant. I can look at your files, change them and run commands."),
    Example(
        "what is in src?",
        (Step("shell", {"cmd": "ls src"}, "lexer.c\nlexer.h"),),
        "There are lexer.c and lexer.h in src.",
    ),
    Example(
        "where is the colour set?",
        (Step("grep", {"pattern": "colou?r"}, "./conf/theme.ini:2:colour = blue"),),
        "In conf/theme.ini, line 2: colour = blue",
    ),
    Example(
        "add bread to list.txt",
        (Step("shell", {"cmd": "echo bread >> list.txt"}, ""),),
        "I added bread to list.txt.",
    ),
    Example(
        "make a shell script that prints the date, and try it",
        (
            Step("file_write", {"path": "today.sh", "content": "#!/bin/sh\ndate +%F\n"}, "wrote 19 bytes to today.sh"),
            Step("shell", {"cmd": "sh today.sh"}, "2024-05-07"),
        ),
        "I made today.sh. It printed 2024-05-07.",
    ),
    Example(
        "which picture is the newest, and how wide is it?",
        (
            Step("shell", {"cmd": "ls -t"}, "roof.png\ndoor.png\nREADME"),
            Step("shell", {"cmd": "file roof.png"}, "roof.png: PNG image data, 640 x 480, 8-bit/color RGB"),
        ),
        "The newest picture is roof.png. It is 640 pixels wide.",
    ),
    Example("who wrote Faust?", (), "Johann Wolfgang von Goethe."),
    Example(
        "how many words has README?",
        (Step("shell", {"cmd": "wc -w README"}, "812 README"),),
        "README has 812 words.",
    ),
)


def prompt(request: Request, context: int) -> Prompt:
    """`request` for a model with a context of that many tokens.

    Results of tools are shortened to what fits such a model, see `trim.py`; nothing else is.
    """
    history = _history(request.messages, context, said=_answer if request.tools else str)
    if not request.tools:
        return Prompt(_merged([_chat("system", _joined(_NAME, request.system)), *history]), 0, None)
    tools = _chat("system", _joined(_RULES, "Tools:\n" + "\n".join(_signature(tool) for tool in request.tools)))
    fixed = [tools, *_examples(request.tools)]
    begin = _chat("system", _joined(_BEGIN, request.system))
    allowed = () if _repeats(request.messages) else request.tools
    return Prompt([*fixed, *_merged([begin, *history])], len(fixed), grammar(allowed))


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in map(str.strip, parts) if part)


def _chat(role: str, content: str) -> Chat:
    # The engine reads <|…|> as control tokens wherever they stand: no file that is read may end its message so.
    return {"role": role, "content": content.replace("<|", "< |")}


def _merged(chat: Iterable[Chat]) -> list[Chat]:
    """Without two messages of one role in a row, which the templates of some models refuse."""
    merged: list[Chat] = []
    for message in chat:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1] = _chat(message["role"], f"{merged[-1]['content']}\n\n{message['content']}")
        else:
            merged.append(message)
    return merged


# Tools


def _signature(tool: ToolSpec) -> str:
    """One line: `grep(pattern: string, path?: string): Search files.`."""
    properties = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", ())
    arguments = (f"{name}{'' if name in required else '?'}: {_type(schema)}" for name, schema in properties.items())
    return f"{tool.name}({', '.join(arguments)}): {_first_sentence(tool.description)}"


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if isinstance(choices := schema.get("enum"), list):
        return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


def _first_sentence(description: str, limit: int = 160) -> str:
    """What a description begins with, up to an "e.g.": such a model takes the example for the thing."""
    return re.split(r"\.\s|\n|,? e\.g\.", description.strip(), maxsplit=1)[0].rstrip(".")[:limit] + "."


# Examples


def _examples(tools: Sequence[ToolSpec]) -> list[Chat]:
    chat: list[Chat] = []
    known = {tool.name: tool.input_schema for tool in tools}
    for example in _EXAMPLES:
        if all(step.tool in known and _takes(known[step.tool], step.arguments) for step in example.steps):
            chat.append(_chat("user", example.question))
            for step in example.steps:
                arguments = json.dumps(step.arguments, separators=SEPARATORS)
                chat.append(_chat("assistant", _call(step.tool, arguments)))
                chat.append(_chat("user", _result(step.tool, step.result)))
            chat.append(_chat("assistant", _answer(example.answer)))
    return chat


def _takes(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return set(schema.get("required", ())) <= arguments.keys() <= set(schema.get("properties", ()))


def _call(tool: str, arguments: str) -> str:
    return f'{{"tool": {json.dumps(tool)}, "arguments": {arguments}}}'


def _answer(text: str) -> str:
    return json.dumps({"answer": text}, ensure_ascii=False, separators=SEPARATORS)


def _result(tool: str, text: str, *, is_error: bool = False) -> str:
    if is_error:
        return f"{tool} failed:\n{text}"
    return f"{tool} gave:\n{text}" if text else f"{tool}: done, no output."


# History


def _history(messages: Sequence[Message], context: int, said: Callable[[str], str]) -> list[Chat]:
    """The conversation. Each call is followed by its own result, as if a reply had never had more than one."""
    texts = iter(trimmed([_text(message.content) for message in messages if isinstance(message, ToolResult)], context))
    calls = {call.id: call for message in messages if isinstance(message, Assistant) for call in message.calls}
    chat: list[Chat] = []
    before: Chat | None = None
    for message in messages:
        match message:
            case User(text=text):
                chat.append(_chat("user", text))
            case Assistant(text=text, calls=()) if text:
                chat.append(_chat("assistant", said(text)))
            case ToolResult(call_id=call_id, name=name, is_error=is_error):
                arguments = calls[call_id].arguments if call_id in calls else "{}"
                call = _chat("assistant", _call(name, arguments))
                again = _AGAIN if call == before else ""
                chat += [call, _chat("user", _joined(_result(name, next(texts), is_error=is_error), again))]
                before = call
            case _:  # calls are shown with their results; a reply without words shows nothing
                pass
    return chat


def _repeats(messages: Sequence[Message]) -> bool:
    """Whether the last calls are one and the same, again and again: at temperature 0 the next would be it too."""
    calls: list[tuple[str, str]] = []
    for message in messages:
        if isinstance(message, User):
            calls.clear()
        elif isinstance(message, Assistant):
            calls += ((call.name, call.arguments) for call in message.calls)
    return len(calls) >= _PATIENCE and len(set(calls[-_PATIENCE:])) == 1


def _text(content: Iterable[Content]) -> str:
    parts = (part.text if isinstance(part, TextContent) else "[an image, which you cannot see]" for part in content)
    return "\n".join(parts).strip("\n")
