"""Two devices: each has its memory, and copies between them need peer access. Run it with `--devices 2`."""

import acl

D2H, D2D = 2, 3
SIZE = 256

acl.init()
count, _ = acl.rt.get_device_count()
print("devices:", count)
print("can they reach each other:", acl.rt.device_can_access_peer(0, 1))

acl.rt.set_device(0)
near, _ = acl.rt.malloc(SIZE, 3)
acl.rt.memset(near, SIZE, 103, SIZE)

acl.rt.set_device(1)
far, _ = acl.rt.malloc(SIZE, 3)
print("a copy before it is allowed:", acl.rt.memcpy(far, SIZE, near, SIZE, D2D))
print("allow 1 -> 0:", acl.rt.device_enable_peer_access(0, 0))
acl.rt.set_device(0)
print("allow 0 -> 1:", acl.rt.device_enable_peer_access(1, 0))
print("a copy now:", acl.rt.memcpy(far, SIZE, near, SIZE, D2D))

host, _ = acl.rt.malloc_host(SIZE)
acl.rt.memcpy(host, SIZE, far, SIZE, D2H)
print("what arrived:", set(acl.util.ptr_to_bytes(host, SIZE)))

print("this thread's device:", acl.rt.get_device())
acl.rt.free(near)
acl.rt.free(far)
acl.rt.free_host(host)
print("reset:", acl.rt.reset_device(0), acl.rt.reset_device(0), acl.rt.reset_device(1))
print("once too often:", acl.rt.reset_device(1))
acl.finalize()
