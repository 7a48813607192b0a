"""Bytes as buffers of the host: the pointer is the object's own memory, and copies really overwrite it."""

import acl
import numpy as np

H2D, D2H = 1, 2
NPY_INT32 = 5

acl.init()
acl.rt.set_device(0)
print("new names are there:", "bytes_to_ptr" in dir(acl.util), "ptr_to_bytes" in dir(acl.util))

image = np.arange(12, dtype=np.int32).reshape(3, 4)
data = image.tobytes()
size = len(data)
device, _ = acl.rt.malloc(size, 0)
acl.rt.memcpy(device, size, acl.util.bytes_to_ptr(data), size, H2D)
acl.rt.memcpy(device, size, acl.util.bytes_to_ptr((image + 100).tobytes()), 16, H2D)  # a temporary is fine, too

result = bytes(size)
before = np.frombuffer(result, np.int32)
acl.rt.memcpy(acl.util.bytes_to_ptr(result), size, device, size, D2H)
print("the view that was made before sees it:", before.tolist())

# A data buffer is only a pointer and a size.
buffer = acl.create_data_buffer(device, size)
print("size:", acl.get_data_buffer_size(buffer), acl.get_data_buffer_size_v2(buffer))
copied = acl.util.ptr_to_bytes(acl.get_data_buffer_addr(buffer), size)
print("read through it:", np.frombuffer(copied, np.int32)[:4].tolist())
print("destroyed:", acl.destroy_data_buffer(buffer), acl.destroy_data_buffer(0))

# A live view of pinned memory.
host, _ = acl.rt.malloc_host(size)
view = acl.util.ptr_to_numpy(host, (3, 4), NPY_INT32)
view[:] = image * 2
acl.rt.memcpy(device, size, host, size, H2D)
print("from the view:", np.frombuffer(acl.util.ptr_to_bytes(device, size), np.int32)[-2:].tolist())
acl.rt.free_host(host)
acl.rt.free(device)
acl.rt.reset_device(0)
acl.finalize()
