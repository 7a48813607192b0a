"""A class that holds what a program needs and gives it back in `__del__`: here when the interpreter ends."""

import acl


class Resource:
    def __init__(self, device_id=0):
        self.device_id = device_id
        self.context = self.stream = None
        self.run_mode = None

    def init(self):
        self.check("init", acl.init())
        self.check("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        self.check("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        self.check("create_stream", ret)
        self.run_mode, ret = acl.rt.get_run_mode()
        self.check("get_run_mode", ret)
        print("ready, run mode", self.run_mode)

    @staticmethod
    def check(what, ret):
        if ret != 0:
            raise RuntimeError(f"{what}: {ret}")

    def __del__(self):
        codes = []
        if self.stream:
            codes.append(acl.rt.destroy_stream(self.stream))
        if self.context:
            codes.append(acl.rt.destroy_context(self.context))
        codes.append(acl.rt.reset_device(self.device_id))
        codes.append(acl.finalize())
        print("released", codes)


resource = Resource()
resource.init()
pointer, ret = acl.rt.malloc(1024, 0)
print("malloc:", ret)
print("memset:", acl.rt.memset(pointer, 1024, 1, 1024))
print("free:", acl.rt.free(pointer))
print("end of the program")
