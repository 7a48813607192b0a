"""pyACL, function by function, on `cann_async.sync`. `cann_async.acl` puts the functions together as the module `acl`.

Only handles, addresses and codes live here: what the functions do is done by the blocking twin and the machine.

    binding        what makes a function one of pyACL: how arguments are read, errors become codes
    process        the one runtime of the process; handles; what is current in a thread
    addresses      pointers as integers, and the memory behind them
    setup devices contexts streams events notifies callbacks allocation copies stream_memory virtual kernels pointers
"""
