"""Untidy ends: handlers of atexit in an order that nobody has thought about. Nothing raises, nothing hangs."""

import atexit

import acl

acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.create_context(0)
stream, _ = acl.rt.create_stream()
device, _ = acl.rt.malloc(1 << 20, 0)
acl.rt.memset_async(device, 1 << 20, 1, 1 << 20, stream)

# The last one that is registered is the first one that is called.
atexit.register(lambda: print("finalize again:", acl.finalize()))
atexit.register(lambda: print("destroy_context:", acl.rt.destroy_context(context)))
atexit.register(lambda: print("reset_device:", acl.rt.reset_device(0)))
atexit.register(lambda: print("free:", acl.rt.free(device)))
atexit.register(lambda: print("finalize:", acl.finalize()))
print("end of the program, with work in the stream")
