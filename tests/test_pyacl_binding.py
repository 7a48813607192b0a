"""pyACL's surface: names, signatures, how arguments are read, and results' shapes."""

from __future__ import annotations

import ctypes
import json
import re
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from cann_async import acl
from cann_async._acl.binding import FUNCTIONS, UNITS

INVENTORY = json.loads((Path(__file__).parent / "golden" / "pyacl.json").read_text())


@pytest.mark.parametrize("name", sorted(INVENTORY))
def test_every_function_is_there_with_its_units(name):
    """The inventory says how each argument is read; what is in brackets in a signature may be left out."""
    *path, last = name.split(".")[1:]
    module = acl
    for part in path:
        module = getattr(module, part)
    assert last in dir(module)
    assert callable(getattr(module, last))
    expected = INVENTORY[name]["arg_parse"]
    if expected is None:  # only its name is known
        return
    optional = re.findall(r"\[(\w+)\]", INVENTORY[name]["signature"].split("=", 1)[-1])
    units = expected.replace("(placeholder)", "")
    assert UNITS[name] == (f"[{units}]" if optional else units)


def test_there_is_nothing_but_functions():
    """No constants, no classes, no other names: programs test `"x" in dir(acl.util)`."""
    assert set(FUNCTIONS) == {"", "rt", "util", "media"}
    for module in (acl.rt, acl.util, acl.media):
        public = [name for name in dir(module) if not name.startswith("_")]
        assert public
        assert all(callable(getattr(module, name)) and not isinstance(getattr(module, name), type) for name in public)
    listed = {f"acl.{module}.{name}".replace("..", ".") for module in FUNCTIONS for name in FUNCTIONS[module]}
    assert listed == {*INVENTORY, "acl.media.dvpp_malloc", "acl.media.dvpp_free"}
    assert set(dir(acl)) - set(FUNCTIONS[""]) == {
        "configure", "install", "media", "register_kernel", "rt", "runtime", "util",
    }  # fmt: skip


BAD = [np.int64(64), 64.0, None, "64", np.float32(1), [64]]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_pointers_and_sizes_are_ints_and_nothing_else(bad):
    """An integer of NumPy is none, as CPython's unit k has it."""
    with pytest.raises(TypeError, match=r"^acl\.rt\.malloc args parse failed$"):
        acl.rt.malloc(bad, 0)


@pytest.mark.parametrize("args", [(), (1,), (1, 2, 3)], ids=repr)
def test_a_wrong_number_of_arguments_has_the_same_text(args):
    """Whatever is wrong, the text names the function."""
    with pytest.raises(TypeError, match=r"^acl\.rt\.malloc args parse failed$"):
        acl.rt.malloc(*args)
    with pytest.raises(TypeError):
        acl.rt.malloc(size=1, policy=0)


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, 0.0, None, "0"], ids=repr)
def test_numbers_of_32_bits_are_checked(value):
    """Unit i: an index object, not too large."""
    with pytest.raises(TypeError, match=r"^acl\.rt\.set_device args parse failed$"):
        acl.rt.set_device(value)


def test_index_objects_and_bools_are_numbers(drop_in):
    """NumPy's integers are fine where a number of 32 bits stands, True is 1 everywhere."""
    assert acl.rt.set_device(np.int64(0)) == 0
    pointer, code = acl.rt.malloc(True, 0)
    assert code == 0
    assert acl.rt.free(pointer) == 0
    event, code = acl.rt.create_event_with_flag(np.uint8(1))
    assert code == 0
    event, code = acl.rt.create_event_with_flag(1 - (1 << 32))  # masked
    assert code == 0
    assert acl.rt.destroy_event(event) == 0


def test_large_and_negative_pointers_wrap(drop_in):
    """A pointer is what remains modulo 2**64; one that is nowhere is an error, not a crash."""
    acl.rt.set_device(0)
    pointer, _ = acl.rt.malloc(64, 0)
    assert acl.rt.memset(pointer + (1 << 64), 64, 7, 64) == 0
    assert acl.util.ptr_to_bytes(pointer, 64) == bytes([7]) * 64
    assert acl.rt.memcpy(-1, 64, pointer, 64, 1) == 107000
    assert acl.rt.memcpy(pointer, 64, 1 << 70, 64, 1) == 100000  # nothing remains
    assert acl.rt.memcpy(16, 64, pointer, 64, 1) == 107000


