"""Houses for servers and their users."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from house import House


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.close()
