"""acl.rt: contexts, and what is current in a thread."""

from __future__ import annotations

import weakref

from .. import sync
from ..errors import error
from .binding import pyacl
from .process import current, device_of, handles, here
from .setup import check_option

_options: weakref.WeakKeyDictionary[sync.Context, dict[int, int]] = weakref.WeakKeyDictionary()


@pyacl("rt.create_context", "i", 0)
def create_context(device_id: int) -> int:
    """Make a context and make it current here. Mirrors aclrtCreateContext."""
    here.context = context = device_of(device_id).create_context()
    return handles.put(context)


@pyacl("rt.destroy_context", "k")
def destroy_context(context: int) -> None:
    """Finish its streams and end it; a default one is 107002. Mirrors aclrtDestroyContext."""
    found = handles.get(context, sync.Context, 107002)
    try:
        found.destroy()
    finally:
        if found._closed is not None:
            handles.forget(found)
        if here.context is found:
            here.context = None


@pyacl("rt.set_context", "k")
def set_context(context: int) -> None:
    """Make a context current in this thread. Mirrors aclrtSetCurrentContext."""
    found = handles.get(context, sync.Context, 107002)
    found._check()
    here.context = found


@pyacl("rt.get_context", "", 0)
def get_context() -> int:
    """Give the context that is current in this thread. Mirrors aclrtGetCurrentContext."""
    return handles.put(current())


@pyacl("rt.ctx_get_current_default_stream", "", 0)
def ctx_get_current_default_stream() -> int:
    """Give the handle of the default stream. Mirrors aclrtCtxGetCurrentDefaultStream."""
    return handles.put(current().default_stream)


@pyacl("rt.get_primary_ctx_state", "i", 0, 0)
def get_primary_ctx_state(device_id: int) -> tuple[int, int]:
    """Say whether a device has been set, and give flags 0. Mirrors aclrtGetPrimaryCtxState."""
    return int(device_of(device_id)._users > 0), 0


@pyacl("rt.ctx_set_sys_param_opt", "i,l")
def ctx_set_sys_param_opt(opt: int, value: int) -> None:
    """Set an option of the current context; nothing here depends on one. Mirrors aclrtCtxSetSysParamOpt."""
    context = current()
    check_option(opt)
    _options.setdefault(context, {})[opt] = value


@pyacl("rt.ctx_get_sys_param_opt", "i", 0)
def ctx_get_sys_param_opt(opt: int) -> int:
    """Give an option of the current context; one that was never set is 107021. Mirrors aclrtCtxGetSysParamOpt."""
    context = current()
    check_option(opt)
    options = _options.get(context, {})
    if opt not in options:
        raise error(107021, f"option {opt} was never set in this context")
    return options[opt]
