"""The tests of `cann_async`."""
