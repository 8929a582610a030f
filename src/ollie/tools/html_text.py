"""HTML as plain text: what a reader sees, with headings, lists and the targets of links kept.

It is no browser: nothing is run and nothing is laid out. Whatever the markup, the text comes out.
"""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "iframe"})
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
    ]
)
_HEADING = re.compile(r"h([1-6])")


def plain(html: str, base: str) -> str:
    """The text of a page; `base` is its URL, from which its links are meant."""
    reader = _Reader(base)
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    """Collects the text; blanks at the beginning of a line and breaks behind a mark such as `- ` are left out."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self._title: list[str] = []
        self._pieces: list[str] = []
        self._skipping: list[str] = []
        self._in_title = False
        self._preformatted = 0
        self._fresh = True  # at the beginning of a line
        self._marked = False  # behind a mark
        self._link = ""
        self._link_at = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        self._in_title = tag == "title" and not self._pieces
        if tag in _SKIPPED:
            self._skipping.append(tag)
        if self._skipping:
            return
        if tag in _BLOCKS:
            self._break(lines=1 if tag in {"li", "tr", "dt", "dd"} else 2)
        self._begin(tag, dict(attrs))

    def _begin(self, tag: str, values: dict[str, str | None]) -> None:
        if heading := _HEADING.fullmatch(tag):
            self._mark("#" * int(heading[1]) + " ")
        elif tag == "li":
            self._mark("- ")
        elif tag == "br":
            self._pieces.append("\n")
            self._fresh = True
        elif tag in {"td", "th"} and not self._fresh:
            self._add(" | ")
        elif tag == "pre":
            self._preformatted += 1
        elif tag == "img" and values.get("alt"):
            self._add(f"[{values['alt']}]")
        elif tag == "a":
            self._link, self._link_at = self._target(values.get("href")), len(self._pieces)

    def handle_endtag(self, tag: str) -> None:
        """End an element, and what was left open in it."""
        if tag == "title":
            self._in_title = False
        if self._skipping:
            if tag in self._skipping:
                del self._skipping[self._skipping.index(tag) :]
            return
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        if tag == "a":
            self._end_link()
        if tag in _BLOCKS:
            self._break(lines=1 if tag in {"li", "tr", "dt", "dd"} else 2)

    def handle_data(self, data: str) -> None:
        """Take text."""
        if self._in_title:
            self._title.append(data)
        elif not self._skipping:
            self._add(data if self._preformatted else re.sub(r"\s+", " ", data))

    def _add(self, text: str) -> None:
        if self._fresh and not self._preformatted:
            text = text.lstrip(" ")
        if text:
            self._pieces.append(text)
            self._fresh = text.endswith("\n")
            self._marked = False

    def _mark(self, text: str) -> None:
        self._pieces.append(text)
        self._fresh = self._marked = True

    def _break(self, lines: int) -> None:
        if not self._marked:
            self._pieces.append("\n" * lines)
            self._fresh = True

    def _target(self, href: str | None) -> str:
        """Where a link leads, when that is another page."""
        if not href or href.startswith("#"):
            return ""
        try:
            url = urljoin(self._base, href.strip())
        except ValueError:
            return ""
        return url if url.startswith(("http://", "https://")) else ""

    def _end_link(self) -> None:
        words = "".join(self._pieces[self._link_at :]).strip()
        if self._link and words and self._link != words:
            self._add(f" <{self._link}>")
        self._link = ""

    def text(self) -> str:
        """Everything, the title first, with no blanks at the ends of lines and at most one empty line in a row."""
        title = " ".join("".join(self._title).split())
        body = re.sub(r"[ \t]+\n", "\n", "".join(self._pieces))
        body = re.sub(r"\n{3,}", "\n\n", body).strip()
        return f"{title}\n\n{body}" if title and not body.startswith(f"# {title}") else body
