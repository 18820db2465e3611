#pragma once
/// The process that delivers for one account after the other, one delivery at a time, and stores mail only: no
/// command, no forward file, no look-up.
///
/// Rights:  those that confine.h leaves, and for each delivery the effective uid and gid of its account.
/// Jobs:    over one stream socket, one after the other: a Job, the content, the Answer (work.h). The process never
///          has a descriptor of the spool.
/// Token:   an eventfd. Who reads it decides: the program, that there is a job to come; the postman, after kIdle
///          without one, that it ends. So no job is ever sent to one that is leaving.
/// End:     of the socket too: after the delivery in hand, which has its content whole or stores nothing.
#include "lib/mailbox/work.h"

namespace pen::mailbox {

/// In a process of one thread that is root. control: a SOCK_SEQPACKET socket, over which two messages come, with the
/// socket and the token.
[[noreturn]] void run_postman(int control, const Round& round);

}  // namespace pen::mailbox
