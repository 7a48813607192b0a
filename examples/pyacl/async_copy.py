"""Copies that are only queued: they need pinned memory of the host, and the results are there after a synchronize."""

import ctypes

import acl
import numpy as np

H2D, D2H = 1, 2
NPY_FLOAT32 = 11

acl.init()
acl.rt.set_device(0)
stream, ret = acl.rt.create_stream()

numbers = np.linspace(0, 1, 1024, dtype=np.float32)
size = numbers.nbytes
pinned_in, ret = acl.rt.malloc_host(size)
pinned_out, ret = acl.rt.malloc_host(size)
device, ret = acl.rt.malloc(size, 0)
ctypes.memmove(pinned_in, numbers.ctypes.data, size)

print("queued:", acl.rt.memcpy_async(device, size, pinned_in, size, H2D, stream))
print("queued:", acl.rt.memcpy_async(pinned_out, size, device, size, D2H, stream))
print("synchronized:", acl.rt.synchronize_stream(stream))
print("status of the stream:", acl.rt.stream_query(stream))

result = acl.util.ptr_to_numpy(pinned_out, (1024,), NPY_FLOAT32)
print("arrived:", np.array_equal(result, numbers))

for ret in (acl.rt.free(device), acl.rt.free_host(pinned_in), acl.rt.free_host(pinned_out)):
    print("freed:", ret)
acl.rt.destroy_stream(stream)
acl.rt.reset_device(0)
acl.finalize()
