"""A caching allocator, as frameworks have one: a block is used again only when the stream has come past its event."""

import acl

SIZE = 4096


class CachingAllocator:
    def __init__(self):
        self.waiting = []  # (event, size, pointer)
        self.asked = 0

    def malloc(self, size):
        for entry in self.waiting:
            event, old_size, pointer = entry
            status, _ = acl.rt.query_event_status(event)
            if old_size >= size and status == 1:
                self.waiting.remove(entry)
                acl.rt.destroy_event(event)
                return pointer
        self.asked += 1
        pointer, ret = acl.rt.malloc(size, 0)
        if ret != 0:
            raise MemoryError(f"malloc: {ret}")
        return pointer

    def free(self, size, pointer, stream):
        event, _ = acl.rt.create_event_ex_with_flag(0)
        acl.rt.record_event(event, stream)
        self.waiting.append((event, size, pointer))

    def empty(self):
        for event, _, pointer in self.waiting:
            acl.rt.synchronize_event(event)
            acl.rt.destroy_event(event)
            acl.rt.free(pointer)
        self.waiting.clear()


acl.init()
acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
flag, _ = acl.rt.malloc(8, 0)
acl.rt.memset(flag, 8, 0, 8)
allocator = CachingAllocator()

first = allocator.malloc(SIZE)
acl.rt.value_wait(flag, 1, 1, stream)  # the stream stands here until somebody writes 1
allocator.free(SIZE, first, stream)
second = allocator.malloc(SIZE)
print("while the stream is busy the block is not given out again:", second != first)

other, _ = acl.rt.create_stream()
acl.rt.value_write(flag, 1, 0, other)
acl.rt.synchronize_stream(stream)
third = allocator.malloc(SIZE)
print("afterwards it is:", third == first)
for pointer in (second, third):
    allocator.free(SIZE, pointer, stream)
for _ in range(100):
    acl.rt.synchronize_stream(stream)
    pointer = allocator.malloc(SIZE)
    acl.rt.memset_async(pointer, SIZE, 1, SIZE, stream)
    allocator.free(SIZE, pointer, stream)
print("the device was asked for memory", allocator.asked, "times")

allocator.empty()
acl.rt.free(flag)
for used in (stream, other):
    acl.rt.destroy_stream(used)
acl.rt.reset_device(0)
acl.finalize()
