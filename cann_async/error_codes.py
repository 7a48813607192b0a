"""CANN's error codes as plain data: every code of its headers, with its name, its family and what to do about it.

It imports nothing and is read only by `errors`, which looks up what an error is called and what it advises. A code
without a hint of its own has the one of its family, so every code but success has one. The table is text because
that is read faster than 252 rows of Python are compiled: the package imports this whenever it is imported.
"""

TABLE = """
[done]
0 ACL_SUCCESS

[argument] Correct the argument that the text names.
100000 ACL_ERROR_INVALID_PARAM A null pointer, a size of 0 or an unknown number was passed: correct that argument.
100026 ACL_ERROR_UNSUPPORTED_DATA_TYPE Convert the data to a type that is supported here.
100027 ACL_ERROR_FORMAT_NOT_MATCH Convert the tensor to the format that is expected.
107000 ACL_ERROR_RT_PARAM_INVALID Correct the argument that the text names, and call again: nothing was enqueued.
107001 ACL_ERROR_RT_INVALID_DEVICEID Use a device number from 0 to the number of devices less one.
107008 ACL_ERROR_RT_ADDR_UNALIGNED Align the address as the call demands.
107016 ACL_ERROR_RT_INVALID_MEMORY_TYPE Use one of the memory types that the call lists.
107017 ACL_ERROR_RT_INVALID_HANDLE Use a handle that is still alive, and of the kind that the call takes.
107018 ACL_ERROR_RT_INVALID_MALLOC_TYPE Use one of the ways to allocate that the call lists.
107039 ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY Pass an array with more room for the result.
148048 ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG
200002 ACL_ERROR_INVALID_DEVICE
200003 ACL_ERROR_MEMORY_ADDRESS_UNALIGNED Align the address as the call demands.
200005 ACL_ERROR_INVALID_RESOURCE_HANDLE Use a handle that is still alive.

[order] Make the calls in their order: initialise, use, release.
100001 ACL_ERROR_UNINITIALIZE Call aclInit first.
100002 ACL_ERROR_REPEAT_INITIALIZE aclInit has run already: go on, it counts one reference more.
100037 ACL_ERROR_REPEAT_FINALIZE aclFinalize has run already: finalize once.
100039 ACL_ERROR_COMPILING_STUB_MODE Link with the runtime itself, not with the stubs that are there to compile against.
107021 ACL_ERROR_RT_SYSPARAMOPT_NOT_SET Set the option first.
148051 ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED Release what depends on it first.
207015 ACL_ERROR_RT_REPEATED_INIT
507007 ACL_ERROR_RT_CONTEXT_RELEASE_ERROR It has been closed: open another one, and close last.

[ownership] Use an object only with the context that it was made in.
107002 ACL_ERROR_RT_CONTEXT_NULL Set a device or a context in this thread first, and use none that has been destroyed.
107003 ACL_ERROR_RT_STREAM_CONTEXT Streams and events of different contexts never mix: use those of one context.
107004 ACL_ERROR_RT_MODEL_CONTEXT
107005 ACL_ERROR_RT_STREAM_MODEL Bind the stream to this model, or use one that is bound to none.
200004 ACL_ERROR_RESOURCE_NOT_MATCH
507031 ACL_ERROR_RT_LABEL_CONTEXT

[support] This chip or this kind of object does not have it: do it another way.
148052 ACL_ERROR_UNSUPPORTED_JPEG
200001 ACL_ERROR_API_NOT_SUPPORT
200006 ACL_ERROR_FEATURE_UNSUPPORTED Pass 0 as the flags: nothing else is supported.
207000 ACL_ERROR_RT_FEATURE_NOT_SUPPORT The text says what is not supported: do it another way.
207019 ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP
207021 ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED
507008 ACL_ERROR_RT_SOC_VERSION
507009 ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT

[resource] Give back what is no longer needed, or use fewer at once.
207004 ACL_ERROR_RT_NO_DEVICE Check that a device is there and visible to this process.
207005 ACL_ERROR_RT_RESOURCE_ALLOC_FAIL
207006 ACL_ERROR_RT_NO_PERMISSION Check the rights of the user.
207007 ACL_ERROR_RT_NO_EVENT_RESOURCE Destroy events that are no longer needed.
207008 ACL_ERROR_RT_NO_STREAM_RESOURCE Close streams that are no longer needed, and use one stream for more work.
207009 ACL_ERROR_RT_NO_NOTIFY_RESOURCE Destroy notifies that are no longer needed.
207010 ACL_ERROR_RT_NO_MODEL_RESOURCE Destroy graphs that are no longer needed.
207011 ACL_ERROR_RT_NO_CDQ_RESOURCE
207012 ACL_ERROR_RT_OVER_LIMIT
300000 ACL_ERROR_STORAGE_OVER_LIMIT
507002 ACL_ERROR_RT_STREAM_TASK_FULL Wait until the stream has done some of its work.
507003 ACL_ERROR_RT_STREAM_TASK_EMPTY

[memory] Check which memory is still in use, and free what is not.
200000 ACL_ERROR_BAD_ALLOC The host has no memory left: free some.
207001 ACL_ERROR_RT_MEMORY_ALLOCATION Free buffers that are no longer needed, or split the work.
207002 ACL_ERROR_RT_MEMORY_FREE
207018 ACL_ERROR_RT_DEVICE_OOM
507910 ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED The memory is registered already: unregister it first.
507911 ACL_ERROR_HOST_MEMORY_NOT_REGISTERED Register the memory first.

[fault] Look at what the body of the kernel raised: it is the `__cause__` of this error.
507011 ACL_ERROR_RT_MODEL_EXECUTE A task of the graph failed: run its work without the graph to see which.
507015 ACL_ERROR_RT_AICORE_EXCEPTION
507016 ACL_ERROR_RT_AICORE_TRAP_EXCEPTION
507018 ACL_ERROR_RT_AICPU_EXCEPTION
507020 ACL_ERROR_RT_AICPU_MODEL_RSP_ERR
507035 ACL_ERROR_RT_VECTOR_CORE_EXCEPTION
507036 ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION
507049 ACL_ERROR_RT_FFTS_PLUS_EXCEPTION
507050 ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION
507916 ACL_ERROR_RT_CCU_EXCEPTION

[bounds] The kernel left the memory that it was given: check its indices against the sizes of its buffers.
507042 ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW
507043 ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW
507044 ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW
507045 ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW

[timeout] It took longer than allowed: allow more time, or find out what it waits for.
100036 ACL_ERROR_WAIT_CALLBACK_TIMEOUT No callback came in time: wait longer, or check that one was launched.
107019 ACL_ERROR_RT_WAIT_TIMEOUT What was waited for did not come in time: wait longer, or find out why it never comes.
107020 ACL_ERROR_RT_TASK_TIMEOUT The task took longer than it may: find out what it waits for, or give it more time.
207020 ACL_ERROR_RT_TIMEOUT
507012 ACL_ERROR_RT_REPORT_TIMEOUT No callback came in time: wait longer, or check that one was launched.
507014 ACL_ERROR_RT_AICORE_TIMEOUT The kernel ran longer than it may: give it more time, or less to do.
507017 ACL_ERROR_RT_AICPU_TIMEOUT The kernel ran longer than it may: give it more time, or less to do.
507034 ACL_ERROR_RT_VECTOR_CORE_TIMEOUT The kernel ran longer than it may: give it more time, or less to do.
507046 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT The wait gave up, the work goes on: wait again, longer, or abort it.
507047 ACL_ERROR_RT_EVENT_SYNC_TIMEOUT The wait gave up, the work goes on: wait longer, or find out what holds it up.
507048 ACL_ERROR_RT_FFTS_PLUS_TIMEOUT
507915 ACL_ERROR_RT_CCU_TIMEOUT

[abort] The work was aborted: enqueue it again if it is still wanted.
107022 ACL_ERROR_RT_DEVICE_TASK_ABORT All tasks of the device were aborted: enqueue again when the abort is over.
107023 ACL_ERROR_RT_STREAM_ABORT It was taken from its stream before it could end: enqueue it again if it is wanted.
107035 ACL_ERROR_RT_TASK_ABORT_STOP A hook of the abort failed: correct the hook and abort again.

[not ready] It is a state and no failure: ask again later.
507004 ACL_ERROR_RT_STREAM_NOT_COMPLETE The stream has not finished: ask again later, or wait for it.
507005 ACL_ERROR_RT_END_OF_SEQUENCE The data has come to its end; no failure.
507006 ACL_ERROR_RT_EVENT_NOT_COMPLETE The event is not complete: ask again later, or wait for it.
507023 ACL_ERROR_RT_MODEL_ABORT_NORMAL The graph was stopped because somebody asked for it; no failure.

[event] Record both events, and wait for both before asking for times.
107006 ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID Wait until the event is complete, and make it with timing.
107007 ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL Pass the earlier event as the start.

[subscription] Subscribe exactly one thread to the stream, before callbacks are launched on it.
100033 ACL_ERROR_REPEAT_SUBSCRIBE Subscribe each stream once.
100034 ACL_ERROR_STREAM_NOT_SUBSCRIBE Subscribe the stream first.
100035 ACL_ERROR_THREAD_NOT_SUBSCRIBE Subscribe from this thread first.
107011 ACL_ERROR_RT_STREAM_SUBSCRIBE Subscribe each stream once, and unsubscribe in the same thread.
107012 ACL_ERROR_RT_THREAD_SUBSCRIBE Subscribe from this thread first, on one device only.
107015 ACL_ERROR_RT_STREAM_NO_CB_REG Subscribe a thread to the stream before callbacks are launched on it.

[capture] Look at what was called between the begin and the end of the capture, and on which stream.
107024 ACL_ERROR_RT_CAPTURE_DEPENDENCY Record the event that is waited for within the same capture.
107025 ACL_ERROR_RT_STREAM_UNJOINED Before the end, let the first stream wait for every other stream of the capture.
107026 ACL_ERROR_RT_MODEL_CAPTURED
107027 ACL_ERROR_RT_STREAM_CAPTURED End the capture of the stream first.
107028 ACL_ERROR_RT_EVENT_CAPTURED Use another event outside the capture.
107029 ACL_ERROR_RT_STREAM_NOT_CAPTURED Begin a capture on the stream first.
107030 ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT Make the call before the capture begins, or capture in a more relaxed mode.
107031 ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT Use a stream of your own: default streams cannot be captured.
107032 ACL_ERROR_STREAM_CAPTURE_CONFLICT Begin the capture on one of the streams only.
107033 ACL_ERROR_STREAM_TASK_GROUP_STATUS
107034 ACL_ERROR_STREAM_TASK_GROUP_INTR
107036 ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED End the capture on the stream that began it.
107037 ACL_ERROR_RT_MODEL_RUNNING Wait until the graph has run.
107038 ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD End the capture in the thread that began it.
107040 ACL_ERROR_RT_MODEL_UPDATE_FAILED
107041 ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC Use pinned host memory: a copy of any other would have to wait.
107045 ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING
507903 ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED An illegal call has broken the capture: end it, and capture again.

[overflow] A number left the range of its type: look at the data, or compute with a wider type.
207003 ACL_ERROR_RT_AICORE_OVER_FLOW
207016 ACL_ERROR_RT_AIVEC_OVER_FLOW
207017 ACL_ERROR_RT_OVER_FLOW

[internal] Something inside has failed that the call did not cause: look at the recent error messages.
500000 ACL_ERROR_INTERNAL_ERROR
500001 ACL_ERROR_FAILURE
500003 ACL_ERROR_RT_FAILURE
500004 ACL_ERROR_DRV_FAILURE
507000 ACL_ERROR_RT_INTERNAL_ERROR Use a stream or an event that is still alive, and an event only once it is recorded.
507001 ACL_ERROR_RT_TS_ERROR
507022 ACL_ERROR_RT_IPC_ERROR
507025 ACL_ERROR_RT_RINGBUFFER_NOT_INIT
507026 ACL_ERROR_RT_RINGBUFFER_NO_DATA
507029 ACL_ERROR_RT_DEBUG_REGISTER_FAIL
507030 ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL
507037 ACL_ERROR_RT_CDQ_BATCH_ABNORMAL
507899 ACL_ERROR_RT_DRV_INTERNAL_ERROR
507900 ACL_ERROR_RT_AICPU_INTERNAL_ERROR
507902 ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR

[device] The device or its link is at fault: reset the device, and look at its health.
507010 ACL_ERROR_RT_LOST_HEARTBEAT Reset the device.
507013 ACL_ERROR_RT_SYS_DMA
507033 ACL_ERROR_RT_DEV_SETUP_ERROR Open the device in this process, and not in one that was forked from a user of it.
507051 ACL_ERROR_RT_SEND_MSG
507052 ACL_ERROR_RT_COPY_DATA
507053 ACL_ERROR_RT_DEVICE_MEM_ERROR
507054 ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR
507055 ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR
507056 ACL_ERROR_RT_LINK_ERROR
507057 ACL_ERROR_RT_SUSPECT_REMOTE_ERROR
507901 ACL_ERROR_RT_SOCKET_CLOSE
507904 ACL_ERROR_RT_COMM_OP_RETRY_FAIL
507914 ACL_ERROR_RT_L3_PORT_ERROR

[kernel] Load the binary of the kernel once, and look the kernel up by its right name.
100028 ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED
100029 ACL_ERROR_KERNEL_NOT_FOUND Check the name of the kernel, and that its binary is loaded.
100030 ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED
100031 ACL_ERROR_KERNEL_ALREADY_REGISTERED
107042 ACL_ERROR_RT_SYMBOL_NOT_FOUND
107043 ACL_ERROR_RT_INVALID_SYMBOL
107044 ACL_ERROR_RT_INVALID_DEVICE_FUNCTION
507024 ACL_ERROR_RT_KERNEL_UNREGISTERING
507027 ACL_ERROR_RT_KERNEL_LOOKUP Check the name of the kernel, and that its binary is loaded.
507028 ACL_ERROR_RT_KERNEL_DUPLICATE
507032 ACL_ERROR_RT_PROGRAM_USE_OUT Unload binaries that are no longer needed.

[file] Check the path, the rights and the content of the file.
100003 ACL_ERROR_INVALID_FILE Check that the file is there, and that the path and its rights are correct.
100004 ACL_ERROR_WRITE_FILE Check the path, the rights and the free space of the disk.
100005 ACL_ERROR_INVALID_FILE_SIZE
100006 ACL_ERROR_PARSE_FILE Correct the JSON of the file.
100007 ACL_ERROR_FILE_MISSING_ATTR
100008 ACL_ERROR_FILE_ATTR_INVALID
107009 ACL_ERROR_RT_FILE_OPEN
107010 ACL_ERROR_RT_FILE_WRITE

[queue] Use a queue that was created, and is still there.
100032 ACL_ERROR_INVALID_QUEUE_ID
207013 ACL_ERROR_RT_QUEUE_EMPTY The queue is empty: try again later.
207014 ACL_ERROR_RT_QUEUE_FULL The queue is full: try again later.

[group] Create the group of tasks and select it first.
100040 ACL_ERROR_GROUP_NOT_SET
100041 ACL_ERROR_GROUP_NOT_CREATE
107013 ACL_ERROR_RT_GROUP_NOT_SET
107014 ACL_ERROR_RT_GROUP_NOT_CREATE

[profiling] Check the settings of profiling and dump, and start each once.
100009 ACL_ERROR_INVALID_DUMP_CONFIG
100010 ACL_ERROR_INVALID_PROFILING_CONFIG
100042 ACL_ERROR_PROF_ALREADY_RUN Stop the profiling that is running first.
100043 ACL_ERROR_PROF_NOT_RUN Start profiling first.
100044 ACL_ERROR_DUMP_ALREADY_RUN Stop the dump that is running first.
100045 ACL_ERROR_DUMP_NOT_RUN Start the dump first.
148046 ACL_ERROR_PROF_REPEAT_SUBSCRIBE
148047 ACL_ERROR_PROF_API_CONFLICT
200007 ACL_ERROR_PROF_MODULES_UNSUPPORTED
500005 ACL_ERROR_PROFILING_FAILURE
507019 ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR
507021 ACL_ERROR_RT_PROFILING_ERROR

[snapshot] Lock, save and restore in this order, with nothing running.
507905 ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT
507906 ACL_ERROR_SNAPSHOT_LOCK_FAILED
507907 ACL_ERROR_SNAPSHOT_UNLOCK_FAILED
507908 ACL_ERROR_SNAPSHOT_BACKUP_FAILED
507909 ACL_ERROR_SNAPSHOT_RESTORE_FAILED
507912 ACL_ERROR_SNAPSHOT_CALLBACK_FAILED
507913 ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED

[die] Choose the mode of the dies before the device is used.
507038 ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR
507039 ACL_ERROR_RT_DIE_SET_ERROR
507040 ACL_ERROR_RT_INVALID_DIEID
507041 ACL_ERROR_RT_DIE_MODE_NOT_SET

[operator] Check name, inputs, outputs and attributes of the operator.
100020 ACL_ERROR_OP_TYPE_NOT_MATCH
100021 ACL_ERROR_OP_INPUT_NOT_MATCH
100022 ACL_ERROR_OP_OUTPUT_NOT_MATCH
100023 ACL_ERROR_OP_ATTR_NOT_MATCH
100024 ACL_ERROR_OP_NOT_FOUND Check the name of the operator, and that its model was loaded.
100025 ACL_ERROR_OP_LOAD_FAILED
148049 ACL_ERROR_INVALID_OPP_PATH Set ASCEND_OPP_PATH to the folder of the operators.
148050 ACL_ERROR_OP_UNSUPPORTED_DYNAMIC

[model] Check the offline model, and what it is given, against its description.
100011 ACL_ERROR_INVALID_MODEL_ID Use an id that loading a model gave, and only until it is unloaded.
100012 ACL_ERROR_DESERIALIZE_MODEL
100013 ACL_ERROR_PARSE_MODEL Convert the model again, for this chip.
100014 ACL_ERROR_READ_MODEL_FAILURE Check the path of the model file.
100015 ACL_ERROR_MODEL_SIZE_INVALID
100016 ACL_ERROR_MODEL_MISSING_ATTR
100017 ACL_ERROR_MODEL_INPUT_NOT_MATCH Compare number, order and sizes of the inputs with the model's description.
100018 ACL_ERROR_MODEL_OUTPUT_NOT_MATCH Compare number, order and sizes of the outputs with the model's description.
100019 ACL_ERROR_MODEL_NOT_DYNAMIC Set sizes only for a model that was converted with dynamic sizes.
100038 ACL_ERROR_NOT_STATIC_AIPP
148053 ACL_ERROR_INVALID_BUNDLE_MODEL_ID

[graph engine] The graph engine reports it: check the model and what it was given.
145000 ACL_ERROR_GE_PARAM_INVALID
145001 ACL_ERROR_GE_EXEC_NOT_INIT
145002 ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID
145003 ACL_ERROR_GE_EXEC_MODEL_ID_INVALID
145006 ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID
145007 ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID
145008 ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID
145009 ACL_ERROR_GE_EXEC_LOAD_MODEL_REPEATED
145011 ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID
145012 ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID
145013 ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID
145014 ACL_ERROR_GE_AIPP_BATCH_EMPTY
145015 ACL_ERROR_GE_AIPP_NOT_EXIST
145016 ACL_ERROR_GE_AIPP_MODE_INVALID
145017 ACL_ERROR_GE_OP_TASK_TYPE_INVALID
145018 ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID
145019 ACL_ERROR_GE_PLGMGR_PATH_INVALID
145020 ACL_ERROR_GE_FORMAT_INVALID
145021 ACL_ERROR_GE_SHAPE_INVALID
145022 ACL_ERROR_GE_DATATYPE_INVALID
245000 ACL_ERROR_GE_MEMORY_ALLOCATION
245001 ACL_ERROR_GE_MEMORY_OPERATE_FAILED
245002 ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED
345102 ACL_ERROR_GE_SUBHEALTHY
345103 ACL_ERROR_GE_USER_RAISE_EXCEPTION
345104 ACL_ERROR_GE_DATA_NOT_ALIGNED
500002 ACL_ERROR_GE_FAILURE
545000 ACL_ERROR_GE_INTERNAL_ERROR
545001 ACL_ERROR_GE_LOAD_MODEL
545002 ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED
545003 ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED
545004 ACL_ERROR_GE_EXEC_LOAD_TASK_PARTITION_FAILED
545005 ACL_ERROR_GE_EXEC_LOAD_KERNEL_PARTITION_FAILED
545006 ACL_ERROR_GE_EXEC_RELEASE_MODEL_DATA
545007 ACL_ERROR_GE_COMMAND_HANDLE
545008 ACL_ERROR_GE_GET_TENSOR_INFO
545009 ACL_ERROR_GE_UNLOAD_MODEL
545601 ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT
545602 ACL_ERROR_GE_REDEPLOYING
"""
"""Families in brackets, each with its hint; below, its codes: number, name, and a hint of its own if it has one."""

FAMILIES: dict[str, str] = {}
"""What to do, by family."""
CODES: dict[int, tuple[str, str, str]] = {}
"""Name, family and hint (empty: the family's), by code."""
ALIASES: dict[str, int] = {"ACL_ERROR_NONE": 0, "ACL_RT_SUCCESS": 0}
"""Further names of codes; the canonical name stands in the table."""


def _read() -> None:
    family = ""
    for line in TABLE.split("\n"):
        if line.startswith("["):
            family, _, hint = line[1:].partition("]")
            FAMILIES[family] = hint.strip()
        elif line:
            number, _, rest = line.partition(" ")
            name, _, hint = rest.partition(" ")
            CODES[int(number)] = (name, family, hint)


_read()
