"""The shortest useful program: an array goes to the device, from there to another place on it, and back."""

import acl
import numpy as np

H2D, D2H, D2D = 1, 2, 3
MALLOC_HUGE_FIRST = 0


def check_ret(what, ret):
    if ret != 0:
        raise RuntimeError(f"{what} failed: {ret}")


check_ret("init", acl.init())
check_ret("set_device", acl.rt.set_device(0))

sent = np.arange(16, dtype=np.float32)
received = np.zeros_like(sent)
data = sent.tobytes()
size = len(data)

first, ret = acl.rt.malloc(size, MALLOC_HUGE_FIRST)
check_ret("malloc", ret)
second, ret = acl.rt.malloc(size, MALLOC_HUGE_FIRST)
check_ret("malloc", ret)

check_ret("memcpy", acl.rt.memcpy(first, size, acl.util.bytes_to_ptr(data), size, H2D))
check_ret("memcpy", acl.rt.memcpy(second, size, first, size, D2D))
back = bytes(size)
check_ret("memcpy", acl.rt.memcpy(acl.util.bytes_to_ptr(back), size, second, size, D2H))
received = np.frombuffer(back, np.float32)
print("arrived:", np.array_equal(sent, received))

check_ret("free", acl.rt.free(first))
check_ret("free", acl.rt.free(second))
check_ret("reset_device", acl.rt.reset_device(0))
check_ret("finalize", acl.finalize())
print("done")
