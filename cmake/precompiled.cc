// Nothing but a file for the target that owns the precompiled headers to compile (precompiled.h).
