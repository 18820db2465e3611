#pragma once
/// Takes from this process for ever what going from account to account does not need. It stays root by its real and
/// saved uid, so that no account may signal it or look into it, and can do nothing as root:
///
/// - capabilities: CAP_SETUID and CAP_SETGID alone, in every set; uid 0 and a change of the uid give and take none;
/// - system calls (seccomp): those that storing mail takes. The effective uid is the only one that can change, to
///   none below `lowest` or root's, and the effective gid, to none of root's; supplementary groups are none. Until
///   act_as() both are nobody's. No new process, program, socket or executable memory;
/// - files (Landlock, where the kernel has it and the directory can be opened): those below `base`;
/// - no core file, no descriptors but its own (who forks it sees to that).
///
/// Use:     confine(round), then act_as(identity) as often as needed. In a process of one thread that is root.
/// Errors:  errno of what the kernel refuses: the process is then half confined, and must not go on to work.
/// Source:  capabilities(7), seccomp(2), landlock(7).
#include "lib/mailbox/work.h"

namespace pen::mailbox {

/// False where the system call filter does not know the processor.
bool can_confine();
Result<void> confine(const Round& round);

/// Whether act_as() may be asked for it.
bool is_within(const Round& round, const Identity& who);
/// Files are opened, made and charged as `who` from now on. Ends the process when the kernel refuses any part of it:
/// nobody knows whose rights it would have.
void act_as(const Identity& who);

}  // namespace pen::mailbox
