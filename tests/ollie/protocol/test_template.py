"""Commands with arguments: tables, and that no value means more to a shell than itself."""

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollie.protocol.template import Template, TemplateError

_NAMES = {"a", "b", "pattern"}
_values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
# No function definitions: one that calls itself would never end.
_literals = st.text(st.sampled_from("ab '\"\\`$#();&|<\n")).filter(lambda text: not re.search(r"\(\s*\)", text))


@pytest.mark.parametrize(
    ("text", "arguments", "command"),
    [
        ("ls", {}, "ls"),
        ("grep -- {pattern} {a}", {"pattern": "x", "a": "."}, "grep -- x ."),
        ("grep -- {pattern}", {"pattern": "two words"}, "grep -- 'two words'"),
        ("grep -- {pattern}", {"pattern": "it's"}, "grep -- 'it'\"'\"'s'"),
        ("grep -- {pattern}", {"pattern": "$(rm -rf /)\n`x`"}, "grep -- '$(rm -rf /)\n`x`'"),
        ("grep -- {pattern}", {"pattern": "-e"}, "grep -- -e"),
        ("grep -- {pattern}", {"pattern": ""}, "grep -- ''"),
        ("grep -- {pattern}", {"pattern": "{a}", "a": "no"}, "grep -- '{a}'"),
        ("f {a}", {}, "f "),
        ("f {a}", {"a": None}, "f "),
        ("f {a}", {"a": 5}, "f 5"),
        ("f {a}", {"a": 0.5}, "f 0.5"),
        ("f {a}", {"a": True}, "f true"),
        ("f {a}", {"a": ["x y", 1]}, "f 'x y' 1"),
        ("f {a}", {"a": []}, "f "),
        ("f {a}", {"a": {"k": "é"}}, 'f \'{"k": "é"}\''),
        ("f {a:-i}", {"a": True}, "f -i"),
        ("f {a:-i}", {"a": False}, "f "),
        ("f {a:-i}", {}, "f "),
        ("f {a:--glob=}", {"a": "*.py"}, "f --glob='*.py'"),
        ("f {a:-g }", {"a": ["x", "y z"]}, "f -g x -g 'y z'"),
        ("f {c} ${a} {a,b} {print $1} {}", {"a": "x"}, "f {c} ${a} {a,b} {print $1} {}"),
        ("echo 'it''s' \"$HOME ${HOME}\" {a} # {b,c}", {"a": "x"}, "echo 'it''s' \"$HOME ${HOME}\" x # {b,c}"),
        ("echo a#b {a}", {"a": "x"}, "echo a#b x"),
        ("echo \\# {a}", {"a": "x"}, "echo \\# x"),
        ("# it's\nf {a}", {"a": "x"}, "# it's\nf x"),
        ("f $(g {a})", {"a": "x y"}, "f $(g 'x y')"),
        ("cat <<EOF\nx\nEOF", {}, "cat <<EOF\nx\nEOF"),
        ("cat <<<{a}", {"a": "x y"}, "cat <<<'x y'"),
    ],
)
def test_render(text: str, arguments: dict[str, object], command: str) -> None:
    """Arguments are put in as words, and everything else stays."""
    assert Template(text, _NAMES).render(arguments) == command


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("grep '{a}'", "{a} is within quotes, but it is quoted already"),
        ('grep "{a}"', "{a} is within quotes, but it is quoted already"),
        ("grep $'it\\'s {a}'", "{a} is within quotes, but it is quoted already"),
        ("grep `x {a}`", "{a} is within backquotes, but it is quoted already"),
        ("ls # {a}", "{a} is within a comment, but it is quoted already"),
        ("ls \\{a}", "{a} is within an escape, but it is quoted already"),
        ('x "$(f "{a}")"', "a substitution within quotes: assign it to a variable first"),
        ('x "${y:-"{a}"}"', "a substitution within quotes: assign it to a variable first"),
        ('x "`f`" {a}', "a substitution within quotes: assign it to a variable first"),
        ("cat <<EOF\n{a}\nEOF", "arguments in a command with a here-document cannot be quoted"),
        ("cat <<-EOF\n{a}\nEOF", "arguments in a command with a here-document cannot be quoted"),
        ("echo $(( {a} ))", "arguments in a command with shell arithmetic cannot be quoted"),
    ],
)
def test_arguments_that_cannot_be_quoted(text: str, error: str) -> None:
    """A command whose quoting a value could leave is refused when it is read."""
    with pytest.raises(TemplateError) as caught:
        Template(text, _NAMES)
    assert str(caught.value) == error


@pytest.mark.parametrize(("value", "error"), [("a\0b", "argument a contains a NUL"), ("\ud800", "argument a is not u")])
def test_values_that_are_no_words(value: str, error: str) -> None:
    """What no command line can carry is refused with the argument's name."""
    with pytest.raises(TemplateError, match=error):
        Template("f {a}", _NAMES).render({"a": value})
    with pytest.raises(TemplateError, match=error):
        Template("f {a}", _NAMES).render({"a": [value]})


@pytest.mark.parametrize("shell", ["sh", "bash"])
@settings(max_examples=30, deadline=None)
@given(values=st.lists(_values, min_size=1, max_size=5))
def test_a_shell_reads_the_values_back(shell: str, values: list[str]) -> None:
    """Whatever the values are, the program is given them and nothing else happens."""
    command = Template("printf '%s\\0' {a} x{b}", _NAMES).render({"a": values, "b": values[0]})
    out = subprocess.run([shell, "-c", command], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == [*values, "x" + values[0]]


@settings(max_examples=150, deadline=None)
@given(before=_literals, after=_literals)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_no_accepted_command_runs_its_argument(
    shell: str, before: str, after: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever quoting surrounds an argument, a command that was accepted never executes what the value says."""
    directory = tmp_path_factory.getbasetemp()
    try:
        template = Template(before + "{a}" + after, _NAMES)
    except TemplateError:
        return
    # Only builtins, and no program can be found: what the literal text does is harmless, what the value does is seen.
    value = f" '$(echo >{directory}/ran)' `echo >{directory}/ran` "
    command = template.render({"a": value})
    subprocess.run(
        [f"/bin/{shell}", "-c", command],
        cwd=directory,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert not (directory / "ran").exists()
