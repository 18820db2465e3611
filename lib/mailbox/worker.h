#pragma once
/// A process that delivers as one account: it takes on the account's identity before its first job and can never leave
/// it.
///
/// Jobs:    each comes as a connected socket over the control socket and has its own thread, so that one that hangs
///          does not delay others. A job marked kAlone is done before the next is looked for: most accounts get one
///          message, which needs no thread. On the socket: a Job, the message's content, the Answer (work.h). The
///          process never has a descriptor of the spool.
/// Groups:  deliveries into the same mailbox at the same time share locks and syncs (groups.h).
/// Safety:  as root it reads only :include: files; it stores nothing and runs no command. No other process of the
///          account may inspect this one.
/// End:     when the control socket ends, or after kIdle without a job: after its jobs are done, or their time limits
///          are over. A job whose content is complete is finished even if the program that sent it has died.
#include <optional>
#include <string>
#include <string_view>

#include "lib/mailbox/work.h"

namespace pen::mailbox {

inline constexpr seconds kIdle{5};
// Extra time for a command beyond its limit: the worker first ends it, with all its processes.
inline constexpr seconds kGrace{5};

/// The identity and task of a worker.
struct Role {
  std::optional<Identity> become;   // nullopt: that of the process which made it
  std::string root;                 // as in Work
  std::optional<Round> round = {};  // if set, it is a postman (postman.h), and the other two are unset
  PEN_FIELDS(become, root, round)
};

/// The text of a control socket's message: how to treat the job whose socket it brings.
inline constexpr std::string_view kAlone = "alone", kAmongOthers = "among others";

/// Must run in a process with one thread. control: a SOCK_SEQPACKET socket. Its first message is a Role; each later
/// one brings one descriptor. The process ends if it gets no role for kIdle.
[[noreturn]] void run_worker(int control);

}  // namespace pen::mailbox
