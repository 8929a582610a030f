"""The options at the end of an aname."""

from dataclasses import dataclass

from ninep.errors import NinepError


@dataclass(frozen=True, slots=True)
class Options:
    """Options at the end of an aname.

    Args:
        yield_s: a blocked read gives end of file after so many seconds; None waits for ever.
        kernel: for Linux's own client: a stream answers one empty read between a piece of data and a wait, since it
            repeats Treads until its buffer is full; and from then on errors of the whole connection are told in the
            words that it knows.
    """

    yield_s: float | None = None
    kernel: bool = False

    @classmethod
    def split(cls, aname: str) -> tuple[str, "Options"]:
        """The aname without the options that end it, and the options: `kernel`, `yield=5`, separated by `,` or blanks.

        Raises:
            NinepError: `bad option: yield=soon`.
        """
        yield_s, kernel = None, False
        while aname:
            head, option = _last_word(aname)
            if option == "kernel":
                kernel = True
            elif option.startswith("yield="):
                yield_s = _seconds(option)
            else:
                break
            aname = head
        return aname, cls(yield_s, kernel)


def _last_word(text: str) -> tuple[str, str]:
    at = max(text.rfind(","), text.rfind(" ")) + 1
    return text[:at].rstrip(", "), text[at:]


def _seconds(option: str) -> float:
    try:
        seconds = float(option.removeprefix("yield="))
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise NinepError(f"bad option: {option}")
    return seconds
