"""What the embedded model is shown: a request as chat messages and a grammar. Pure.

The model is small and runs on a processor core, which reads about 30 tokens a second: the instructions are short, and
everything up to the newest message is byte for byte what it was in the turn before, so that the engine finds it in its
cache. What is fixed comes first: our instructions, the tools, the examples; then the engine's system text and the
history. Examples name only tools that the request has, with arguments that their schemas take.

The first reply to a request begins with what it is about. Asked only to choose between a tool and an answer, such a
model now and then answers from the examples; so asked, its odds for questions about the directory and for others are a
factor of a hundred apart. Most examples with tools take two calls: after one it is tempted to guess the rest.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ollie.backends.local.grammar import SEPARATORS, grammar, offered, opening
from ollie.backends.local.trim import trimmed
from ollie.engine.messages import (
    Assistant,
    Content,
    Message,
    Request,
    TextContent,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

Chat = dict[str, str]
"""One message as the engine takes it: `role` and `content`."""


class Prompt(NamedTuple):
    """What the engine is given.

    Args:
        messages: the conversation.
        fixed: how many of the first ones are the same in every prompt with these tools.
        grammar: what the reply is held to, None for plain text.
        bias: words of which the reply is made more likely, by so much in their logarithm.
    """

    messages: list[Chat]
    fixed: int = 0
    grammar: str | None = None
    bias: Mapping[str, float] = {}


class Step(NamedTuple):
    """A call in an example, and what it gave."""

    tool: str
    arguments: dict[str, Any]
    result: str
    is_error: bool = False


class Example(NamedTuple):
    """A short conversation that shows the form of replies."""

    question: str
    steps: tuple[Step, ...]
    answer: str


_NAME = "You are Ollie, a helpful assistant."
_RULES = """You are Ollie's assistant. You work for the user in a directory of their computer.
Each of your replies is one line of JSON. The first one also says what the request is about.
About files, commands or whatever else is on the computer: call a tool, whose result you are then shown. You know \
nothing of them, and nothing is done before a tool has done it.
{"about": "computer", "tool": NAME, "arguments": {...}}
About general knowledge, or just talk: answer at once.
{"about": "talk", "answer": TEXT}
After a result: call again, or answer the user when the whole task is done.
{"tool": NAME, "arguments": {...}}
{"answer": TEXT}
Go one step at a time, with simple commands: ls -S (largest first), ls -t (newest first), \
ls | wc -l (number of files), wc -l * (numbers of lines), grep -rn WORD . (where it stands), \
echo TEXT >> FILE (append), rm, mv, mkdir, sort, awk.
When a call fails, try another way. Take names and numbers exactly from the results. Answer in one or two sentences."""

_AGAIN = "You have made this call before, with the same result. Make another one, or answer."
_PERSEVERANCE = {"tool": 0.7}
"""After a result, the odds of another call. Without it the model guesses the second half of some answers: over fourteen
tasks the logarithm was -1.3 to 1.8 where a call was missing, -3.3 to -1.2 where none was."""

_PATIENCE = 3
"""Equal calls with equal results for one request, after which only an answer is allowed."""

_BEGIN = "These were examples. What follows is real."

_EXAMPLES = (
    Example("hi, who are you?", (), "I am Ollie's assistant. I can look at your files, change them and run commands."),
    Example(
        "what is in src?",
        (Step("shell", {"cmd": "ls src"}, "lexer.c\nlexer.h"),),
        "There are lexer.c and lexer.h in src.",
    ),
    Example(
        "how many words has README?",
        (Step("shell", {"cmd": "wc -w README"}, "812 README"),),
        "README has 812 words.",
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
    Example("who wrote Faust?", (), "Johann Wolfgang von Goethe."),
    Example(
        "which picture is the newest, and how wide is it?",
        (
            Step("shell", {"cmd": "ls -t"}, "roof.png\ndoor.png\nREADME"),
            Step("shell", {"cmd": "file roof.png"}, "roof.png: PNG image data, 640 x 480"),
        ),
        "The newest picture is roof.png. It is 640 pixels wide.",
    ),
    Example(
        "why does build.sh fail?",
        (
            Step("shell", {"cmd": "sh build.sh"}, "build.sh: 2: gc: not found\nexit status 127", is_error=True),
            Step("file_read", {"path": "build.sh"}, "#!/bin/sh\ngc -o game game.c"),
        ),
        "Line 2 calls gc, which does not exist. Perhaps gcc is meant.",
    ),
    Example("how many legs has a spider?", (), "Eight."),
    Example(
        "make a shell script that prints the date, and try it",
        (
            Step("file_write", {"path": "today.sh", "content": "#!/bin/sh\ndate +%F\n"}, "wrote 19 bytes to today.sh"),
            Step("shell", {"cmd": "sh today.sh"}, "2024-05-07"),
        ),
        "I made today.sh. It printed 2024-05-07.",
    ),
)


def prompt(request: Request, context: int) -> Prompt:
    """`request` for a model with a context of that many tokens.

    Results of tools are shortened to what fits such a model, see `trim.py`; nothing else is.
    """
    history = _History(request.messages, context, plain=not request.tools)
    if not request.tools:
        return Prompt(_merged([_chat("system", _joined(_NAME, request.system)), *history.chat]))
    tools = _chat("system", _joined(_RULES, "Tools:\n" + "\n".join(_signature(tool) for tool in request.tools)))
    fixed = [tools, *_examples(request.tools)]
    begin = _chat("system", _joined(_BEGIN, request.system))
    allowed = () if history.repeats >= _PATIENCE else request.tools
    return Prompt(
        messages=[*fixed, *_merged([begin, *history.chat])],
        fixed=len(fixed),
        grammar=grammar(allowed, first=history.fresh),
        bias={} if history.fresh else _PERSEVERANCE,
    )


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
    properties = offered(tool.input_schema)["properties"]
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
            for number, step in enumerate(example.steps):
                arguments = json.dumps(step.arguments, separators=SEPARATORS)
                chat.append(_chat("assistant", _call(step.tool, arguments, first=number == 0)))
                chat.append(_chat("user", _result(step.tool, step.result, is_error=step.is_error)))
            chat.append(_chat("assistant", _answer(example.answer, first=not example.steps)))
    return chat


def _takes(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return set(schema.get("required", ())) <= arguments.keys() <= set(schema.get("properties", ()))


def _call(tool: str, arguments: str, *, first: bool) -> str:
    return f'{opening("computer", first=first)}"tool": {json.dumps(tool)}, "arguments": {arguments}}}'


def _answer(text: str, *, first: bool) -> str:
    return f'{opening("talk", first=first)}"answer": {json.dumps(text, ensure_ascii=False)}}}'


def _result(tool: str, text: str, *, is_error: bool = False) -> str:
    if is_error:
        return f"{tool} failed:\n{text}"
    return f"{tool} gave:\n{text}" if text else f"{tool}: done, no output."


# History


class _History:
    """The conversation as chat messages.

    Each call is followed by its own result, as if a reply had never had more than one. `fresh`: the next reply is the
    first one to a request. `repeats`: how often its last call has been made for that request, with the same result.
    """

    def __init__(self, messages: Sequence[Message], context: int, *, plain: bool) -> None:
        self.chat: list[Chat] = []
        self.fresh = False
        self.repeats = 0
        self._plain = plain
        self._made: list[tuple[str, str, str]] = []
        results = [message for message in messages if isinstance(message, ToolResult)]
        texts = iter(trimmed([_text(result.content) for result in results], context))
        calls = {call.id: call for message in messages if isinstance(message, Assistant) for call in message.calls}
        before: Message | None = None
        for message in messages:
            match message:
                case User(text=text):
                    # Behind a result it is a remark in the middle of the task, not a new request.
                    self.fresh = not isinstance(before, ToolResult)
                    self.repeats = 0
                    self._made.clear()
                    self.chat.append(_chat("user", text))
                case Assistant(text=text, calls=()) if text:
                    self._reply(text if plain else _answer(text, first=self.fresh))
                case ToolResult(call_id=call_id, name=name):
                    call = calls.get(call_id, ToolCall(call_id, name, "{}"))
                    self._run(call, _result(name, next(texts), is_error=message.is_error))
                case _:  # calls are shown with their results; a reply without words shows nothing
                    pass
            before = message

    def _reply(self, text: str) -> None:
        self.chat.append(_chat("assistant", text))
        self.fresh = False

    def _run(self, call: ToolCall, result: str) -> None:
        self._made.append((call.name, call.arguments, result))
        self.repeats = self._made.count(self._made[-1])
        self._reply(_call(call.name, call.arguments, first=self.fresh and not self._plain))
        self.chat.append(_chat("user", _joined(result, _AGAIN if self.repeats > 1 else "")))


def _text(content: Iterable[Content]) -> str:
    parts = (part.text if isinstance(part, TextContent) else "[an image, which you cannot see]" for part in content)
    return "\n".join(parts).strip("\n")
