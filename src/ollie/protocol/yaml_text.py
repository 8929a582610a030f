"""Reading YAML that people have written."""

import yaml

# A policy is read for every call of a tool: the loader in C takes 0.3 ms for it, the other one 2.6.
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """A text that is not YAML; the words of the error are one line: `line 3: mapping values are not allowed here`."""


def load(text: str | bytes) -> object:
    """What a text holds, of plain types; a `YamlError` when it is not YAML."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError:
            raise YamlError("not UTF-8") from None
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  a safe loader in either case
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark, error.problem or "not understood"
        line = min(mark.line, text.rstrip().count("\n")) + 1 if mark else 0  # what is missing is missed behind the end
        raise YamlError(f"line {line}: {problem}" if line else problem) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise YamlError(" ".join(str(error).split())) from None
