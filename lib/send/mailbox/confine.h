#pragma once
/// Gives up for ever all rights that this process does not need for changing between accounts. It stays root by
/// its real and saved uid, so that no account may signal or inspect it, but can do nothing as root:
///
/// - capabilities: CAP_SETUID and CAP_SETGID alone, in every set; being uid 0, or changing the uid, neither adds nor
///   removes any;
/// - system calls (seccomp): only those that storing mail needs. Of the uids only the effective one can change, to none
///   below `lowest` and not to root's or one that is kept; of the gids only the effective one, not to root's or one
///   that is kept; there are no supplementary groups. Until act_as() both are nobody's. No new process, program,
///   socket or executable memory;
/// - files (Landlock, if the kernel has it and the directory can be opened): only those below `base`;
/// - no core file, and no descriptors but its own (the process that forks it provides for that).
///
/// Use:     confine(round), then act_as(identity) as often as needed. In a process of one thread that is root.
/// Errors:  errno of a refusal by the kernel: the process is then only partly confined and must not start working.
/// Source:  capabilities(7), seccomp(2), landlock(7).
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

/// False if the system call filter does not support the processor.
bool can_confine();
Result<void> confine(const Round& round);

/// Whether act_as() is permitted for this identity.
bool is_within(const Round& round, const Identity& who);
/// From now on files are opened, made and charged as `who`. Ends the process if the kernel refuses any part of this,
/// because its rights would then be unknown.
void act_as(const Identity& who);

}  // namespace pen::mailbox
