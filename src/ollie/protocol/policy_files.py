"""The files that hold sandbox policies: the user's, and the two that ship.

`default` is `sandbox.yaml`; any other name is `sandbox/<name>.yaml`, both in the configuration directory. A name that
the user has no file for is looked for among the shipped ones. A file is complete in itself: nothing is merged into it.
"""

import os
import re
from functools import lru_cache
from pathlib import Path

from ninep.errors import unknown
from ollie.protocol import yaml_text
from ollie.protocol.policy import Policy, PolicyError, parse
from ollie.protocol.words import reason

SHIPPED = Path(__file__).with_name("sandbox")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def load(name: str, config_dir: str) -> Policy:
    """The policy of that name, not expanded.

    Raises:
        PolicyError: `unknown sandbox: foo (known: default strict)`, or what is wrong in which file.
    """
    if not _NAME.fullmatch(name):
        raise PolicyError(f"bad sandbox name {name!r}")
    for path in _candidates(name, config_dir):
        if os.path.isfile(path):
            return _read(path, name)
    raise PolicyError(unknown("sandbox", name, names(config_dir)))


def names(config_dir: str) -> list[str]:
    """The names that `load` knows, sorted."""
    found = {path.stem for directory in (Path(config_dir, "sandbox"), SHIPPED) for path in directory.glob("*.yaml")}
    return sorted(name for name in found if _NAME.fullmatch(name))


def _candidates(name: str, config_dir: str) -> list[str]:
    own = [f"{config_dir}/sandbox.yaml"] if name == "default" else []
    return [*own, f"{config_dir}/sandbox/{name}.yaml", f"{SHIPPED}/{name}.yaml"]


def _read(path: str, name: str) -> Policy:
    try:
        with open(path, encoding="utf-8") as file:
            return _parsed(file.read(), name)
    except yaml_text.YamlError as error:
        raise PolicyError(f"{path}: not valid YAML: {error}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {reason(error)}") from None
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}") from None


@lru_cache(maxsize=16)
def _parsed(text: str, name: str) -> Policy:
    """The policy in the text of a file, which is read for each run and seldom another one."""
    return parse(yaml_text.load(text), name)
