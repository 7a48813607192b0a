"""Two streams and an event: the second stream copies what the first has brought, and not before."""

import acl
import numpy as np

H2D, D2H = 1, 2
EVENT_SYNC = 1
ROUNDS = 4

acl.init()
acl.rt.set_device(0)
load, _ = acl.rt.create_stream()
store, _ = acl.rt.create_stream()
size = 1 << 16
device, _ = acl.rt.malloc(size, 0)
source, _ = acl.rt.malloc_host(size)
target, _ = acl.rt.malloc_host(size)

for number in range(1, ROUNDS + 1):
    acl.rt.memset(source, size, number, size)
    loaded, _ = acl.rt.create_event_ex_with_flag(EVENT_SYNC)
    acl.rt.memcpy_async(device, size, source, size, H2D, load)
    acl.rt.record_event(loaded, load)  # the event first, then the stream
    acl.rt.stream_wait_event(store, loaded)  # the stream first, then the event
    acl.rt.memcpy_async(target, size, device, size, D2H, store)
    acl.rt.synchronize_stream(store)
    seen = np.unique(np.frombuffer(acl.util.ptr_to_bytes(target, size), np.uint8))
    print("round", number, "brought", seen.tolist())
    acl.rt.destroy_event(loaded)

for stream in (load, store):
    acl.rt.destroy_stream(stream)
acl.rt.free(device)
acl.rt.free_host(source)
acl.rt.free_host(target)
acl.rt.reset_device(0)
acl.finalize()
