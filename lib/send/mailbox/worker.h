#pragma once
/// A process that delivers as one account: it takes on the account's identity before its first job and can never leave
/// it.
///
/// Jobs:    each comes as a connected socket over the control socket and has its own thread, so that one that hangs
///          does not delay others. A job marked kAlone is done before the next is looked for: most accounts get one
///          message, which needs no thread. On the socket: a Job, the message's content, the Answer (work.h). The
///          process never has a descriptor of the spool.
/// Groups:  deliveries into the same mailbox at the same time share locks and syncs (groups.h).
/// Safety:  as root it parses its request, of fixed size, and asks for the account, and nothing else: if it cannot
///          take the account's rights, it ends up with those of nobody. What a job wants is compared with the policy
///          (policy.h). No other process of the account may inspect this one.
/// End:     when the control socket ends, or after kIdle without a job: after its jobs are done, or their time limits
///          are over. A job whose content is complete is finished even if the program that sent it has died.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/send/mailbox/policy.h"
#include "lib/send/mailbox/work.h"

namespace pen::mailbox {

inline constexpr seconds kIdle{5};
// Extra time for a command beyond its limit: the worker first ends it, with all its processes.
inline constexpr seconds kGrace{5};
// Processes that wait for the next requests.
inline constexpr std::size_t kAhead = 4;

/// What a process is hired for: also the key under which it is found again.
struct Role {
  std::optional<Identity> become;   // nullopt: that of the process which made it
  std::string root;                 // as in Work
  std::optional<Round> round = {};  // if set, it is a postman (postman.h), and the other two are unset
  PEN_FIELDS(become, root, round)
};

/// The text of a control socket's message: how to treat the job of the socket that comes with it.
inline constexpr std::string_view kAlone = "alone", kAmongOthers = "among others";

/// Opens a table's file for the program, if it is one of the program's. Called in a process that ends then, so it may
/// give up the process's rights. Errors: errno; EPERM with the reason: it is no table of the program's.
using OpenTable = std::function<Result<Fd>(const std::string& path)>;

/// Must run in a process with one thread. control: a SOCK_SEQPACKET socket. Its first message is a Request; each later
/// one brings one descriptor. The process ends if it gets no request for kIdle, or one that the policy refuses.
[[noreturn]] void run_worker(int control, const Policy& policy, const OpenTable& open_table);

}  // namespace pen::mailbox
