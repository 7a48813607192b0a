"""Return codes: nothing raises, every call says how it went, and the last error and message belong to the thread."""

import threading

import acl

H2D = 1

print("without a device:", acl.rt.malloc(64, 0))
print("last error, kept and taken:", acl.rt.peek_at_last_error(0), acl.rt.get_last_error(0), acl.rt.get_last_error(0))
message = acl.get_recent_err_msg()
print("the message names the code:", "107002" in message, "- and is told once:", acl.get_recent_err_msg())

acl.init()
print("init again:", acl.init())
print("no such device:", acl.rt.set_device(7))
acl.rt.set_device(0)
one, _ = acl.rt.get_context()
stream, _ = acl.rt.create_stream()

device, _ = acl.rt.malloc(64, 0)
data = bytes(128)
pointer = acl.util.bytes_to_ptr(data)
print("too much for the destination:", acl.rt.memcpy(device, 64, pointer, 128, H2D))
print("no pointer:", acl.rt.memcpy(device, 64, 0, 64, H2D))
print("nothing to copy:", acl.rt.memcpy(0, 0, 0, 0, 99))

other, _ = acl.rt.create_context(0)
print("a stream of another context:", acl.rt.memset_async(device, 64, 0, 64, stream), acl.rt.destroy_stream(stream))
acl.rt.set_context(one)
print("and of this one:", acl.rt.destroy_stream(stream))

print("freed, and again:", acl.rt.free(device), acl.rt.free(device), acl.rt.free(0))
stream, _ = acl.rt.create_stream()
print("a callback without a subscriber:", acl.rt.launch_callback(print, None, 0, stream))
print("reports:", acl.rt.process_report(0), acl.rt.process_report(10))
acl.rt.subscribe_report(threading.get_ident(), stream)
print("subscribed, and nothing came:", acl.rt.process_report(10))
try:
    acl.rt.malloc(64.0, 0)
except TypeError as error:
    print("TypeError:", error)
acl.rt.destroy_stream(stream)
print("ends:", acl.rt.destroy_context(other), acl.rt.reset_device(0), acl.finalize(), acl.finalize())
