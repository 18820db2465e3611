#pragma once
/// The process that delivers as one account: it became the account before its first job, and nothing brings it back.
///
/// Jobs:    each comes as a connected socket over the control socket, and is a thread's: one that hangs holds up no
///          other. (One that comes as kAlone is done before the next is looked for: most accounts get one message,
///          which needs no thread.) On the socket: a Job, the message's content, the Answer (work.h). The process
///          never has a descriptor of the spool.
/// Groups:  what goes into the same mailbox at the same time shares locks and syncs (groups.h).
/// Safety:  none but :include: files are read as root; nothing is stored and no command run. No other process of the
///          account may look into this one.
/// End:     of the control socket, or kIdle without a job: when its jobs are done, or their time limits are over.
///          What a job has whole in hand is finished even if the program that sent it has died.
#include <optional>
#include <string>
#include <string_view>

#include "lib/mailbox/work.h"

namespace pen::mailbox {

inline constexpr seconds kIdle{5};
// For a command beyond its limit: the worker ends it first, with all that it has begun.
inline constexpr seconds kGrace{5};

/// Who a worker is.
struct Role {
  std::optional<Identity> become;   // nullopt: who made it
  std::string root;                 // as in Work
  std::optional<Round> round = {};  // it is a postman (postman.h) and has neither of these
  PEN_FIELDS(become, root, round)
};

/// What a message of the control socket says of the job whose socket it brings.
inline constexpr std::string_view kAlone = "alone", kAmongOthers = "among others";

/// In a process of one thread. control: a SOCK_SEQPACKET socket. Its first message is a Role; each of the others
/// brings one descriptor. A process that is given no role for kIdle ends.
[[noreturn]] void run_worker(int control);

}  // namespace pen::mailbox
