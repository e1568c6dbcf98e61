"""
CPython's test mixins for event loops, run on asyncio's loop: `python tests/conformance/mixins.py`.

If `swap/loop` is on the path, the mixins run on tickwheel's loop.
"""

from __future__ import annotations

import asyncio
import sys
import unittest

from test import support
from test.test_asyncio import test_buffered_proto, test_events, test_sendfile, test_server, test_sock_lowlevel, utils

support.verbose = False


class EventLoopTests(test_events.EventLoopTestsMixin, test_events.SubprocessTestsMixin, utils.TestCase):
    """
    Tests of callbacks, sockets, servers and subprocesses.
    """

    def create_event_loop(self):
        return asyncio.SelectorEventLoop()

    def setUp(self):
        """
        Set a child watcher on 3.11.
        """
        super().setUp()
        if sys.version_info < (3, 12):
            watcher = asyncio.SafeChildWatcher()
            watcher.attach_loop(self.loop)
            asyncio.set_child_watcher(watcher)

    def tearDown(self):
        """
        Remove the child watcher.
        """
        if sys.version_info < (3, 12):
            asyncio.set_child_watcher(None)
        super().tearDown()


class SockTests(test_sock_lowlevel.BaseSockTestsMixin, utils.TestCase):
    """
    Tests of the sock_* methods.
    """

    create_event_loop = staticmethod(asyncio.SelectorEventLoop)


class StartServerTests(test_server.BaseStartServer, unittest.TestCase):
    """
    Tests of servers.
    """

    new_loop = staticmethod(asyncio.SelectorEventLoop)


class BufferedProtocolTests(test_buffered_proto.BaseTestBufferedProtocol, unittest.TestCase):
    """
    Tests of buffered protocols.
    """

    new_loop = staticmethod(asyncio.SelectorEventLoop)


class SendfileTests(test_sendfile.SendfileMixin, test_sendfile.SockSendfileMixin, utils.TestCase):
    """
    Tests of sending files.
    """

    create_event_loop = staticmethod(asyncio.SelectorEventLoop)


if __name__ == "__main__":
    unittest.main()
