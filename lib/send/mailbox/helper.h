#pragma once
/// The process that stays root for all programs of a mail system, which themselves drop root's rights at their start.
/// It forks, becomes the account that a request names, as far as the program's policy allows, and goes on as a
/// worker, as a postman, or with a command; or it opens a table of the program's. It reads nothing that strangers
/// made but requests of fixed sizes (request.h). docs/root-helper.md.
///
/// Use:     int main(int argc, char** argv) {                                  // become/main.cc
///            if (mailbox::is_helper(argc, argv)) mailbox::run_helper(true, introduce);
///          }
/// Process: a file of its own, so a memory without what programs have. Single thread. Of root's capabilities it keeps
///          those that its work takes.
/// Sockets: SOCK_SEQPACKET. kHelperSocket is master's: each packet brings the socket of a program that is about to be
///          started, and says which. That program's first packet is its Policy, answered by kHelperReady, or
///          service::kTablesOnly: the program sends it while it is root and has read nothing that others wrote. Each
///          later one brings the control socket of a new process.
/// Bound:   of each program: as many processes as its policy says commands run at once, kTablesAtOnce for one that may
///          only ask for tables, else kProcessesAtOnce. Further requests wait.
/// End:     when master's socket has ended, and those of all programs. Processes that it made finish what they have in
///          hand.
/// Log:     what it and its processes refuse, at most kMostRefusals lines a program. Its processes report to it
///          over kTellsSocket, because they cannot open the log.
#include <functional>
#include <optional>
#include <string_view>

#include "lib/send/mailbox/policy.h"
#include "lib/send/mailbox/worker.h"

namespace pen::mailbox {

inline constexpr int kHelperSocket = 3, kTellsSocket = 4;
inline constexpr std::string_view kHelperName = "become", kHelperWord = "--helper", kHelperReady = "ready";
inline constexpr unsigned kMostRefusals = 20;
// Processes of a program that may only ask for tables.
inline constexpr std::uint64_t kTablesAtOnce = 8;
// Of one that delivers: more than it has deliveries at once, and no more than this host can run.
inline constexpr std::uint64_t kProcessesAtOnce = 1024;

/// What the helper finds out itself about a program that master has introduced.
struct Asker {
  Policy policy;  // until the program has sent one: Service::tables
  OpenTable open_table;
  std::string program = {};  // "virtual": which policy it may send
};
/// packet: master's. nullopt: it could not be found out, and the program gets nothing.
using Introduce = std::function<std::optional<Asker>(std::string_view packet)>;

bool is_helper(int argc, char** argv);
/// fewer_capabilities: confine_privileges.
[[noreturn]] void run_helper(bool fewer_capabilities, const Introduce& introduce);

/// The helper's work for one program alone, in a process that has been forked for it.
[[noreturn]] void nurse(int socket, Asker asker);

/// Has the helper write to the log that something was refused. For processes that it made.
void tell_refused(std::string_view what, std::string_view why);

}  // namespace pen::mailbox
