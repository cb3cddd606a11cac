"""What every store must do, as classes of tests: a store's own tests derive from them; they know no store.

A test module of a store says::

    class TestMyStore(StoreSuite, SharedSuite):
        @pytest.fixture
        async def store(self, ...): yield an empty store, and close it
        @pytest.fixture
        async def second(self, store, ...): yield another store over the same data, as another process has it

`StoreSuite` needs ``store`` alone; `SharedSuite` is for stores whose data several processes may share.
"""

from tests.stores.suite_memory import MemorySuite
from tests.stores.suite_messages import MessagesSuite
from tests.stores.suite_runs import RunsSuite
from tests.stores.suite_shared import SharedSuite
from tests.stores.suite_threads import ThreadsSuite
from tests.stores.suite_vectors import VectorsSuite

__all__ = ["SharedSuite", "StoreSuite"]


class StoreSuite(ThreadsSuite, MessagesSuite, MemorySuite, VectorsSuite, RunsSuite):
    """All that a store of its own must do."""

    def test_no_test_hides_another_of_its_name(self):
        """A class that derives from several has one method of a name."""
        names = [name for suite in (*StoreSuite.__bases__, SharedSuite) for name in vars(suite) if name[:5] == "test_"]
        assert len(names) == len(set(names))
