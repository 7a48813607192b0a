"""A window of an image, by rows that are apart in memory; and one stream that waits for a value of another."""

import acl
import numpy as np

H2D, D2H = 1, 2
WAIT_EQUAL = 1
WIDTH, HEIGHT, PITCH = 4, 3, 16

acl.init()
acl.rt.set_device(0)
copy, _ = acl.rt.create_stream()
flags, _ = acl.rt.create_stream()

image = np.arange(HEIGHT * WIDTH, dtype=np.uint8).reshape(HEIGHT, WIDTH)
data = image.tobytes()
device, _ = acl.rt.malloc(PITCH * HEIGHT, 0)
acl.rt.memset(device, PITCH * HEIGHT, 0xFF, PITCH * HEIGHT)
ret = acl.rt.memcpy2d(device, PITCH, acl.util.bytes_to_ptr(data), WIDTH, WIDTH, HEIGHT, H2D)
print("rows copied:", ret)
print("a pitch that is too small:", acl.rt.memcpy2d(device, 2, acl.util.bytes_to_ptr(data), WIDTH, WIDTH, HEIGHT, H2D))
rows = np.frombuffer(acl.util.ptr_to_bytes(device, PITCH * HEIGHT), np.uint8).reshape(HEIGHT, PITCH)
print(rows[:, : WIDTH + 2])

word, _ = acl.rt.malloc(8, 0)
acl.rt.memset(word, 8, 0, 8)
host, _ = acl.rt.malloc_host(WIDTH * HEIGHT)
acl.rt.memset(host, WIDTH * HEIGHT, 0, WIDTH * HEIGHT)
acl.rt.value_wait(word, 42, WAIT_EQUAL, copy)
acl.rt.memcpy2d_async(host, WIDTH, device, PITCH, WIDTH, HEIGHT, D2H, copy)
print("before the value: ", acl.util.ptr_to_bytes(host, 4).hex(), "status", acl.rt.stream_query(copy)[0])
acl.rt.value_write(word, 42, 0, flags)
acl.rt.synchronize_stream(copy)
print("after it:         ", acl.util.ptr_to_bytes(host, 12) == data, "status", acl.rt.stream_query(copy)[0])

for stream in (copy, flags):
    acl.rt.destroy_stream(stream)
for pointer in (device, word):
    acl.rt.free(pointer)
acl.rt.free_host(host)
acl.rt.reset_device(0)
acl.finalize()
