#pragma once
/// One delivery, made by a process that runs as the recipient.
///
/// Use:     from a handler thread (it blocks):  Answer a = deliver_in_child(work, body, time_limit);
/// Process: the worker of that account (worker.h) looks for a forward file (if asked), else stores the message or
///          runs a command (command.h), and reports. It gets the content through a socket, never a descriptor of the
///          spool. A worker whose answer does not come in time gets no further job: a hanging file system holds up
///          nobody else. Where Work::round allows it and the account has no other delivery in hand, a postman does
///          (postman.h), which nothing has to be made for.
/// Death:   of this program: a delivery that already has the whole content finishes (a mailbox is never cut in the
///          middle); one that has not gives up without effect.
/// Ending:  of the conversation that the delivery is for: its command is killed with its group, nothing more is stored,
///          the answer is "deferred" at once. A mailbox that is being written to is completed.
/// Thread:  any number at once.
#include <chrono>

#include "lib/ipc/content.h"
#include "lib/mailbox/ending.h"
#include "lib/mailbox/work.h"

namespace pen::mailbox {

/// ending: nullptr where there is none.
Answer deliver_in_child(Work work, const ipc::Content& body, std::chrono::seconds time_limit,
                        const Ending* ending = nullptr);

}  // namespace pen::mailbox