def test_the_texts_of_other_errors(drop_in):
    """A few functions have their own."""
    with pytest.raises(TypeError, match=r"^function takes exactly 2 arguments \(0 given\)$"):
        acl.util.start_thread()
    with pytest.raises(TypeError, match=r"^parameter must be callable$"):
        acl.util.start_thread(7, None)
    with pytest.raises(TypeError, match=r"^acl\.rt\.set_op_execute_timeout args parse failed$"):
        acl.rt.set_op_execute_time_out("x")
    with pytest.raises(TypeError, match=r"^acl\.init args parse failed$"):
        acl.init(None)
    with pytest.raises(TypeError, match=r"^acl\.init args parse failed$"):
        acl.init("a\0b")
    for wrong in (bytearray(2), memoryview(b"x"), np.zeros(2)):
        with pytest.raises(ValueError, match=r"^needs an byte as argument$"):
            acl.util.bytes_to_ptr(wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with pytest.raises(ValueError, match=r"^needs an ndarray as argument$"):
            acl.util.numpy_to_ptr(b"x")
    for bad in (None, 7, "f"):
        with pytest.raises(TypeError, match=r"^acl\.rt\.launch_callback args parse failed$"):
            acl.rt.launch_callback(bad, None, 0, 0)
    with pytest.raises(TypeError, match=r"^acl\.rt\.launch_callback args parse failed$"):
        acl.rt.launch_callback(print, None, 0)


def test_results_are_plain_and_have_their_shape(drop_in):
    """Values first and the code last; a failure gives as many."""
    assert acl.rt.malloc(64, 0) == (0, 107002)
    assert acl.rt.get_context() == (0, 107002)
    assert acl.rt.get_mem_info(0) == (0, 0, 107002)
    assert acl.get_data_buffer_addr(0) == 0
    assert acl.get_recent_err_msg().count("107002") == 3
    assert acl.get_recent_err_msg() is None
    assert acl.rt.set_device(0) == 0
    for made in (acl.rt.malloc(64, 0), acl.rt.create_stream(), acl.rt.get_context(), acl.rt.create_event()):
        assert made[1] == 0
        assert [type(one) for one in made] == [int, int]
        assert made[0] > 0
    free, total, code = acl.rt.get_mem_info(1)
    assert 0 < free < total
    assert code == 0
    assert len(acl.get_version()) == 4
    assert acl.get_soc_name() == "Ascend910B2"
    assert acl.rt.get_device_count() == (1, 0)
    assert acl.rt.get_run_mode() == (1, 0)
    start, _ = acl.rt.create_event()
    assert acl.rt.record_event(start, 0) == 0
    assert acl.rt.synchronize_event(start) == 0
    elapsed, code = acl.rt.event_elapsed_time(start, start)
    assert (type(elapsed), code) == (float, 0)


def test_memory_is_real(drop_in):
    """Bytes are overwritten, arrays are live views, ctypes reaches pinned memory, device memory can be read."""
    acl.rt.set_device(0)
    source, target = bytes(range(64)), bytes(64)
    view = np.frombuffer(target, np.uint8)
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    assert acl.rt.memcpy(device, 64, acl.util.bytes_to_ptr(source), 64, 1) == 0
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(target), 64, device, 64, 2) == 0
    assert target == source
    assert view.tobytes() == source
    assert acl.util.ptr_to_bytes(device, 64) == source  # programs that assume run mode 0
    ctypes.memmove(host, source, 64)
    live = acl.util.ptr_to_numpy(host, (16,), 5)
    assert live.dtype == np.int32
    live[0] = 7
    assert acl.util.ptr_to_bytes(host, 4) == b"\7\0\0\0"
    assert acl.rt.memcpy(device + 8, 8, device, 8, 3) == 0  # pointer arithmetic
    assert acl.util.ptr_to_bytes(device, 16) == source[:8] * 2
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(target), 64, host, 64, 2) == 0  # a wrong direction, from host to host
    assert target[:4] == b"\7\0\0\0"
    array = np.arange(6.0)
    with pytest.warns(DeprecationWarning, match="numpy_to_ptr"):
        pointer = acl.util.numpy_to_ptr(array)
    assert acl.rt.memcpy(device, 64, pointer, 48, 1) == 0
    array[:] = 0
    assert acl.rt.memcpy(pointer, 48, device, 48, 2) == 0
    assert array.tolist() == [0, 1, 2, 3, 4, 5]


def test_data_buffers(drop_in):
    """A pointer and a size, and nothing owned."""
    buffer = acl.create_data_buffer(4096, (1 << 32) + 5)
    assert acl.get_data_buffer_addr(buffer) == 4096
    assert acl.get_data_buffer_size(buffer) == 5
    assert acl.get_data_buffer_size_v2(buffer) == (1 << 32) + 5
    assert acl.update_data_buffer(buffer, 1, 2) == 0
    assert acl.get_data_buffer_addr(buffer) == 1
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_data_buffer(buffer) == 100000
    assert acl.destroy_data_buffer(0) == 100000


def test_halves_and_data_types():
    """As the sample for system information has them."""
    assert acl.float_to_float16(1.625) == 0x3E80
    assert acl.float16_to_float(0x3E80) == 1.625
    assert [acl.data_type_size(one) for one in (0, 1, 9, 27, -1, 99)] == [4, 2, 8, 2, 0, 0]


def test_threads_are_real(drop_in):
    """The number is the thread's own; stop only joins, and tells what was raised."""
    seen = []
    number, code = acl.util.start_thread(lambda given: seen.append((given, threading.get_ident())), [1, 2])
    assert code == 0
    assert acl.util.stop_thread(number) == 0
    assert seen == [([1, 2], number)]
    number, _ = acl.util.start_thread(lambda: seen.append("none"), None)
    acl.util.stop_thread(number)
    assert seen[-1] == "none"
    number, _ = acl.util.start_thread(lambda: 1 / 0, None)
    with pytest.raises(RuntimeError, match=r"^exception=ZeroDivisionError,msg=thread call failed;$"):
        acl.util.stop_thread(number)
    assert acl.util.stop_thread(number) == 100000
