"""How long do copies take on the device? Two events know when the stream came by."""

import acl

H2D = 1
SIZES = (1 << 10, 1 << 24)

acl.init()
acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
start, _ = acl.rt.create_event()
end, _ = acl.rt.create_event()

print("before any record:", acl.rt.event_elapsed_time(start, end)[1])
for size in SIZES:
    host, _ = acl.rt.malloc_host(size)
    device, _ = acl.rt.malloc(size, 0)
    acl.rt.record_event(start, stream)
    acl.rt.memcpy_async(device, size, host, size, H2D, stream)
    acl.rt.record_event(end, stream)
    acl.rt.synchronize_event(end)
    milliseconds, ret = acl.rt.event_elapsed_time(start, end)
    print("copied", size, "bytes, code", ret, "- took time:", milliseconds > 0)
    acl.rt.free(device)
    acl.rt.free_host(host)

acl.rt.destroy_event(start)
acl.rt.destroy_event(end)
acl.rt.destroy_stream(stream)
acl.rt.reset_device(0)
acl.finalize()
