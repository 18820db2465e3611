#pragma once
/// The log of a program: one line per event, in Postfix's shape, to syslog, a file, or standard error.
///
/// Use:     log::open({.program = "smtpd", .target = log::Target::file, .path = cfg.maillog_file});
///          log::info("{}: client={}", queue_id, client);
///          Text from outside goes in as it is: the module turns control characters and what is no UTF-8 to '?' and
///          cuts lines at kMaxLine, so a peer can forge neither lines nor terminal sequences.
/// Format:  "Nov 21 08:46:56 host penstock/smtpd[123]: text" (file and standard error; syslog adds its own stamp);
///          warning, error, fatal and panic put the word and ": " before the text, as Postfix does.
/// Levels:  debug, info; warning (the program continues); error (this operation failed); fatal (this process ends);
///          panic (our bug). Library code does not log (style: the program, which knows the meaning, logs).
/// Thread:  every function may be called from any thread. A line is one write() in append mode.
#include <fmt/core.h>

#include <string>
#include <string_view>

#include "lib/base/fd.h"
#include "lib/base/result.h"

namespace pen::log {

enum class Level { debug, info, warning, error, fatal, panic };
enum class Target { standard_error, syslog, file };

// syslog daemons cut at about 2 KiB; longer lines help nobody
inline constexpr std::size_t kMaxLine = 2000;

struct Options {
  std::string program;           // "smtpd"; shown as "<tag>/smtpd"; empty: "<tag>" alone
  std::string tag = "penstock";  // syslog_name
  std::string hostname;          // shown in file lines; empty: gethostname()
  Target target = Target::standard_error;
  std::string path;              // for Target::file
  int syslog_facility = 2 << 3;  // LOG_MAIL
  unsigned mode = 0600;          // of a log file that is made
  bool debug = false;            // whether debug lines are written
};

/// Starts or changes the log; before the first call lines go to standard error.
/// Errors: the file cannot be opened (the log then stays as it was).
Result<void> open(Options options);
/// Opens the log file again after rotation. No effect for other targets.
Result<void> reopen();
/// The descriptor of the log file, which the log keeps; -1: the target is no file.
int descriptor();
/// From now on lines go to this file, which another process opened: for programs that may not open it themselves.
/// No effect for other targets.
void adopt(Fd file);
/// From now on the calling thread's info and debug lines wait in memory for flush(), so that a burst of them costs one
/// write(); lines of higher levels, and of other threads, go out at once with what waits before them. For files only.
/// The thread must call flush() before it waits: async::Loop does, at the end of every turn.
void gather();
/// Writes the lines that gather() kept. Costs nothing if there are none, or in a thread that did not call gather().
void flush();
bool debug_enabled();
void write(Level level, std::string_view text);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (debug_enabled()) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}
/// A warning, as a handler: libraries do not log, and leave it to the program ({.report = log::as_warning}).
inline void as_warning(const std::string& line) { write(Level::warning, line); }
/// Logs and ends the process with exit status 1; master starts it again, paced.
template <class... Args>
[[noreturn]] void fatal(fmt::format_string<Args...> format, Args&&... args);
[[noreturn]] void exit_fatal(std::string_view text);

template <class... Args>
[[noreturn]] void fatal(fmt::format_string<Args...> format, Args&&... args) {
  exit_fatal(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pen::log
