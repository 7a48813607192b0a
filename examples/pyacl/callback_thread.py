"""The callback pattern: a thread of the program waits for reports, and calls what a stream has come to."""

import threading

import acl

H2D, D2H = 1, 2
CALLBACK_BLOCK = 1
SIZE = 64

acl.init()
acl.rt.set_device(0)
context, _ = acl.rt.get_context()
stream, _ = acl.rt.create_stream()
device, _ = acl.rt.malloc(SIZE, 0)
finished = threading.Event()
results = []


def report_loop(args):
    (thread_context,) = args
    acl.rt.set_context(thread_context)
    while not finished.is_set():
        acl.rt.process_report(50)  # 507012 when nothing came: go on


def fetch(user_data):
    """Copy a result to the host; in a callback that is allowed, as it runs in a thread like any other."""
    number, pointer = user_data
    host, _ = acl.rt.malloc_host(SIZE)
    acl.rt.memcpy(host, SIZE, pointer, SIZE, D2H)
    results.append((number, acl.util.ptr_to_bytes(host, SIZE)[0]))
    acl.rt.free_host(host)


thread, _ = acl.util.start_thread(report_loop, [context])
print("subscribed:", acl.rt.subscribe_report(thread, stream))
for number in range(3):
    acl.rt.memset_async(device, SIZE, 10 + number, SIZE, stream)
    acl.rt.launch_callback(fetch, [number, device], CALLBACK_BLOCK, stream)
print("synchronized:", acl.rt.synchronize_stream(stream))
print("results:", results)

print("unsubscribed:", acl.rt.unsubscribe_report(thread, stream))
finished.set()
print("stopped:", acl.util.stop_thread(thread))
acl.rt.free(device)
acl.rt.destroy_stream(stream)
acl.rt.reset_device(0)
acl.finalize()
