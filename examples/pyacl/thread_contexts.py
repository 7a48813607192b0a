"""What is current belongs to a thread: every worker makes or sets its own context, or gets 107002."""

import threading

import acl

WORKERS = 4
SIZE = 32

acl.init()
acl.rt.set_device(0)
shared, _ = acl.rt.get_context()


def forgetful(out):
    out.append(acl.rt.malloc(SIZE, 0)[1])
    out.append(acl.rt.set_context(shared))
    pointer, ret = acl.rt.malloc(SIZE, 0)
    out.append(ret)
    out.append(acl.rt.free(pointer))


def worker(number, out):
    context, ret = acl.rt.create_context(0)
    stream, _ = acl.rt.create_stream()
    pointer, _ = acl.rt.malloc(SIZE, 0)
    acl.rt.memset_async(pointer, SIZE, number, SIZE, stream)
    ret = ret or acl.rt.synchronize_stream(stream)
    out[number] = (ret, acl.util.ptr_to_bytes(pointer, 4))
    acl.rt.free(pointer)
    acl.rt.destroy_stream(stream)
    acl.rt.destroy_context(context)


codes = []
thread = threading.Thread(target=forgetful, args=(codes,))
thread.start()
thread.join()
print("without a context, then with one:", codes)

results = {}
threads = [threading.Thread(target=worker, args=(number, results)) for number in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in sorted(results):
    print("worker", number, results[number])
print("the main thread's context is still its own:", acl.rt.get_context()[0] == shared)
acl.rt.reset_device(0)
acl.finalize()
