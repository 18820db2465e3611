#pragma once
/// A process that delivers for one account after another, one delivery at a time, and only stores mail: no command, no
/// forward file, no look-up.
///
/// Rights:  those that confine.h leaves; for each delivery the effective uid and gid of its account.
/// Jobs:    over one stream socket, one after the other: a Job, the content, the Answer (work.h). The process never
///          has a descriptor of the spool.
/// Token:   an eventfd that one side reads. The program reads it before it sends a job; the postman reads it after
///          kIdle without a job, and ends. So no job is ever sent to a postman that is ending.
/// End:     also when the socket ends: after the present delivery, which stores its content only if it has it whole.
#include "lib/send/mailbox/policy.h"

namespace pen::mailbox {

/// Must run in a process with one thread that is root. control: a SOCK_SEQPACKET socket, on which two messages bring
/// the job socket and the token.
[[noreturn]] void run_postman(int control, const Policy& policy);

}  // namespace pen::mailbox
