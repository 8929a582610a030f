"""Results of tools, shortened to what a small model can read. Pure.

Each result is cut when it is first shown and stays the same afterwards. When all of them together become too long, the
oldest are replaced by a note, at once down to half of the limit: so the beginning of the prompt, which the engine has
in its cache, changes once in many turns and not in each.
"""

from collections.abc import Iterable

_RESULT_CHARS = 2400
_HEAD_SHARE = 0.7


def trimmed(results: Iterable[str], context: int) -> list[str]:
    """The texts to show for `results`, oldest first, to a model with a context of that many tokens.

    What stands for the first N results depends on them alone, until a later one makes the sum too long.
    """
    limit = context * 3 // 2  # characters: two thirds of the context when a token has two, half with the usual four
    shown: list[str] = []
    kept_from = 0
    for result in results:
        shown.append(_cut(result, min(_RESULT_CHARS, limit // 4)))
        if sum(map(len, shown[kept_from:])) > limit:
            while sum(map(len, shown[kept_from:-1])) > limit // 2:
                kept_from += 1
    return [_note(text) for text in shown[:kept_from]] + shown[kept_from:]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = int(limit * _HEAD_SHARE)
    tail = limit - head
    return f"{text[:head]}\n[{len(text) - limit} characters are left out here]\n{text[-tail:]}"


def _note(text: str) -> str:
    return f"[{len(text)} characters, no longer shown; call the tool again if you need them]"
