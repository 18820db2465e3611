#pragma once
/// Makes one delivery in a process that runs as the recipient.
///
/// Use:     from a handler thread (it blocks):  Answer a = deliver_in_child(work, body, time_limit);
/// Process: the worker of that account (worker.h) looks for a forward file (if requested), else stores the message or
///          runs a command (command.h), and reports. It gets the content through a socket, never a descriptor of the
///          spool. A worker that does not answer in time gets no further jobs, so that a hanging file system delays no
///          other mail. If Work::round permits it and the account has no other running delivery, a postman delivers
///          (postman.h), which saves making a process.
/// Death:   of this program: a delivery that has the whole content already finishes (a mailbox is never left with half
///          a message); any other ends without effect.
/// Ending:  of the conversation that the delivery is for: its command is killed with its process group, nothing more
///          is stored, and the answer is "deferred" at once. A message that is being written into a mailbox is
///          completed.
/// Thread:  any; several calls at once.
#include <chrono>

#include "lib/send/delivery/ending.h"
#include "lib/send/mailbox/work.h"
#include "lib/suite/ipc/content.h"

namespace pen::mailbox {

/// ending: may be nullptr.
Answer deliver_in_child(Work work, const ipc::Content& body, std::chrono::seconds time_limit,
                        const delivery::Ending* ending = nullptr);

}  // namespace pen::mailbox
