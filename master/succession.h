#pragma once
/// How master becomes its new version in the same process, and what a master finds of a former one.
///
/// Order:   ask_successor() runs the new master with --check-handover: it loads the configuration, runs each program
///          once, and looks at the queue's format. succeed() is the execve(). The new one calls inherit(); where it
///          cannot go on it calls give_back(), an execve() of the former one's file, which was kept open.
/// Signals: are blocked from before the execve() until let_signals_in(): one that comes meanwhile waits.
/// Thread:  master's only one.
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/config/config.h"
#include "master/handover.h"
#include "master/notify.h"

namespace pen::master {

/// What the next version is asked about: the handover and the programs that run, or its own programs alone.
enum class Ask { takes_over, begins_anew };
/// The version that would follow. Errors: its sentence, or that it says none within upgrade_program_timeout.
async::Task<Result<std::string>> ask_successor(async::Loop& loop, std::string file, const config::Config& config,
                                               Ask what = Ask::takes_over);

/// The other side: prints "ok VERSION", or a sentence. format: of the handover; speaks: the version of conversations
/// that the running programs have; 0: none run, and nothing is handed over. Returns the exit status.
int check_handover(const std::string& directory, unsigned format, unsigned speaks);

struct Succession {
  std::string file;                      // of the new master; empty: `former` is run
  std::string directory;                 // configuration
  int former = -1;                       // this program's file, open
  std::string refused;                   // for the former one: why the new one gave back
  std::vector<std::string> environment;  // besides ours
};
/// Returns only why it failed.
Error succeed(const Succession& next, Handover state);
/// The same for a state that nothing was taken of yet.
Error give_back(int adopt, int former, const std::string& directory, const std::vector<std::string>& environment,
                const std::string& why);
/// This program, or that of another file, from its beginning, with nothing of what this one has. Returns only why it
/// failed.
Error begin_anew(const std::string& directory, const std::vector<std::string>& environment,
                 const std::string& file = "/proc/self/exe");
/// Signals wait from execve() on until the new program says so.
void let_signals_in();

struct Inherited {
  std::optional<Handover> state;
  Descriptors descriptors;
  std::string trouble;                // there was something, and it cannot be used
  std::vector<std::string> unusable;  // names of that: as long as the manager has its copies no program of it ends

  /// Of all services of the state.
  std::size_t programs() const;
  /// Out of the descriptors. None: there is no descriptor of that name.
  Fd take_lock(const std::string& name);
};
/// adopt: the descriptor of the state after an execve(), which stays as it is if that cannot be read; -1: what the
/// service manager kept is looked at.
Inherited inherit(int adopt, Descriptors kept);

}  // namespace pen::master
