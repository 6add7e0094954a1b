from collections.abc import Iterator
from pathlib import Path

import pytest

from meta.store.database import Database
from meta.store.migrations import upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'meta.db'}")
    upgrade(opened.engine)
    yield opened
    opened.close()
