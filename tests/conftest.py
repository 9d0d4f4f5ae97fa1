"""For every test: a shell's background job ignores Ctrl-C, and hands that on to all that it starts; tests of Ctrl-C need it."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
