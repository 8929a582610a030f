"""Results as JSON, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollie.protocol import result
from ollie.protocol.result import ImageContent, ResultError, TextContent, ToolResult

_texts = st.builds(TextContent, st.text(st.characters(exclude_categories=["Cs"])))
_images = st.builds(ImageContent, st.binary(), st.sampled_from(["image/png", "image/jpeg"]))
_results = st.builds(ToolResult, st.lists(_texts | _images).map(tuple), st.booleans())


@given(_results)
def test_from_json_is_the_inverse_of_to_json(value: ToolResult) -> None:
    """What is written is read back, on one line."""
    data = value.to_json()
    assert result.from_json(data) == value
    assert b"\n" not in data


@given(st.binary() | st.text())
def test_from_json_of_anything(data: bytes | str) -> None:
    """Any input is a result or a ResultError."""
    try:
        result.from_json(data)
    except ResultError:
        return


def test_the_form_of_the_contract() -> None:
    """Keys, order and separators are those of the published form."""
    value = ToolResult((TextContent("é\n"), ImageContent(b"\x89PNG", "image/png")), is_error=True)
    expected = (
        '{"content":[{"type":"text","text":"é\\n"},{"type":"image","data":"iVBORw==","mimeType":"image/png"}],'
        '"isError":true}'
    )
    assert value.to_json() == expected.encode()
    assert value.text == "é\n"


def test_text() -> None:
    """The short form is one text."""
    assert result.text("no", is_error=True) == ToolResult((TextContent("no"),), is_error=True)
    assert result.text("\ud800").to_json() == b'{"content":[{"type":"text","text":"?"}],"isError":false}'


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "result is not JSON"),
        (b"\xff\xfe", "result is not JSON"),
        ("[" * 100_000, "result is not JSON"),
        ("[]", 'result has no list "content"'),
        ("{}", 'result has no list "content"'),
        ('{"content":[],"isError":0}', "isError is not true or false"),
        ('{"content":["x"]}', "content 1 is not an object"),
        ('{"content":[{"type":"text","text":""},{"type":"sound"}]}', "content 2 has type 'sound', neither text nor"),
        ('{"content":[{"type":"text"}]}', 'content 1 has no text "text"'),
        ('{"content":[{"type":"image","data":"****","mimeType":"image/png"}]}', "data of content 1 is not base64"),
        ('{"content":[{"type":"image","data":"é","mimeType":"image/png"}]}', "data of content 1 is not base64"),
        (
            '{"content":[{"type":"image","data":"","mimeType":"text/html"}]}',
            "mimeType of content 1 is not that of an image: text/html",
        ),
        ('{"content":[{"type":"image","data":""}]}', 'content 1 has no text "mimeType"'),
    ],
)
def test_from_json_refuses(data: bytes | str, text: str) -> None:
    """What is no result is refused with the place."""
    with pytest.raises(ResultError, match=text):
        result.from_json(data)


def test_defaults() -> None:
    """`isError` may be left out, and unknown keys are ignored."""
    assert result.from_json('{"content":[],"_meta":{}}') == ToolResult(())
