"""The simulated hardware. Read it in the order in which a task passes through it.

    task         what is queued: one `Item`, and the `Work` that items of one kind share
    queue        one FIFO per stream; only its head can become ready
    scheduler    heads become ready; waits and records are resolved here; what ends makes way for the next
    engine       one executor coroutine per engine takes ready items by priority, then by who is ready longer
    clock        what "the engine works on it" means: wall time or virtual time
    workers      threads that run heavy bodies on the wall clock, and the device thread
    completion   whoever waits for an item: coroutines of any loop, blocked threads, other streams
    hosts        may virtual time move? only when no host coroutine can run
    record       one compact row per item
    arena        device memory and pinned host memory
    machine      one host with its devices: puts the parts together and lets one thread at a time drive them

No name in here is public; the nouns one level up are what a user holds.
"""
